"""Fit a line to a parabola with PyTorch and Horovod, on CPUs or GPUs. `mpirun` starts the ranks.

Each rank has a part of the points. `DistributedOptimizer` averages the gradients of all ranks before each step. So the
line fits all points: the points of one rank alone have another slope.
"""

import socket

import horovod.torch as hvd
import torch

POINTS = 1_200
STEPS = 60


def points(part: int, parts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a part of the points of the parabola y = x² + x, from left to right: x and y."""
    x = torch.linspace(-1, 1, POINTS).tensor_split(parts)[part].unsqueeze(1)
    return x, x**2 + x


def main() -> None:
    """Train, and print the model from rank 0."""
    hvd.init()
    device = torch.device("cuda", hvd.local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    x, y = (values.to(device) for values in points(hvd.rank(), hvd.size()))
    model = torch.nn.Linear(1, 1).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.3), named_parameters=model.named_parameters()
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(STEPS):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    pods = hvd.allgather_object(socket.gethostname())
    if hvd.rank() == 0:
        slope, offset = model.weight.item(), model.bias.item()
        print(f"Horovod on {device.type}: {hvd.size()} ranks in {len(set(pods))} pods")
        print(f"y = {slope:.2f} x {offset:+.2f}")


main()
