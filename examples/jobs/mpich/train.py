"""Find the centers of three groups of points (k-means). Each rank has a part of the points.

In each round, a rank assigns its points to the nearest center. `allreduce` adds the sums of all ranks, so all ranks
move the centers to the same places.
"""

from random import Random

from mpi4py import MPI

POINTS = 3_000
NEAR = 1e-6
GROUPS = [(0.0, 0.0), (4.0, 1.0), (1.0, 5.0)]

world = MPI.COMM_WORLD


def point(number: int) -> complex:
    """Return a point near the center of its group, as x + yi. It depends on its number only."""
    random = Random(number)
    x, y = GROUPS[number % len(GROUPS)]
    return complex(random.gauss(x, 1.5), random.gauss(y, 1.5))


def main() -> None:
    """Move the centers until they stay, and print them from rank 0."""
    mine = [point(number) for number in range(world.rank, POINTS, world.size)]
    centers = [point(number) for number in range(len(GROUPS))]
    moved, rounds = 1.0, 0
    while moved > NEAR:
        sums, counts = [0j] * len(centers), [0] * len(centers)
        for each in mine:
            nearest = min(range(len(centers)), key=lambda number: abs(each - centers[number]))
            sums[nearest] += each
            counts[nearest] += 1
        totals = [world.allreduce(part) for part in sums]
        sizes = [world.allreduce(count) for count in counts]
        before, centers = centers, [total / size for total, size in zip(totals, sizes, strict=True)]
        moved = max(abs(new - old) for new, old in zip(centers, before, strict=True))
        rounds += 1
    pods = len(set(world.allgather(MPI.Get_processor_name())))
    if world.rank == 0:
        print(f"{MPI.get_vendor()[0]}: {world.size} ranks in {pods} pods")
        print(f"the centers stay after {rounds} rounds")
        for center, size in zip(centers, sizes, strict=True):
            print(f"center ({center.real:.2f}, {center.imag:.2f}) has {size} points")


main()
