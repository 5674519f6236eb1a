# Sets the arguments of mpirun for Hydra, which cannot read Trainer's hostfile. If the command names that hostfile, as commands
# of the Kubeflow SDK do, the hostfile in /run/mpi replaces it, which has the same hosts.
for argument do
  shift
  case $argument in
    --hostfile | -hostfile | --machinefile | -machinefile) argument=-f ;;
    /etc/mpi/hostfile) argument=/run/mpi/hostfile ;;
  esac
  set -- "$@" "$argument"
done
# mpirun may write to a host that has already ended, and would end with 141 instead of the code of its ranks.
# Its ranks on this host inherit the trap. Python ignores SIGPIPE in any case.
trap '' PIPE
if [ "${I_MPI_HYDRA_HOST_FILE-}" = /run/mpi/hostfile ] && [ -z "${I_MPI_PERHOST-}" ]; then
  # Intel MPI 2021.19 starts as many ranks on a host as it has cores, whatever slots the hostfile has. It reads slots only from
  # a machine file, with which it ignores `-ppn`. So it gets a machine file only for hosts with different slots.
  slots=$(sed 's/.*://' /run/mpi/hostfile | sort -u)
  case $slots in
    *[!0-9]*) set -- -machinefile /run/mpi/hostfile "$@" ;;
    *) export I_MPI_PERHOST="$slots" ;;
  esac
fi
# Every pod already has the environment. Intel MPI would overwrite variables of a pod; MPICH reads HYDRA_ENV.
[ -z "${I_MPI_HYDRA_HOST_FILE-}" ] || set -- -genvnone "$@"
