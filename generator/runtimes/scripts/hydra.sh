# Trainer writes `host.job slots=4`, Hydra reads `host:4`. The launcher gets its short name: with the long one Intel MPI
# would not recognize this host and would connect to an sshd here. It is first, because other hosts of the launch tree of
# Intel MPI would connect to it.
me=$(uname -n)
{
  grep "^$me\." /etc/mpi/hostfile || true
  grep -v "^$me\." /etc/mpi/hostfile || true
} | sed -e "s/^$me\.[^ ]*/$me/" -e 's/ slots=/:/' > hostfile
