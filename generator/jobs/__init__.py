"""Jobs: new TrainJobs for the runtimes of a platform, their largest size, and the state of existing TrainJobs."""
