"""Adoption of the checks by a repository: settings, selection, waivers, baseline and changed files."""
