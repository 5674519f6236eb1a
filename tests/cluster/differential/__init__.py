"""The differential corpus: mutated manifests, and what mpigen and a real API server say about each."""
