# This image holds no program that calls MPI: the test is that mpirun starts every rank on every host.
set -eu
started=$(mktemp)
# mpirun of Open MPI 5.0.11 may not end after ranks that end within milliseconds.
mpirun sh -c 'uname -n && sleep 1' > "$started" || {
  echo "FAIL: mpirun ended with an error, so jobs on this runtime fail too. Read its message above."
  exit 1
}
sort "$started" | uniq -c
ranks=$(wc -l < "$started") hosts=$(sort -u "$started" | wc -l)
if [ "$ranks $hosts" != "$2 $1" ]; then
  echo "FAIL: mpirun started $ranks ranks on $hosts hosts instead of $2 ranks on $1 hosts, so jobs would leave devices idle." \
    "Compare /etc/mpi/hostfile with \`numNodes\` of the TrainJob and \`processesPerNode\` of the runtime."
  exit 1
fi
echo "PASS: mpirun started $ranks ranks on $hosts hosts. The image has no program that calls MPI, so no allreduce was tested."
