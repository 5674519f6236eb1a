"""Read platform.yaml or mpigen_platform.py into a Platform, or report every mistake with its place and its fix."""
