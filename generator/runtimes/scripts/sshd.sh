export -p > /run/mpi/environment
exec /usr/sbin/sshd -D -e -f /run/mpi/sshd_config
