"""The state of existing TrainJobs, from an export of a cluster: `mpigen job status`."""
