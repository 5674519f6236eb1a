"""ValidatingAdmissionPolicies judged without a cluster: by the rules that are in files.

What the API server does is in k8s.io/apiserver v0.34.2 pkg/admission/plugin/{policy,cel}; expressions are evaluated by
Google's own CEL. What it does that is not done here (converting objects between versions) is an error of the policy
that needs it, never a verdict.
"""
