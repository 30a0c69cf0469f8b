// What cases of parallel programs share, besides pair.h. All ranks run each case together; what they say is gathered, so
// a section holds the lines of every rank, each with its number. The flag HELD: what the case
// leaves open stays so until MPI_Finalize; no case comes after such ones.
#pragma once

#include <mpi.h>

#include "pair.h"

enum { HELD = 16 };

extern int rank, ranks;

// Access list of a file that the ranks of a communicator share.
hid_t shared_by(MPI_Comm comm);

// Creates, or opens, a file for all ranks. Says how that went.
hid_t create(const char* file);
hid_t open_all(const char* file, unsigned flags);

// Closes all that is open in a file, and the file, which fails otherwise. Says how the latter went.
void finish(hid_t file);

// Transfer list: collective or independent.
hid_t transfer(H5FD_mpio_xfer_t mode);

// This rank's share of so many rows: its first row, and how many (none, where there are more ranks than rows).
typedef struct {
    hsize_t first, count;
} Share;
Share share_of(hsize_t rows);

// A creation list with chunks (`columns` 0: of one dimension).
hid_t chunked(hsize_t rows, hsize_t columns);

// Creates a dataset of ints of ROWS x COLUMNS. Collective.
#define ROWS 24
#define COLUMNS 10
hid_t grid(hid_t in, const char* name, hid_t list);

// A name for a dataset of several: "x" and a number. Valid until the next call.
const char* numbered(int k);

// A dataset's space in which rows are selected, or nothing.
hid_t rows_of(hid_t dataset, Share rows);

// Writes, or reads and says, this rank's rows of a two-dimensional dataset; the value at (r, c) is base + r * 100 + c.
herr_t write_rows(hid_t dataset, Share rows, int base, H5FD_mpio_xfer_t mode);
void say_rows(hid_t dataset, Share rows, H5FD_mpio_xfer_t mode);

// Opens the file together with the ranks of a communicator, and reads all of its datasets in several ways.
void look_through(const char* file, MPI_Comm comm);
