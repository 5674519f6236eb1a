#!/run/mpi/sh
# Open MPI starts each rank through this, so that it may lock the memory that RDMA asks for. Without being root nobody has
# a capability for the asking: `setpriv` of the image has it from its file, and hands it on to what it starts.
if grep -q "^Max locked memory  *unlimited" /proc/self/limits; then
  exec "$@"
fi
# From a program that gains something libc takes LD_LIBRARY_PATH and others away: what it starts gets them back.
. /run/mpi/environment.sh
eval "set -- $(list < /proc/self/environ | words) \"\$@\""
exec setpriv --inh-caps +ipc_lock --ambient-caps +ipc_lock env -i -- "$@"
