#!/run/mpi/sh
# Replaces mpirun and mpiexec of Hydra, which cannot read Trainer's hostfile: in a command that names it, as the Kubeflow SDK
# does, this program names the hostfile of /run/mpi with the same hosts.
for argument do
  shift
  case $argument in
    --hostfile | -hostfile | --machinefile | -machinefile) argument=-f ;;
    /etc/mpi/hostfile) argument=/run/mpi/hostfile ;;
  esac
  set -- "$@" "$argument"
done
PATH=${PATH#/run/mpi/bin:}
# Every host has the environment already. Intel MPI would overwrite the variables of the host; MPICH reads HYDRA_ENV.
exec "${0##*/}" ${I_MPI_HYDRA_HOST_FILE:+-genvnone} "$@"
