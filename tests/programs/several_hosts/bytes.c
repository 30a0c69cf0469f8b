/* Files of MPI-IO, without HDF5, that ranks write together and over each other:
 *
 *     bytes write SEED STEPS [mixed]    bytes read STEPS
 *
 * Step k has the seed SEED + k. What is in a file follows from its seed, not from who was late. Every rank knows what
 * must be in the file, and compares while it is open. `mixed`: the MPI-IO at hand may mix atomic writes of several
 * ranks. `read` prints sums of what each rank finds in each file. */
#include "draws.h"

enum { ROOM = 3 << 20, LONGEST = 1 << 20, PIECES = 40 };

static MPI_File file;
static unsigned char *model, *buffer;
static int size, may_mix; /* of the file; whether atomic writes may come out mixed */

static void ok(int rc, const char *what) {
    char text[MPI_MAX_ERROR_STRING];
    int length;
    if (rc == MPI_SUCCESS) return;
    MPI_Error_string(rc, text, &length);
    fail("cannot %s: %s", what, text);
}

static uint32_t key_of(int round) { return (uint32_t)mixed((uint64_t)seed * 1000003u + (uint64_t)round); }

static unsigned char value(uint32_t key, int at) { return (unsigned char)(((uint32_t)at * 2654435761u + key) >> 13); }

/* A length from one byte to a mebibyte, short ones as often as long ones. */
static int length_of(uint64_t *state, int most) {
    const int length = 1 + draw(state, 1 << draw(state, 21));
    return length < most ? length : most;
}

static void set_model(int round, int first, int count) {
    const uint32_t key = key_of(round);
    for (int i = first; i < first + count; ++i) model[i] = value(key, i);
    if (first + count > size) size = first + count;
}

static void look(int first, int count, const char *when) {
    MPI_Status status;
    int found;
    memset(buffer, 0xee, (size_t)count);
    ok(MPI_File_read_at(file, first, buffer, count, MPI_BYTE, &status), "read");
    MPI_Get_count(&status, MPI_BYTE, &found);
    const int there = first >= size ? 0 : first + count > size ? size - first : count;
    if (found != there) fail("%s: %d bytes at %d, not %d", when, found, first, there);
    for (int i = 0; memcmp(buffer, model + first, (size_t)there) != 0 && i < there; ++i)
        if (buffer[i] != model[first + i])
            fail("%s: byte %d of %d is %d, not %d", when, first + i, size, buffer[i], model[first + i]);
}

static void look_around(const char *when) {
    MPI_Offset found;
    ok(MPI_File_get_size(file, &found), "ask for the size");
    if (found != size) fail("%s: the size is %lld, not %d", when, (long long)found, size);
    for (int k = 0; k < 3; ++k) {
        const int first = k ? any(ROOM) : 0, count = k ? length_of(&mine, ROOM - first) : size;
        look(first, count, when);
        hesitate();
    }
}

static void meet(void) {
    hesitate();
    MPI_Barrier(MPI_COMM_WORLD);
}

/* One after another, in an order that only messages between two ranks tell: each reads what those before it wrote,
 * writes over some of it, and reads again. */
