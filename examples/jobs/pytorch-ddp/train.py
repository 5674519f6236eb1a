"""Fit a line to a parabola with DistributedDataParallel (DDP), on CPUs or GPUs. `mpirun` starts the ranks.

mpigen sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each rank, so `init_process_group` needs no
arguments about the job. Each rank has a part of the points, and DDP averages the gradients of all ranks. So the line
fits all points: the points of one rank alone have another slope.
"""

import os
import socket

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

POINTS = 1_200
STEPS = 60


def points(part: int, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a part of the points of the parabola y = x² + x, from left to right: x and y."""
    x = torch.linspace(-1, 1, POINTS).tensor_split(parts)[part].unsqueeze(1)
    return x, x**2 + x


def main() -> None:
    """Train, and print the model from rank 0."""
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = (values.to(device) for values in points(rank, world))
    model = DistributedDataParallel(torch.nn.Linear(1, 1).to(device), device_ids=[device] if on_gpu else None)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    pods: list[str] = [""] * world
    dist.all_gather_object(pods, socket.gethostname())
    if rank == 0:
        slope, offset = model.module.weight.item(), model.module.bias.item()
        print(f"DDP with {dist.get_backend()} on {device.type}: {world} ranks in {len(set(pods))} pods")
        print(f"y = {slope:.2f} x {offset:+.2f}")
    dist.destroy_process_group()


main()
