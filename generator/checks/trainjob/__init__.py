"""Checks trainjob/*: TrainJobs that Trainer or Kueue rejects, or that run otherwise than their author expects."""
