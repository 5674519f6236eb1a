"""Upgrades: the steps from the present versions to others, and what each step does to a release and to jobs."""
