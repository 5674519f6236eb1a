"""Train with the learning rate in the variable LEARNING_RATE, and print the loss.

Each job of the sweep has its own value of the variable.
"""

import os
from random import Random

from mpi4py import MPI

POINTS = 600
STEPS = 10

world = MPI.COMM_WORLD


def point(number: int) -> tuple[float, float]:
    """Return a point near the line y = 2x. It depends on its number only, so all ranks can compute it."""
    random = Random(number)
    x = random.uniform(-1, 1)
    return x, 2 * x + random.gauss(0, 0.1)


def main() -> None:
    """Fit the slope of the line, and print the mean squared error from rank 0."""
    rate = float(os.environ["LEARNING_RATE"])
    mine = [point(number) for number in range(world.rank, POINTS, world.size)]
    slope = 0.0
    for _ in range(STEPS):
        slope -= rate * world.allreduce(sum(2 * (slope * x - y) * x for x, y in mine)) / POINTS
    loss = world.allreduce(sum((slope * x - y) ** 2 for x, y in mine)) / POINTS
    if world.rank == 0:
        print(f"learning rate {rate}: loss {loss:.4f} after {STEPS} steps on {world.size} ranks")


main()
