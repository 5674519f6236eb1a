// Heat a rod at one end: its ends have 0 and 100 degrees. Each rank has a part of the rod.
//
// In each step, a rank sends its outer cells to its neighbors, and receives the outer cells of its neighbors (MPI_Sendrecv).
// MPI_Allreduce finds the largest change of all ranks.
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 120, STEPS = 400, STEPS_PER_REPORT = 100 };

int main(int count, char **words) {
  MPI_Init(&count, &words);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size > CELLS) {
    fprintf(stderr, "%d ranks are too many for %d cells\n", size, CELLS);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  int mine = CELLS * (rank + 1) / size - CELLS * rank / size;
  int left = rank > 0 ? rank - 1 : MPI_PROC_NULL, right = rank < size - 1 ? rank + 1 : MPI_PROC_NULL;
  // Cells 0 and mine + 1 are copies of the neighbors' cells, or the ends of the rod, which stay as they are.
  double *now = calloc(mine + 2, sizeof *now), *next = calloc(mine + 2, sizeof *next);
  if (right == MPI_PROC_NULL) now[mine + 1] = next[mine + 1] = 100;
  for (int step = 1; step <= STEPS; step++) {
    MPI_Sendrecv(&now[1], 1, MPI_DOUBLE, left, 0, &now[mine + 1], 1, MPI_DOUBLE, right, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Sendrecv(&now[mine], 1, MPI_DOUBLE, right, 0, &now[0], 1, MPI_DOUBLE, left, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    double change = 0, largest;
    for (int cell = 1; cell <= mine; cell++) {
      next[cell] = (now[cell - 1] + now[cell + 1]) / 2;
      change = fmax(change, fabs(next[cell] - now[cell]));
    }
    double *old = now;
    now = next, next = old;
    if (step % STEPS_PER_REPORT == 0) {
      MPI_Allreduce(&change, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
      if (rank == 0) printf("step %d: the largest change is %.4f degrees\n", step, largest);
    }
  }
  double heat = 0, total;
  for (int cell = 1; cell <= mine; cell++) heat += now[cell];
  MPI_Reduce(&heat, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: the mean of %d cells is %.2f degrees\n", size, CELLS, total / CELLS);
  free(now);
  free(next);
  return MPI_Finalize();
}
