# Runs in an init container before mpirun or sshd, and writes the files of /run/mpi for any user. A restart of the node starts
# this container again, so the files may exist.
set -eu
cd /run/mpi
mkdir -p bin

# ssh and sshd reject a user without a name. This file is mounted over /etc/passwd.
user=$(id -u)
{
  grep -v -e '^mpiuser:' -e "^[^:]*:[^:]*:$user:" /etc/passwd || true
  echo "mpiuser:x:$user:$(id -g):MPI:/home/mpiuser:/bin/sh"
} > passwd
