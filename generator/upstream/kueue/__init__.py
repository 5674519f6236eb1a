"""Simulation of Kueue: the quota that each queue has, the largest jobs, and the jobs that it admits."""
