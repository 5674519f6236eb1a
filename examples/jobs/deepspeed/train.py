"""Fit a line to a parabola with DeepSpeed and ZeRO stage 1, on CPUs or GPUs. `mpirun` starts the ranks.

mpigen sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT for each rank, so DeepSpeed needs no launcher and
no hostfile. Each rank has a part of the points and of the optimizer's state. The line fits all points: the points of
one rank alone have another slope.
"""

import socket

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.accelerator import get_accelerator

POINTS = 1_200
STEPS = 150


def points(part: int, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a part of the points of the parabola y = x² + x, from left to right: x and y."""
    x = torch.linspace(-1, 1, POINTS).tensor_split(parts)[part].unsqueeze(1)
    return x, x**2 + x


def main() -> None:
    """Train, and print the model from rank 0."""
    accelerator = get_accelerator()
    deepspeed.init_distributed(accelerator.communication_backend_name())
    rank, world = dist.get_rank(), dist.get_world_size()
    model = torch.nn.Linear(1, 1)
    config = {
        "train_micro_batch_size_per_gpu": POINTS // world,
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}},  # other Adams need a compiler
        "zero_optimization": {"stage": 1},
    }
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
    x, y = (values.to(engine.device) for values in points(rank, world))
    for _ in range(STEPS):
        engine.backward(torch.nn.functional.mse_loss(engine(x), y))
        engine.step()
    pods: list[str] = [""] * world
    dist.all_gather_object(pods, socket.gethostname())
    if rank == 0:
        slope, offset = model.weight.item(), model.bias.item()
        print(f"DeepSpeed on {engine.device.type}: {world} ranks in {len(set(pods))} pods")
        print(f"y = {slope:.2f} x {offset:+.2f}")
    dist.destroy_process_group()


main()
