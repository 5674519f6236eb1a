#!/run/mpi/sh
# Open MPI starts each rank through this program, so that the rank can lock the memory that RDMA uses. A user other than
# root gets a capability only from a file: `setpriv` of the image has it from its file and passes it on to the rank.
if grep -q "^Max locked memory  *unlimited" /proc/self/limits; then
  exec "$@"
fi
# libc removes LD_LIBRARY_PATH and others from a program that gains a capability: set them again for the rank.
. /run/mpi/environment.sh
eval "set -- $(list < /proc/self/environ | words) \"\$@\""
exec setpriv --inh-caps +ipc_lock --ambient-caps +ipc_lock env -i -- "$@"
