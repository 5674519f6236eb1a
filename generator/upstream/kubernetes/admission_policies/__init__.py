"""Simulation of ValidatingAdmissionPolicies from files, without a cluster.

It follows apiserver v0.34.2 pkg/admission/plugin/policy and apiserver v0.34.2 pkg/admission/plugin/cel, and evaluates
expressions with Google's CEL.
Where mpigen cannot do the same, such as converting objects between versions, it raises NotModelledError.
"""
