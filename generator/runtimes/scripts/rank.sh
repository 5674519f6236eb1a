#!/run/mpi/sh
# Open MPI starts each rank through this program, which sets the variables from which PyTorch, DeepSpeed and Megatron read
# their rank.
job=$(uname -n | sed -E 's/-(node|launcher)-[0-9]+-[0-9]+$//')
export RANK="$OMPI_COMM_WORLD_RANK" WORLD_SIZE="$OMPI_COMM_WORLD_SIZE"
export LOCAL_RANK="$OMPI_COMM_WORLD_LOCAL_RANK" LOCAL_WORLD_SIZE="$OMPI_COMM_WORLD_LOCAL_SIZE"
export CCL_LOCAL_RANK="$LOCAL_RANK" CCL_LOCAL_SIZE="$LOCAL_WORLD_SIZE"
export MASTER_ADDR="${MASTER_ADDR:-$job-node-0-0.$job}" MASTER_PORT="${MASTER_PORT:-29500}"
exec "$@"
