# A gang scheduler starts the hosts and this pod at the same time: wait until ssh connects to every host, so that mpirun
# reaches all of them. The launcher may be in the list, but runs no sshd.
set -eu
once="-o ConnectionAttempts=1 -o ConnectTimeout=5"
me=$(uname -n)
deadline=$(($(date +%s) + ${patience:?}))
while read -r host _; do
  case $host in "$me".*) continue ;; esac
  until answer=$(ssh -n -o BatchMode=yes -o "ProxyCommand=/run/mpi/bin/connect $once -p %p %h" "$host" true 2>&1); do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      echo "ssh did not connect to $host within $patience s: $answer" >&2
      exit 1
    fi
    sleep 1
  done
done < /etc/mpi/hostfile
