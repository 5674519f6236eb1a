#!/bin/sh
# Makes the list of packages of a root filesystem the same as in Docker Hub's image of Debian. That list names a keyring, and apt
# rejects two keyrings for one server.
set -eu
list=$1/etc/apt/sources.list
signed='Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg'
sed -n "s|^deb \([^ ]*\) \([^ ]*\) \(.*\)|Types: deb\nURIs: \1\nSuites: \2\nComponents: \3\n$signed\n|p" "$list" > "$list.d/debian.sources"
rm "$list"
