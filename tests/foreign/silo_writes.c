#include <silo.h>
#include <stdio.h>
int main(void) {
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof name, "plt%04d.silo", step);
        int dims[1] = {4};
        double x[4] = {step, step + 1, step + 2, step + 3};
        DBfile *file = DBCreate(name, DB_CLOBBER, DB_LOCAL, "a step", DB_HDF5);
        if (!file || DBWrite(file, "x", x, dims, 1, DB_DOUBLE) || DBClose(file)) return 1;
    }
}
