#include <cgnslib.h>
#include <stdio.h>
int main(void) {
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof name, "plt%04d.cgns", step);
        int file, type;
        cgsize_t first = 1, last = 4;
        double x[4];
        if (cg_is_cgns(name, &type)) cg_error_exit();
        if (cg_open(name, CG_MODE_READ, &file)) cg_error_exit();
        if (cg_coord_read(file, 1, 1, "CoordinateX", RealDouble, &first, &last, x) || cg_close(file)) cg_error_exit();
        printf("%d: %g %g %g %g\n", step, x[0], x[1], x[2], x[3]);
    }
}
