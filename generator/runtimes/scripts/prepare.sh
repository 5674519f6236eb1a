# Runs in an init container before mpirun or sshd, and writes the files of /run/mpi for any user.
set -eu
cd /run/mpi
mkdir bin

# ssh and sshd reject a user without a name. This file is mounted over /etc/passwd.
user=$(id -u)
{
  grep -v -e '^mpiuser:' -e "^[^:]*:[^:]*:$user:" /etc/passwd || true
  echo "mpiuser:x:$user:$(id -g):MPI:/home/mpiuser:/bin/sh"
} > passwd

# The shell of sessions and ranks: bash if the image has it, because dash drops variables whose names are no identifiers.
ln -s "$(command -v bash || echo /bin/sh)" sh
