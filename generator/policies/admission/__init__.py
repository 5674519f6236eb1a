"""The admission pack: the ValidatingAdmissionPolicies of a platform, from rules/."""
