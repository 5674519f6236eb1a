#!/run/mpi/sh
# Replaces mpirun and mpiexec of Hydra, which cannot read Trainer's hostfile. If the command names that hostfile, as commands
# of the Kubeflow SDK do, this program passes the hostfile in /run/mpi instead, which has the same hosts.
for argument do
  shift
  case $argument in
    --hostfile | -hostfile | --machinefile | -machinefile) argument=-f ;;
    /etc/mpi/hostfile) argument=/run/mpi/hostfile ;;
  esac
  set -- "$@" "$argument"
done
PATH=${PATH#/run/mpi/bin:}
# Every pod already has the environment. Intel MPI would overwrite variables of a pod; MPICH reads HYDRA_ENV.
exec "${0##*/}" ${I_MPI_HYDRA_HOST_FILE:+-genvnone} "$@"
