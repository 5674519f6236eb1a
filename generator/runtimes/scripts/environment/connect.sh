#!/bin/sh
# ssh runs this to connect to a host (`ProxyCommand` in ssh_config). It logs in to the host and sends the environment of
# the ssh that runs it. Then it connects this ssh to an sshd that gives the environment to its sessions.
# `SendEnv` cannot do that: sshd accepts 128 variables and drops all others silently (OpenSSH 9.2 session.c).
. /run/mpi/environment.sh
# Daemons of Open MPI 5 that start further daemons know only the first label of a name (prrte v3.0.11 src/util/nidmap.c). In
# DNS, a pod also has the subdomain of its job, which the kubelet writes to /etc/hosts of all pods of the job.
host=$1 me=$(uname -n)
shift
case $host in
  *[.:]*) ;;
  *) host=$host$(sed -n "s/^[^#]*[[:space:]]$me\(\.[^.[:space:]]*\).*/\1/p" /etc/hosts | head -n 1) ;;
esac
variables=$(list < "/proc/$PPID/environ" | base64)
if [ -z "$variables" ]; then
  echo "cannot read the environment of ssh from \`/proc/$PPID/environ\`. Ranks on other hosts would lack all variables, so" \
    "ssh connects to no host. Use a container runtime that provides this file." >&2
  exit 1
fi
sum=$(echo "$variables" | base64 -d | shared | digest)
folder=$(mktemp -d /run/mpi/connect.XXXXXX) && mkfifo "$folder/pipe" "$folder/errors" || exit 1
exec 3<&0
# ssh sends SIGHUP when it ends. All that runs here then ends by itself, with code 0: `mpiexec` is process 1 of its
# container, and counts the code of every process that loses its parent.
trap '' HUP
{
  rm -r "$folder"
  printf '%s\n' "$sum" "$variables" .
  cat <&3 || true
} > "$folder/pipe" &
ssh=$(readlink "/proc/$PPID/exe")
if [ -p /run/mpi/reports ]; then
  # Daemons of Open MPI 5 close their standard error: a host reports through `receive`, and has time for it before mpirun ends.
  exec 2<> /run/mpi/reports
else
  # The launcher prints the reports. A host that Kubernetes stops reports only this.
  while IFS= read -r line || [ -n "$line" ]; do
    if [ "$line" = mpigen:stopping ]; then /run/mpi/bin/stop notify; else printf '%s\n' "$line"; fi
  done < "$folder/errors" >&2 3<&- &
  exec 2> "$folder/errors"
fi
# Options of the caller precede, because ssh uses the first value. It waits 30 s for a host that drops packets.
"$ssh" -o ProxyCommand=none -T -a -x "$@" -o ConnectTimeout=30 "$host" environment 3<&- < "$folder/pipe"
code=$?
[ "$code" -ne 255 ] || [ ! -p /run/mpi/reports ] || sleep 1
exit "$code"
