// What performs random programs of several ranks: main.c reads their text, objects.c and transfers.c have a function for
// each call, values.c the types and values of elements.
//
// A program is a list of calls, each a word and integers. What they name by number (an object, a dataset) is the one of
// that number among those there are, so that every list of calls is a program; all ranks agree on it, for they perform
// the same calls. What a transfer selects follows from the rank, too; an element's value does not: ranks that write the
// same element at once write the same, and after each transfer they wait for each other.
#pragma once

#include <mpi.h>
#include <stdlib.h>

#include "pair.h"

// A call's word, and its integers, of which those past the last are 0.
typedef struct {
    const char* word;
    long values[48];
    int count, used;
} Call;

// The next integer of a call; the next one as a number below `bound`.
long next(Call* call);
int below(Call* call, long bound);

// The paths of the objects of one kind.
enum { MOST_PATHS = 64, PATH = 256 };
typedef struct {
    char path[MOST_PATHS][PATH];
    int count;
} Paths;

void add_path(Paths* paths, const char* path);

// One open file, those who have it open, and the paths of what is in it.
typedef struct {
    MPI_Comm comm;
    int rank, ranks;
    const char* name;
    hid_t id, access;
    int alike;  // its metadata is read by all ranks, or by none
    Paths groups, sets, types;
} Job;

// The dataset that a call names next, opened; without any, negative.
hid_t open_set(Job* job, Call* call);

// Whether a dataset's elements are undefined until they are written: on disk an MPI leaves there what it likes, as what was in
// memory where it writes together what ranks have selected with gaps. So such a dataset is written whole at once, by all ranks
// together, and keeps its size. HDF5's own fill value is not written, either, if only those of programs are.
int is_unfilled(hid_t list);
void write_whole(Job* job, hid_t dataset, long seed);

// The calls that make and change objects, and those that transfer values; a list ends with an empty entry.
typedef struct {
    const char* word;
    void (*perform)(Job* job, Call* call);
} Known;
extern const Known object_calls[], transfer_calls[];

// The type of a number. The caller closes it.
enum { FIXED_TYPES = 19 };  // those before the ones of varying length
hid_t type_of(long number);

// In memory: a type itself (how 0), or what converts to it (a compound's member alone). The caller closes it.
hid_t memory_type(hid_t type, int how);

// The values of so many elements in turn, of a type in memory.
void fill(void* values, hid_t type, size_t count, long seed);

// Says bytes: their first, and a digest.
void say_content(const char* what, const void* content, size_t size);
