"""Estimate pi from random points in a square. Each rank draws a part of the points.

The points come in blocks, and the number of a block is the seed of its points. So the result does not depend on the
number of ranks.
"""

from random import Random

from mpi4py import MPI

BLOCKS = 120
POINTS = 10_000  # of a block

world = MPI.COMM_WORLD


def hits(block: int) -> int:
    """Return how many points of a block are in the quarter of a circle with radius 1."""
    random = Random(block)
    return sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in range(POINTS))


def main() -> None:
    """Count the hits of all ranks, and print the estimate from rank 0."""
    mine = range(world.rank, BLOCKS, world.size)
    total = world.reduce(sum(hits(block) for block in mine), MPI.SUM, root=0)
    blocks = world.gather(len(mine), root=0)
    pods = world.gather(MPI.Get_processor_name(), root=0)
    if world.rank == 0:
        print(f"{MPI.get_vendor()[0]}: {world.size} ranks in {len(set(pods))} pods")
        print(f"each rank has {min(blocks)} to {max(blocks)} blocks of {POINTS} points")
        print(f"{total} points are in the circle: pi is about {4 * total / (BLOCKS * POINTS):.3f}")


main()
