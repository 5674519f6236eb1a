"""Networks: the objects that connect nodes and pods to a fabric.

Cluster-wide objects are in `cluster/networks/*.yaml` of a release, and the objects in a team's namespaces in
`tenants/*/network.yaml`. Amazon's EFA needs no objects: the device plugin of the cloud offers the devices, and pods get
no interface.
"""
