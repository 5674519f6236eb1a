"""platform.yaml or platform.py → Platform: frozen models, every error at once, with its place and its fix."""
