"""Argo CD: the project and the application that point at one release, and the waves that order it."""
