"""Fit a line to noisy points by gradient descent. Each rank has a part of the points.

In each step, all ranks compute the gradient of their own points. `allreduce` adds the gradients, so all ranks take the
same step and keep the same model.
"""

from random import Random

from mpi4py import MPI

POINTS = 6_000
STEPS = 100
RATE = 0.1

world = MPI.COMM_WORLD


def point(number: int) -> tuple[float, float]:
    """Return a point near the line y = 3x - 1. It depends on its number only, so all ranks can compute it."""
    random = Random(number)
    x = random.uniform(-1, 1)
    return x, 3 * x - 1 + random.gauss(0, 0.1)


def gradient(points: list[tuple[float, float]], slope: float, offset: float) -> tuple[float, float, float]:
    """Return the derivatives of the loss by slope and by offset, and the loss: the sum of the squared errors."""
    by_slope = by_offset = loss = 0.0
    for x, y in points:
        error = slope * x + offset - y
        by_slope, by_offset, loss = by_slope + 2 * error * x, by_offset + 2 * error, loss + error**2
    return by_slope, by_offset, loss


def main() -> None:
    """Train, and print the model from rank 0."""
    mine = [point(number) for number in range(world.rank, POINTS, world.size)]
    slope = offset = 0.0
    for step in range(1, STEPS + 1):
        by_slope, by_offset, loss = (world.allreduce(part) / POINTS for part in gradient(mine, slope, offset))
        slope, offset = slope - RATE * by_slope, offset - RATE * by_offset
        if world.rank == 0 and step % 25 == 0:
            print(f"step {step}: loss {loss:.4f}", flush=True)
    pods = len(set(world.allgather(MPI.Get_processor_name())))
    if world.rank == 0:
        print(f"{MPI.get_vendor()[0]}: {world.size} ranks in {pods} pods")
        print(f"y = {slope:.2f} x {offset:+.2f}")


main()
