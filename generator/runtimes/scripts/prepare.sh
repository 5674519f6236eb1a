# Runs in a container of its own before mpirun or sshd: writes to /run/mpi what they need, whatever user the cluster chose.
set -eu
cd /run/mpi
mkdir bin

# ssh and sshd refuse a user without a name. This is mounted over /etc/passwd.
user=$(id -u)
{
  grep -v -e '^mpiuser:' -e "^[^:]*:[^:]*:$user:" /etc/passwd || true
  echo "mpiuser:x:$user:$(id -g):MPI:/home/mpiuser:/bin/sh"
} > passwd

# The shell of sessions and ranks: bash if there is one, since dash drops variables whose names are no identifiers.
ln -s "$(command -v bash || echo /bin/sh)" sh
