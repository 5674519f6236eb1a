"""Argo CD: the AppProjects and Applications of a platform, health checks, and the sync wave of each manifest."""
