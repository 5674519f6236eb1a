"""Jobs: new TrainJobs for the runtimes of a platform, their largest size, and descriptions of runtimes and fabrics."""
