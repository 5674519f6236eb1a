"""Admission: what the API server refuses, whoever asks for it, one module for each rule of `policies.admission`."""
