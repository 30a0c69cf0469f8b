// Uses MPI_COMM_WORLD in every way a program does, and checks that it is a whole world of the expected size.
// usage: world_uses SIZE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank = -1;

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "rank %d, line %d: not true: %s\n", rank, __LINE__, #condition); \
            MPI_Abort(MPI_COMM_WORLD, 9);                                                  \
        }                                                                                  \
    } while (0)

static int deleted = 0;

static int on_delete(MPI_Comm comm, int keyval, void* value, void* extra) {
    int initialized = 0, finalized = 1, size = 0;
    (void)comm, (void)keyval, (void)value;
    MPI_Initialized(&initialized);
    MPI_Finalized(&finalized);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    deleted = initialized && !finalized && size == *(int*)extra ? 1 : -1;
    return MPI_SUCCESS;
}

static void collectives(int size) {
    int value = rank == 0 ? 41 + size : 0, sum = 0, all[64] = {0}, scan = 0;
    MPI_Request request;
    CHECK(MPI_Bcast(&value, 1, MPI_INT, 0, MPI_COMM_WORLD) == MPI_SUCCESS && value == 41 + size);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(sum == size * (size - 1) / 2);
    MPI_Allgather(&rank, 1, MPI_INT, all, 1, MPI_INT, MPI_COMM_WORLD);
    for (int i = 0; i < size; ++i) CHECK(all[i] == i);
    MPI_Scan(&rank, &scan, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    CHECK(scan == rank * (rank + 1) / 2);
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(PMPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
}

static void messages(int size) {
    int got = -1, next = (rank + 1) % size, previous = (rank + size - 1) % size;
    char packed[64];
    int position = 0, room = 0;
    MPI_Status status;
    MPI_Request request;
    MPI_Isend(&rank, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &request);
    MPI_Probe(MPI_ANY_SOURCE, 5, MPI_COMM_WORLD, &status);
    CHECK(status.MPI_SOURCE == previous);
    MPI_Recv(&got, 1, MPI_INT, previous, 5, MPI_COMM_WORLD, &status);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    CHECK(got == previous && status.MPI_SOURCE == previous);
    MPI_Sendrecv(&rank, 1, MPI_INT, next, 6, &got, 1, MPI_INT, previous, 6, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(got == previous);
    MPI_Pack_size(1, MPI_INT, MPI_COMM_WORLD, &room);
    CHECK(room <= (int)sizeof packed);
    MPI_Pack(&rank, 1, MPI_INT, packed, sizeof packed, &position, MPI_COMM_WORLD);
    position = 0;
    MPI_Unpack(packed, sizeof packed, &position, &got, 1, MPI_INT, MPI_COMM_WORLD);
    CHECK(got == rank);
}

static void communicators(int size) {
    MPI_Comm copy, half, grid, other, merged, node;
    MPI_Group group, same;
    MPI_Win window;
    int result, part = -1, dims[1] = {size}, periods[1] = {1}, coords[1] = {-1}, topology = 0, from, to, *memory, length;
    char name[MPI_MAX_OBJECT_NAME] = "";
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_compare(MPI_COMM_WORLD, copy, &result);
    CHECK(result == MPI_CONGRUENT);
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_COMM_WORLD, &result);
    CHECK(result == MPI_IDENT);
#ifndef MPI_H_ABI  // the standard ABI has these in a library of its own
    MPI_Comm_compare(MPI_COMM_WORLD, MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)), &result);
    CHECK(result == MPI_IDENT);
    CHECK(MPI_Comm_f2c(MPI_Comm_c2f(MPI_COMM_WORLD)) == MPI_COMM_WORLD);
#endif
    MPI_Comm_group(MPI_COMM_WORLD, &group);
    MPI_Group_size(group, &part);
    CHECK(part == size);
    MPI_Comm_create(MPI_COMM_WORLD, group, &other);
    MPI_Comm_size(other, &part);
    CHECK(part == size);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_size(half, &part);
    CHECK(part == (rank % 2 ? size / 2 : (size + 1) / 2));
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &part);
    CHECK(part == size);
    MPI_Cart_create(MPI_COMM_WORLD, 1, dims, periods, 0, &grid);
    MPI_Cart_coords(grid, rank, 1, coords);
    MPI_Cart_shift(grid, 0, 1, &from, &to);
    CHECK(coords[0] == rank && to == (rank + 1) % size);
    MPI_Topo_test(MPI_COMM_WORLD, &topology);
    CHECK(topology == MPI_UNDEFINED);
    MPI_Comm_test_inter(MPI_COMM_WORLD, &result);
    CHECK(!result);
    if (size > 1) {
        MPI_Comm inter;
        MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, rank % 2 ? 0 : 1, 3, &inter);
        MPI_Comm_remote_size(inter, &part);
        CHECK(part == (rank % 2 ? (size + 1) / 2 : size / 2));
        MPI_Intercomm_merge(inter, 0, &merged);
        MPI_Comm_size(merged, &part);
        CHECK(part == size);
        MPI_Comm_free(&inter);
        MPI_Comm_free(&merged);
    }
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
    MPI_Win_get_group(window, &same);
    MPI_Group_compare(group, same, &result);
    CHECK(result == MPI_IDENT);
    MPI_Win_free(&window);
    MPI_Comm_get_name(MPI_COMM_WORLD, name, &length);
    CHECK(strcmp(name, "MPI_COMM_WORLD") == 0);
    MPI_Comm_size(MPI_COMM_SELF, &part);
    CHECK(part == 1);
    MPI_Comm_free(&copy), MPI_Comm_free(&half), MPI_Comm_free(&grid), MPI_Comm_free(&other), MPI_Comm_free(&node);
    MPI_Group_free(&group), MPI_Group_free(&same);
}

