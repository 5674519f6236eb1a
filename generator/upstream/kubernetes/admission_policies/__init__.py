"""Simulation of ValidatingAdmissionPolicies from files, without a cluster.

It follows the packages `policy` and `cel` of the API server, which its modules cite, and evaluates
expressions with Google's CEL.
Where mpigen cannot do the same, such as converting objects between versions, it raises NotModelledError.
"""
