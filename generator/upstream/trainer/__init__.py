"""Kubeflow Trainer: the webhook, and the JobSet of a TrainJob."""
