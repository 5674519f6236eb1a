"""Networks: the objects that connect nodes and pods to a fabric.

Admins own the objects for nodes (sriov, nvidia, openshift, pools): files `cluster/networks/*.yaml`. The objects in a
team's namespaces (attachments, dra) are in `tenants/*/network.yaml`. Amazon's EFA needs no objects: the device plugin
of the cloud offers the devices, and pods get no interface.
"""
