#!/bin/sh
# Runs the command of an ssh session. Its environment is that of the file $1, without the variables that sshd sets.
eval "set -- $(cat "$1")"
exec env -i -- "$@" /run/mpi/sh ${SSH_ORIGINAL_COMMAND+-c "$SSH_ORIGINAL_COMMAND"}
