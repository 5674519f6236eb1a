#!/bin/sh
# What Debian must have so that tests can run pods: root filesystems are made with mmdebstrap, networks with iproute2 and nftables.
# containerd, runc and CNI plugins are for the tests with a kubelet. Their services need not run.
set -eu
apt-get update
apt-get install --yes --no-install-recommends \
  containerd containernetworking-plugins debian-archive-keyring iproute2 mmdebstrap nftables runc util-linux
