save() { (umask 077 && cat > /run/mpi/environment); }
save < /proc/self/environ
# sshd ends with code 0 on TERM (OpenSSH 9.2 sshd.c). The Job controller counts a pod that ends with 0 as completed, also after
# its deletion, so a resumed job would lack this host: end with the code of stopped pods.
trap 'kill "$sshd"; exit 75' TERM
/usr/sbin/sshd -D -e -f /run/mpi/sshd_config &
sshd=$!
wait "$sshd"
