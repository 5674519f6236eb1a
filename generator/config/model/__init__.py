"""The sections of platform.yaml, each as one frozen model. A model imports no rule and not the Platform."""
