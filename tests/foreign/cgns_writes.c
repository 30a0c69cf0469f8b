#include <cgnslib.h>
#include <stdio.h>
int main(void) {
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof name, "plt%04d.cgns", step);
        int file, base, zone, coordinate;
        cgsize_t size[3] = {4, 3, 0};
        double x[4] = {step, step + 1, step + 2, step + 3};
        cg_set_file_type(CG_FILE_HDF5);
        if (cg_open(name, CG_MODE_WRITE, &file)) cg_error_exit();
        if (cg_base_write(file, "Base", 1, 1, &base) || cg_zone_write(file, base, "Zone", size, Structured, &zone)) cg_error_exit();
        if (cg_coord_write(file, base, zone, RealDouble, "CoordinateX", x, &coordinate) || cg_close(file)) cg_error_exit();
    }
}
