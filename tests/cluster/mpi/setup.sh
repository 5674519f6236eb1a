#!/bin/sh
# What Debian must have so that tests can run pods: root filesystems are made with mmdebstrap, networks with iproute2 and nftables.
set -eu
apt-get update
apt-get install --yes --no-install-recommends debian-archive-keyring iproute2 mmdebstrap nftables util-linux
