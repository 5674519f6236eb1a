#!/bin/sh
# Builds `ssh` and `sshd` from the source package of Debian 12 as static programs, and the program `copy`. Run it as root in
# a root filesystem of Debian 12. It writes the programs to /image/openssh. This folder has the other files it needs.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
# The servers of the packages also have their sources.
for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
  [ ! -f "$list" ] || sed -i -e 's/^Types: deb$/Types: deb deb-src/' -e 's/^deb \(.*\)/&\ndeb-src \1/' "$list"
done
apt-get -qq update
apt-get -qq install --yes --no-install-recommends \
  autoconf automake dpkg-dev gcc libc6-dev libcrypt-dev libssl-dev make zlib1g-dev > /dev/null
mkdir -p /build /image/openssh
cd /build
apt-get -qq -o APT::Sandbox::User=root source openssh
cd openssh-*/
cc -O2 -c "$here/nss.c"
autoreconf -f -i
# No program of the image belongs to OpenSSH, so ssh and sshd use only files that mpigen and Trainer write.
./configure --prefix=/usr --sysconfdir=/etc/ssh --with-default-path=/usr/local/bin:/usr/bin:/bin \
  --with-privsep-path=/run/mpi --with-privsep-user=nobody --without-pie \
  --without-audit --without-kerberos5 --without-ldns --without-libedit --without-pam --without-selinux \
  --disable-lastlog --disable-pkcs11 --disable-security-key --disable-utmp --disable-utmpx --disable-wtmp --disable-wtmpx \
  LDFLAGS=-static LIBS="$PWD/nss.o" > configure.log
make -j "$(nproc)" ssh sshd > make.log 2>&1 || { tail -n 30 make.log >&2; exit 1; }
strip -o /image/openssh/ssh ssh
strip -o /image/openssh/sshd sshd
cc -O2 -static -s -o /image/copy "$here/copy.c"
cp LICENCE /image/openssh/LICENCE
dpkg-parsechangelog -S Version > /image/openssh/version
