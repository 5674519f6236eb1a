"""The admission pack: the ValidatingAdmissionPolicies of a platform, from rules.yaml, fabric.py and memlock.py."""
