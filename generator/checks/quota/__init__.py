"""Checks quota/*: queues, cohorts and flavors of Kueue, and the jobs that come to them."""
