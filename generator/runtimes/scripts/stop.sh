#!/bin/sh
# Gives the ranks of the job time to save, because sshd and mpirun would end at once and with them all ranks. The first lines
# are the declarations of the runtime. The argument is:
#   none    the kubelet runs this before it ends the container (`preStop`): all ranks get TERM, and this waits for their end.
#           Process 1 gets TERM afterwards, and the container ends with process 1
#   notify  `connect` of the launcher runs this when a host stops: the other ranks get TERM
#   signal  the launcher or another host runs this here: the ranks of this pod and of the hosts that follow this word get TERM
grace=${grace:?} mpirun_ends=${mpirun_ends:?} daemons=${daemons:?}
deadline=$(($(date +%s) + grace - mpirun_ends))
width=32

# Print the child processes of $1.
children() { echo "$processes" | sed -n "s/^\([0-9]*\) $1 .*/\1/p"; }

# Print the process that gets TERM: $1, or the programs that it runs if it is a shell. A shell without a trap for TERM would
# end at once, before its program. Programs signal their own helpers, such as processes that load data.
receivers() {
  program=$(readlink "/proc/$1/exe" 2> /dev/null) || program=$(echo "$processes" | sed -n "s/^$1 [0-9]* //p")
  caught=$(sed -n 's/^SigCgt:.*\(.\)...$/\1/p' "/proc/$1/status" 2> /dev/null)
  case ${program##*/}/$caught in
    sh/[4-7c-f] | *sh/[4-7c-f]) echo "$1" ;;
    sh/* | bash/* | dash/* | ash/* | ksh*/* | zsh/* | busybox/*)
      if [ -z "$(children "$1")" ]; then echo "$1"; else for child in $(children "$1"); do (receivers "$child"); done; fi ;;
    *) echo "$1" ;;
  esac
}

# Print the ranks of this pod: the processes that a daemon of MPI or mpirun started.
ranks() {
  echo "$processes" | while read -r process _ name; do
    echo "$name" | grep -Eqx "$daemons" || continue
    for child in $(children "$process"); do
      echo "$processes" | grep -Eqx "$child [0-9]+ (ssh|$daemons)" || receivers "$child"
    done
  done
}

# Send TERM to each rank of this pod once.
signal() {
  # Process, its parent, and its name, without processes that have ended.
  processes=$(sed -n 's/^\([0-9]*\) (\(.*\)) [^ZX] \([0-9]*\) .*/\1 \3 \2/p' /proc/[0-9]*/stat 2> /dev/null)
  for rank in $(ranks); do
    mkdir "/run/mpi/signalled/$rank" 2> /dev/null || continue
    echo "stop: sends TERM to rank process $rank"
    kill -TERM "$rank"
  done
}

# Let the first of these hosts signal its ranks and the other hosts. If it does not answer, ask the next host.
ask() {
  while [ $# -gt 0 ]; do
    first=$1
    shift
    "${ssh:?}" -n -o BatchMode=yes -o "ProxyCommand=/run/mpi/bin/connect %h -o ConnectTimeout=5 -p %p" "$first" \
      /run/mpi/bin/stop signal "$@" > /dev/null 2>&1 && return
  done
}

# Send TERM to the ranks of these hosts, through at most `width` of them.
spread() {
  share=$((($# + width - 1) / width))
  while [ $# -gt 0 ]; do
    hosts='' number=0
    while [ $# -gt 0 ] && [ "$number" -lt "$share" ]; do
      hosts="$hosts $1" number=$((number + 1))
      shift
    done
    # shellcheck disable=SC2086 # names of hosts have no spaces
    ask $hosts &
  done
  wait
}

# On a host: report to the launcher, by `receive`. On the launcher: signal the ranks of all hosts.
announce() {
  : > /run/mpi/stopping
  if [ -z "${is_launcher?}" ]; then
    [ ! -p /run/mpi/reports ] || echo mpigen:stopping 1<> /run/mpi/reports
    return
  fi
  mkdir /run/mpi/spread 2> /dev/null || return 0
  me=$(uname -n)
  # shellcheck disable=SC2046
  spread $(sed -e "/^$me\./d" -e 's/ .*//' /etc/mpi/hostfile)
}

mkdir -p /run/mpi/signalled
case ${1:-wait} in
  wait) announce & ;;
  notify) announce & signal; wait; exit ;;
  signal) shift; spread "$@" & signal; wait; exit 0 ;;
esac
while signal; [ "$(date +%s)" -lt "$deadline" ]; do
  # Worker pods end when all sessions of ssh have ended, because other hosts use their daemon.
  running="^[0-9]+ ([2-9]|1[0-9])[0-9]* sshd"
  [ -z "$is_launcher" ] || running="^[0-9]+ [0-9]+ ($daemons)$"
  echo "$processes" | grep -Eq "$running" || break
  sleep 1
done
