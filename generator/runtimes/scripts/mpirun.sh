#!/run/mpi/sh
# Stands for mpirun and mpiexec of Hydra, which cannot read Trainer's hostfile: a command that names it, as the Kubeflow SDK
# does, gets ours, which says the same.
for argument do
  shift
  case $argument in
    --hostfile | -hostfile | --machinefile | -machinefile) argument=-f ;;
    /etc/mpi/hostfile) argument=/run/mpi/hostfile ;;
  esac
  set -- "$@" "$argument"
done
PATH=${PATH#/run/mpi/bin:}
# Every host has the environment already. Intel MPI would overwrite there what belongs to the host; MPICH reads HYDRA_ENV.
exec "${0##*/}" ${I_MPI_HYDRA_HOST_FILE:+-genvnone} "$@"
