#!/bin/sh
# Without mpigen only: gives the random user id that OpenShift assigns a name, on which ssh and sshd insist. /etc/passwd is
# writable by group 0, in which such a user is. mpigen mounts a passwd of its own and needs neither this file nor that right.
set -eu

uid=$(id -u)
if ! getent passwd "$uid" >/dev/null && [ -w /etc/passwd ]; then
    passwd=$(sed "s/^mpiuser:x:1000:/mpiuser:x:$uid:/" /etc/passwd)
    printf '%s\n' "$passwd" >/etc/passwd
fi
exec "$@"
