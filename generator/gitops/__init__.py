"""Argo CD: the AppProject and the Application of a platform, and the sync wave of each manifest."""
