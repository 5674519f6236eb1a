#!/bin/sh
# Hydra cannot read Trainer's hostfile. Whoever names it, as the Kubeflow SDK does, gets ours, which says the same.
for argument do
  shift
  case $argument in
    --hostfile | -hostfile | --machinefile | -machinefile) argument=-f ;;
    /etc/mpi/hostfile) argument=/run/mpi/hostfile ;;
  esac
  set -- "$@" "$argument"
done
PATH=${PATH#/run/mpi/bin:}
exec mpirun "$@"
