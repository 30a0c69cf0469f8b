/* Windows of shared memory, made and freed over and over, while another task of the job does the same. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != atoi(argv[1])) return 1;
    for (int k = 0; k < 100; ++k) {
        int* mine;
        MPI_Win window;
        MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &mine, &window);
        MPI_Win_fence(0, window);
        const int value = size * 1000 + k;
        MPI_Put(&value, 1, MPI_INT, (rank + 1) % size, 0, 1, MPI_INT, window);
        MPI_Win_fence(0, window);
        if (*mine != value) {
            printf("world of %d: rank %d got %d instead of %d\n", size, rank, *mine, value);
            MPI_Abort(MPI_COMM_WORLD, 2);
        }
        MPI_Win_free(&window);
    }
    printf("world of %d: rank %d is well\n", size, rank);
    MPI_Finalize();
    return 0;
}
