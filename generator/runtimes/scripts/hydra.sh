# Trainer writes `host slots=4`, Hydra reads `host:4`. Nodes have no hostfile: only the launcher needs one.
if [ -e /etc/mpi/hostfile ]; then sed 's/ slots=/:/' /etc/mpi/hostfile > hostfile; fi
