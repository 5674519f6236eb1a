"""platform.yaml or mpigen_platform.py → Platform: frozen models, every error at once, with its place and its fix."""