static void attributes(int* size) {
    static int value = 7;
    int* found = NULL;
    int flag = 0, mine, on_self;
    MPI_Comm copy;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &found, &flag);
    CHECK(flag && *found >= 32767);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_WTIME_IS_GLOBAL, &found, &flag);
    CHECK(flag);
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_get_attr(copy, MPI_TAG_UB, &found, &flag);
    CHECK(flag && *found >= 32767);
    MPI_Comm_free(&copy);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &mine, NULL);
    MPI_Comm_get_attr(MPI_COMM_WORLD, mine, &found, &flag);
    CHECK(!flag);
    MPI_Comm_set_attr(MPI_COMM_WORLD, mine, &value);
    MPI_Comm_get_attr(MPI_COMM_WORLD, mine, &found, &flag);
    CHECK(flag && *found == 7);
    MPI_Comm_delete_attr(MPI_COMM_WORLD, mine);
    MPI_Comm_get_attr(MPI_COMM_WORLD, mine, &found, &flag);
    CHECK(!flag);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_delete, &on_self, size);
    MPI_Comm_set_attr(MPI_COMM_SELF, on_self, &value);
}

static void errors(int size) {
    int length, result;
    char text[MPI_MAX_ERROR_STRING];
    MPI_Errhandler handler;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
    CHECK(handler == MPI_ERRORS_RETURN);
    result = MPI_Send(&size, 1, MPI_INT, size, 0, MPI_COMM_WORLD);
    CHECK(result != MPI_SUCCESS);
    CHECK(MPI_Error_string(result, text, &length) == MPI_SUCCESS);
    CHECK(MPI_Group_size(MPI_GROUP_NULL, &length) != MPI_SUCCESS);  // belongs to no communicator
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
}

static void file(int size) {
    MPI_File handle;
    char name[] = "world_uses.XXXXXX.bin";
    int got = -1, next = (rank + 1) % size;
    snprintf(name, sizeof name, "world_uses.%d.bin", size);
    MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE | MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL,
                  &handle);
    MPI_File_write_at_all(handle, rank * (MPI_Offset)sizeof(int), &rank, 1, MPI_INT, MPI_STATUS_IGNORE);
    MPI_File_sync(handle);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_File_read_at_all(handle, next * (MPI_Offset)sizeof(int), &got, 1, MPI_INT, MPI_STATUS_IGNORE);
    CHECK(got == next);
    MPI_File_close(&handle);
}

int main(int argc, char** argv) {
    int size = argc > 1 ? atoi(argv[1]) : 1, found = 0, flag = 1, provided = -1;
    MPI_Initialized(&flag);
    CHECK(!flag);
    MPI_Finalized(&flag);
    CHECK(!flag);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    CHECK(provided == MPI_THREAD_FUNNELED);
    MPI_Query_thread(&flag);
    CHECK(flag == provided);
    MPI_Is_thread_main(&flag);
    CHECK(flag);
    MPI_Initialized(&flag);
    CHECK(flag);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &found);
    CHECK(found == size);
    collectives(size);
    messages(size);
    communicators(size);
    attributes(&size);
    errors(size);
    if (argc > 2) file(size);
    MPI_Finalize();
    CHECK(deleted == 1);
    MPI_Finalized(&flag);
    CHECK(flag);
    MPI_Initialized(&flag);
    CHECK(flag);
    printf("world of %d: rank %d is well\n", size, rank);
    return 0;
}
