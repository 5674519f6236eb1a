# This image holds no program that calls MPI: the test is that mpirun starts every rank on every host.
set -eu
started=$(mktemp)
mpirun uname -n > "$started" || { echo "FAIL: mpirun"; exit 1; }
sort "$started" | uniq -c
ranks=$(wc -l < "$started") hosts=$(sort -u "$started" | wc -l)
if [ "$ranks $hosts" != "$2 $1" ]; then
  echo "FAIL: mpirun started $ranks ranks on $hosts hosts; $2 ranks on $1 hosts were to start"
  exit 1
fi
echo "PASS: mpirun started $ranks ranks on $hosts hosts; no allreduce, for which the image has no program"
