save() { (umask 077 && cat > /run/mpi/environment); }
save < /proc/self/environ
exec /usr/sbin/sshd -D -e -f /run/mpi/sshd_config
