"""Checks fabric/*: second networks and RDMA devices, from the operators down to the variables of a rank."""
