# Trainer writes `host.job slots=4`, Hydra reads `host:4`. The launcher goes by its bare name: Intel MPI would not know
# itself by the other, and look for an sshd here.
me=$(uname -n)
sed -e "s/^$me\.[^ ]*/$me/" -e 's/ slots=/:/' /etc/mpi/hostfile > hostfile
