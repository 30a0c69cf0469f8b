// The process set mpi://WORLD of the sessions model (MPI 4.0) is the task. usage: world_sessions SIZE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    int expected = argc > 1 ? atoi(argv[1]) : 1, size = 0, rank = 0, sum = 0;
    MPI_Session session;
    MPI_Group group;
    MPI_Comm world;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Group_size(group, &size);
    MPI_Comm_create_from_group(group, "world_sessions", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &world);
    MPI_Group_free(&group);
    MPI_Comm_rank(world, &rank);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, world);
    MPI_Comm_free(&world);
    MPI_Session_finalize(&session);
    if (size != expected || sum != size * (size - 1) / 2) return 1;
    printf("world of %d: rank %d is well\n", size, rank);
    return 0;
}
