"""Networks: what a fabric needs on nodes and in the namespaces of teams, for pods to be attached to it.

Admins own what is done to nodes (sriov, nvidia, openshift, pools): files `cluster/networks/*.yaml`. What lies in a
team's namespaces (attachments, dra): file `tenants/*/network.yaml`. Nodes of Amazon's EFA need nothing of it: the
cloud's device plugin offers the devices, and pods get no interface.
"""
