/* What the C test programs have in common: the values of every element, so that a reader can check all it reads. */
#pragma once

#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMNS = 12, FILL = -7 };

/* A failed call ends the program, and with it the MPI job. */
#define CHECK(call)                                                                  \
    do {                                                                             \
        if ((call) < 0) {                                                            \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call);        \
            exit(1);                                                                 \
        }                                                                            \
    } while (0)
#define EXPECT(condition, ...)                                   \
    do {                                                         \
        if (!(condition)) {                                      \
            fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);      \
            fprintf(stderr, __VA_ARGS__);                        \
            fprintf(stderr, "\n");                               \
            exit(1);                                             \
        }                                                        \
    } while (0)

struct mesh {
    int id;
    double at[3];
};

static inline double row_value(int step, int row, int column) { return step * 1e6 + row * 1000.0 + column; }
/* Every fourth row of /chunks is never written. */
static inline int chunk_written(int row) { return row % 4 != 3; }
static inline int chunk_value(int step, int row, int column) {
    return chunk_written(row) ? step * 100000 + row * 100 + column : FILL;
}
static inline float packed_value(int step, int row, int column) { return (float)(step + row * 0.5 - column * 0.25); }
static inline double stripe_value(int step, int row, int column) { return -(step * 1e5 + column * 100.0 + row); }
static inline int point_value(int step, int index) { return step * 7919 + index * 31; }

/* The file of a step: the pattern holds one %d, or none for a name that is rewritten. */
static inline void step_name(char *out, size_t room, const char *pattern, int step) {
    snprintf(out, room, pattern, step);
}

static inline hid_t mesh_type(void) {
    const hsize_t three = 3;
    hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(struct mesh));
    hid_t at = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &three);
    CHECK(H5Tinsert(type, "id", HOFFSET(struct mesh, id), H5T_NATIVE_INT));
    CHECK(H5Tinsert(type, "at", HOFFSET(struct mesh, at), at));
    CHECK(H5Tclose(at));
    return type;
}
