"""What Kueue makes of manifests: who may have how much, which jobs it admits. It reads manifests and nothing else."""
