"""The admission pack: one module for each topic of `policies.admission`."""
