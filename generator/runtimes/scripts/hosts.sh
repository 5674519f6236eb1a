# Waits in the launcher pod until mpirun can reach all hosts of the hostfile. DNS must have their names, and the name of this
# pod: without it, Open MPI does not recognize itself in the hostfile (kubeflow/trainer#3783). ssh fails at once if DNS lacks a
# name. A gang scheduler starts all pods at the same time, so the launcher also waits until ssh connects (`gang`).
set -eu
once="-o ConnectionAttempts=1 -o ConnectTimeout=5"
me=$(uname -n)
deadline=$(($(date +%s) + ${patience:?}))

# Try once to reach a host, and print the reason of a failure. The launcher may be in the hostfile, but runs no sshd.
reach() {
  case ${gang?}/$1 in
    /* | "yes/$me".*) getent hosts "$1" > /dev/null || { echo "DNS has no address for this name" && return 1; } ;;
    *) ssh -n -o BatchMode=yes -o "ProxyCommand=/run/mpi/bin/connect %h $once -p %p" "$1" true ;;
  esac
}

await() {
  until answer=$(reach "$1" 2>&1); do
    if [ "$(date +%s)" -ge "$deadline" ]; then
      echo "the launcher did not reach \`$1\` within $patience s: $(printf %s "$answer" | tr -s '\r\n' ' '). mpirun would start no" \
        "rank on this host, so the launcher stops and the job fails. Read the log of the pod whose name starts with" \
        "\`${1%%.*}\`, and check that NetworkPolicies allow DNS, and ssh between the pods of the job." >&2
      exit 1
    fi
    sleep 1
  done
}

# Fail if one of the hosts failed that were started together.
finish() {
  failed=''
  for process in $processes; do wait "$process" || failed=yes; done
  processes='' count=0
  [ -z "$failed" ] || exit 1
}

processes='' count=0
while read -r host _; do
  await "$host" &
  processes="$processes $!" count=$((count + 1))
  [ "$count" -lt 32 ] || finish
done < /etc/mpi/hostfile
finish
