# A gang scheduler starts the worker pods and this launcher pod at the same time: wait until ssh connects to every worker
# pod, so that mpirun reaches all of them. The launcher may be in the hostfile, but runs no sshd.
set -eu
once="-o ConnectionAttempts=1 -o ConnectTimeout=5"
me=$(uname -n)
deadline=$(($(date +%s) + ${patience:?}))
while read -r host _; do
  case $host in "$me".*) continue ;; esac
  until answer=$(ssh -n -o BatchMode=yes -o "ProxyCommand=/run/mpi/bin/connect %h $once -p %p" "$host" true 2>&1); do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      echo "ssh did not connect to \`$host\` within $patience s: $(printf %s "$answer" | tr '\n' ' '). mpirun would start no" \
        "rank on this host, so the launcher stops and the job fails. Read the log of the pod whose name starts with" \
        "\`${host%%.*}\`, and check that NetworkPolicies allow ssh between the pods of the job." >&2
      exit 1
    fi
    sleep 1
  done
done < /etc/mpi/hostfile
