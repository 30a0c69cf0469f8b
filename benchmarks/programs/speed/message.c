/* A stream of messages: `message BYTES SHEET STEPS WARM PACED`, on two ranks of MPI: rank 0 sends, rank 1 receives. */
#include "sheet.h"
#include <mpi.h>

int main(int argc, char** argv) {
    if (argc != 6) return fprintf(stderr, "usage: message BYTES SHEET STEPS WARM PACED\n"), 2;
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const int n = (int)(strtoull(argv[1], NULL, 10) / sizeof(double));
    Sheet sheet = open_sheet(argv + 2);
    double* data = malloc((size_t)n * sizeof(*data));
    for (int i = 0; i < n; ++i) data[i] = i;
    for (int step = 0; step < sheet.steps; ++step) {
        if (rank == 0) {
            pace(&sheet, step, 1);
            data[0] = data[n - 1] = step;
            note(&sheet, step, BEGIN);
            MPI_Send(data, n, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD);
            note(&sheet, step, RELEASED);
        } else {
            note(&sheet, step, WAITING);
            MPI_Recv(data, n, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            note(&sheet, step, READ);
            if (data[0] != step || data[n - 1] != step) return 3;
        }
    }
    MPI_Finalize();
    return 0;
}
