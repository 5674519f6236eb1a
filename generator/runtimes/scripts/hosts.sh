# A scheduler of gangs starts the hosts and this pod at the same time: wait until ssh gets into every host, so that
# mpirun finds them all. Nobody listens on the launcher itself, which may be in the list.
set -eu
once="-o ConnectionAttempts=1 -o ConnectTimeout=5"
me=$(uname -n)
deadline=$(($(date +%s) + ${patience:?}))
while read -r host _; do
  case $host in "$me".*) continue ;; esac
  until answer=$(ssh -n -o BatchMode=yes -o "ProxyCommand=/run/mpi/bin/connect $once -p %p %h" "$host" true 2>&1); do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      echo "gave up after $patience s, as ssh does not get into $host: $answer" >&2
      exit 1
    fi
    sleep 1
  done
done < /etc/mpi/hostfile
