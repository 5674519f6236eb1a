# Trainer writes `host.job slots=4`, Hydra reads `host:4`. The launcher gets its short name: with the long one Intel MPI
# would not recognize this host and would connect to an sshd here.
me=$(uname -n)
sed -e "s/^$me\.[^ ]*/$me/" -e 's/ slots=/:/' /etc/mpi/hostfile > hostfile
