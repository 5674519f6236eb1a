"""OpenShift: the admission of pods by SecurityContextConstraints."""
