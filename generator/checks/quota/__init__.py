"""Checks quota/*: queues, cohorts and flavors of Kueue, and the jobs in the queues."""
