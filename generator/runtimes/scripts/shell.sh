#!/bin/sh
# The shell of ssh sessions and ranks: bash if the image of this container has it, because dash drops variables whose names are
# no identifiers. /bin/sh may be dash, so this script takes the variables from /proc.
bash=$(command -v bash) || exec /bin/sh "$@"
set -- "$bash" "$@"
. /run/mpi/environment.sh
variables=$(list < /proc/self/environ | words)
eval "set -- $variables \"\$@\""
exec env -i -- "$@"
