// Files that are open when the program ends: the last cases, in this order.
#include "parallel.h"

CASE(left_open, "left open at MPI_Finalize", HELD) {
    const hid_t f = create(file), x = grid(f, "x", chunked(5, 4));
    write_rows(x, share_of(ROWS), 0, H5FD_MPIO_COLLECTIVE);
    H5Dclose(x);
}

CASE(left_open_with_objects, "left open at MPI_Finalize", HELD) {
    const hid_t f = create(file), group = TRY(H5Gcreate2(f, "group", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    write_rows(grid(group, "x", untimed()), share_of(ROWS), 0, H5FD_MPIO_INDEPENDENT);
    TRY(H5Fclose(f));  // refused while objects are open, and then done by MPI_Finalize
}