static void in_turns(int round) {
    const int turns = 2 + all(12), width = length_of(&ours, LONGEST), from = all(ROOM - width);
    int last = -1, token = 0;
    for (int turn = 0; turn < turns; ++turn) {
        const int who = all(ranks), first = from + all(width), count = length_of(&ours, from + width - first);
        const int strided = all(3) == 0, block = 1 + all(count), stride = block + all(2000);
        if (last >= 0 && last != who) {
            if (rank == last) MPI_Send(&token, 1, MPI_INT, who, 7, MPI_COMM_WORLD);
            if (rank == who) MPI_Recv(&token, 1, MPI_INT, last, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        last = who;
        /* As many whole blocks as there is room for; without stride, all of it in one. */
        const int blocks = strided ? 1 + (ROOM - first - block) / stride : 1, most = 1 + (count - 1) / block;
        const int many = blocks < most ? blocks : most, times = !strided ? 1 : many < PIECES ? many : PIECES;
        const int each = strided ? block : count;
        MPI_Request requests[PIECES];
        if (rank == who) {
            hesitate();
            look(from, width, "before a turn");
        }
        for (int k = 0; k < times; ++k) set_model(1000 * (round + 1) + turn, first + k * stride, each);
        if (rank != who) continue;
        for (int k = 0; k < times; ++k)
            ok(MPI_File_iwrite_at(file, first + k * stride, model + first + k * stride, each, MPI_BYTE, &requests[k]), "write");
        for (int k = 0; k < times; ++k) ok(MPI_Wait(&requests[k], MPI_STATUS_IGNORE), "wait");
        look(from, width, "after a turn");
    }
    meet();
}

/* Each its own pieces, at one time and beside each other, in any blocks of memory. */
static void beside(int round) {
    const int pieces = 1 + all(PIECES), collective = all(3) == 0, together = all(2);
    int at = all(ROOM / 2);
    for (int k = 0; k < pieces && at < ROOM; ++k) {
        const int count = length_of(&ours, (ROOM - at) / 4 + 1), owner = all(ranks), gap = all(2) ? all(500) : 0;
        if (at + count > ROOM) break;
        set_model(round, at, count);
        if (collective && together)
            ok(MPI_File_write_at_all(file, at, model + at, owner == rank ? count : 0, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        else if (owner == rank)
            ok(MPI_File_write_at(file, at, model + at, count, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        if (owner == rank) hesitate();
        at += count + gap;
    }
    meet();
}

/* Through views: each rank sees every n-th block, and then what its neighbour wrote. */
static void through_views(int round) {
    const int block = 1 + all(all(2) ? 50 : 5000), stride = ranks * block, start = all(4000), blocks = 1 + all(200);
    const int times = (ROOM - start) / stride < blocks ? (ROOM - start) / stride : blocks, collective = all(3) == 0;
    const int before = size;
    if (times == 0) return;
    for (int turn = 0; turn < 2; ++turn) {
        const int part = (rank + turn) % ranks, at = start + part * block, from = any(times * block / 2 + 1);
        MPI_Datatype view;
        MPI_Type_vector(times, block, stride, MPI_BYTE, &view);
        MPI_Type_commit(&view);
        ok(MPI_File_set_view(file, at, MPI_BYTE, view, "native", MPI_INFO_NULL), "set a view");
        MPI_Type_free(&view);
        if (turn == 0) {
            for (int k = 0; k < times; ++k)
                for (int i = 0; i < block; ++i) buffer[k * block + i] = value(key_of(round), at + k * stride + i);
            hesitate();
            if (collective) ok(MPI_File_write_at_all(file, 0, buffer, times * block, MPI_BYTE, MPI_STATUS_IGNORE), "write");
            else ok(MPI_File_write_at(file, 0, buffer, times * block, MPI_BYTE, MPI_STATUS_IGNORE), "write");
            meet();
            set_model(round, start, times * stride);
        } else {
            const int count = times * block - from;
            ok(MPI_File_read_at(file, from, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE), "read");
            for (int i = 0; i < count; ++i) {
                const int place = at + (from + i) / block * stride + (from + i) % block;
                if (buffer[i] != model[place]) fail("in a view: byte %d is %d, not %d", place, buffer[i], model[place]);
            }
        }
    }
    if (size < before) fail("the model has shrunk");
    ok(MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL), "set a view");
    meet();
}

/* What was cut off is zero where the file grows again. */
static void other_size(void) {
    const int next = all(2) ? all(size + 1) : size + all(ROOM - size + 1);
    meet();
    ok(MPI_File_set_size(file, next), "set the size");
    if (next < size) memset(model + next, 0, (size_t)(size - next));
    size = next;
    meet();
}

/* All write the same place at one time in atomic mode: one of them is there, whole, for all. */
static void at_once(int round) {
    const int first = all(ROOM / 2), count = length_of(&ours, LONGEST / 4), times = 1 + all(3);
    set_model(round, first, count);
    meet();
    ok(MPI_File_set_atomicity(file, 1), "set atomic mode");
    for (int k = 0; k < times; ++k) {
        memset(buffer, 1 + rank, (size_t)count);
        hesitate();
        ok(MPI_File_write_at(file, first, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE), "write");
        for (int turn = 0; turn < 2; ++turn) {
            ok(MPI_File_read_at(file, first, buffer, count, MPI_BYTE, MPI_STATUS_IGNORE), "read");
            for (int i = 1; i < count && !may_mix; ++i)
                if (buffer[i] != buffer[0]) fail("atomic mode: byte %d of %d is %d, byte 0 is %d", i, count, buffer[i], buffer[0]);
            if (turn == 0) meet();
        }
        unsigned char first_byte = buffer[0];
        MPI_Bcast(&first_byte, 1, MPI_BYTE, 0, MPI_COMM_WORLD);
        if (first_byte != buffer[0] && !may_mix) fail("atomic mode: %d is there, for rank 0 %d", buffer[0], first_byte);
        meet();
    }
    if (rank == all(ranks)) ok(MPI_File_write_at(file, first, model + first, count, MPI_BYTE, MPI_STATUS_IGNORE), "write");
    ok(MPI_File_set_atomicity(file, 0), "leave atomic mode");
    meet();
}

static void write_step(const char *name) {
    const int rounds = 4 + all(4);
    ok(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDWR | MPI_MODE_CREATE, MPI_INFO_NULL, &file), "create a file");
    memset(model, 0, ROOM);
    size = 0;
    for (int round = 0; round < rounds; ++round) {
        switch (all(8)) {
        case 0: other_size(); break;
        case 1: at_once(round); break;
        case 2: case 3: through_views(round); break;
        case 4: case 5: beside(round); break;
        default: in_turns(round);
        }
        look_around("after a round");
        meet();
    }
    ok(MPI_File_close(&file), "close a file");
}

static void read_step(const char *name) {
    MPI_Offset total;
    MPI_Status status;
    int found;
    uint64_t sum = 0;
    ok(MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_RDONLY, MPI_INFO_NULL, &file), "open a file");
    ok(MPI_File_get_size(file, &total), "ask for the size");
    const int first = (int)total * rank / ranks, count = (int)total * (rank + 1) / ranks - first;
    hesitate();
    ok(MPI_File_read_at(file, first, buffer, count, MPI_BYTE, &status), "read");
    MPI_Get_count(&status, MPI_BYTE, &found);
    if (found != count) fail("%d bytes, not %d", found, count);
    for (int i = 0; i < count; ++i) sum = mixed(sum + buffer[i] + 1);
    ok(MPI_File_close(&file), "close a file");
    printf("%s rank %d: %d bytes, %016llx\n", name, rank, count, (unsigned long long)sum);
}

int main(int argc, char **argv) {
    char name[32];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    const int writes = argc > 3 && strcmp(argv[1], "write") == 0, steps = atoi(argv[writes ? 3 : 2]);
    may_mix = argc > 4;
    model = malloc(ROOM);
    buffer = malloc(ROOM);
    for (int step = 0; step < steps; ++step) {
        snprintf(name, sizeof(name), "bytes-%04d.bin", step);
        begin_step("bytes", (writes ? atol(argv[2]) : 0) + step);
        if (writes) write_step(name);
        else read_step(name);
    }
    free(model);
    free(buffer);
    MPI_Finalize();
    return 0;
}
