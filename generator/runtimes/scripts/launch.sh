# Runs the launcher of the image with these arguments and with the PATH of the image. It ends with code 75 if pods of the job
# were stopped, because mpirun can end with 0 then, and the job would be Complete.
name=${0##*/}
case $PATH in
  *"${path:?}"*) read -r own < /run/mpi/path && PATH=${PATH%%"$path"*}$own:${others:?}${PATH#*"$path"} ;;
  */run/mpi/bin:*) PATH=${PATH%%/run/mpi/bin:*}${PATH#*/run/mpi/bin:} ;;
esac
if ! command -v "$name" > /dev/null; then
  echo "$name: the image has no such program in \`$PATH\`, so no rank starts and the job fails. Use an image with the MPI of" \
    "the runtime, or set \`PATH\` in \`environment\` of the runtime." >&2
  exit 127
fi
[ -z "${MPIGEN_CHECKPOINT:-}" ] || mkdir -p "$MPIGEN_CHECKPOINT"
child='' code=75
if [ ! -e /run/mpi/stopping ]; then
  trap '[ -z "$child" ] || kill -HUP "$child" 2> /dev/null' HUP
  trap '[ -z "$child" ] || kill -INT "$child" 2> /dev/null' INT
  trap '[ -z "$child" ] || kill -QUIT "$child" 2> /dev/null' QUIT
  trap '[ -z "$child" ] || kill -TERM "$child" 2> /dev/null' TERM
  trap '[ -z "$child" ] || kill -USR1 "$child" 2> /dev/null' USR1
  trap '[ -z "$child" ] || kill -USR2 "$child" 2> /dev/null' USR2
  (
    trap - INT QUIT # which shells ignore in the background
    exec "$name" "$@"
  ) <&0 &
  child=$!
  while :; do
    code=0
    wait "$child" || code=$?
    kill -0 "$child" 2> /dev/null || break # else a signal interrupted `wait`
  done
  trap - HUP INT QUIT TERM USR1 USR2
fi

# If a host was stopping, `connect` may still read its report.
tries=0
while [ ! -e /run/mpi/stopping ] && grep -qsx connect /proc/[0-9]*/comm && [ "$tries" -lt 5 ]; do
  sleep 1
  tries=$((tries + 1))
done
if [ -e /run/mpi/stopping ]; then
  message="Kubernetes stopped pods of this job: it evicted, preempted, drained or deleted them. $name ended with code $code, and the \
launcher ends with code 75, so the job is not complete. A restarted job resumes from its last checkpoint, if its program saved one."
  echo "$name: $message" >&2
  echo "$message" 2> /dev/null > /dev/termination-log
  exit 75
fi
[ "$code" -ne 75 ] || code=1 # 75 is for stopped jobs alone
exit "$code"
