// Ends in the ways programs end. usage: world_ends HOW, where HOW is
//   plain: never calls MPI; fast: ends at once; late, slow: exit some time after MPI_Finalize; signal: creates the file
//   `go` once MPI is initialised; quick: leaves by _exit after MPI_Finalize;
//   endless: never ends; fails: exits with 5 after MPI_Finalize; abrupt: exits without MPI_Finalize; abort: calls MPI_Abort
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
    const char* how = argc > 1 ? argv[1] : "";
    int rank = 0;
    if (strcmp(how, "plain") == 0) {
        printf("plain: no world here\n");
        return getenv("WILKINS_WORLD") != NULL;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    printf("%s: rank %d\n", how, rank);
    fflush(stdout);
    if (strcmp(how, "abort") == 0) MPI_Abort(MPI_COMM_WORLD, 6);
    if (strcmp(how, "abrupt") == 0) exit(7);
    if (strcmp(how, "signal") == 0) fclose(fopen("go", "w"));
    while (strcmp(how, "endless") == 0) sleep(1);
    MPI_Finalize();
    if (strcmp(how, "late") == 0) usleep(500000);
    if (strcmp(how, "slow") == 0) sleep(3);
    if (strcmp(how, "quick") == 0) _exit(0);
    return strcmp(how, "fails") == 0 ? 5 : 0;
}
