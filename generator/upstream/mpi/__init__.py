"""The ranks that a TrainJob starts: the commands of a container, their launcher, and the number of ranks.

`commands` reads the command of a container, `launch` the options of a launcher such as `mpirun`, and `world` computes
the ranks of each pod. Each module returns None for a command that mpigen cannot read exactly.
"""
