/* A stream of HDF5 files: `stream ROLE WAY SETS BYTES SHEET STEPS WARM PACED`.
 *
 * ROLE is w or r. Each file has SETS datasets of BYTES bytes. WAY is
 *   layer  one file per step, each name once; waiting is the work of what is between the programs
 *   files  four files by turns; both wait on the sheet
 *   core   by HDF5's core driver, without a file; the writer alone */
#include "sheet.h"
#include <hdf5.h>

static hid_t access_list(int core, size_t bytes) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    if (core && H5Pset_fapl_core(list, bytes, 0) < 0) exit(1);
    return list;
}

int main(int argc, char** argv) {
    if (argc != 9) return fprintf(stderr, "usage: stream ROLE WAY SETS BYTES SHEET STEPS WARM PACED\n"), 2;
    const int writes = argv[1][0] == 'w', files = argv[2][0] == 'f', sets = atoi(argv[3]);
    const hsize_t n = strtoull(argv[4], NULL, 10) / sizeof(double);
    const int core = argv[2][0] == 'c';
    Sheet sheet = open_sheet(argv + 5);
    double* data = malloc(n * sizeof(*data));
    for (hsize_t i = 0; i < n; ++i) data[i] = (double)i;
    char name[32];
    H5open();
    const hid_t list = access_list(core, (size_t)sets * n * sizeof(*data) + (1 << 20));
    const hid_t space = H5Screate_simple(1, &n, NULL);
    for (int step = 0; step < sheet.steps; ++step) {
        snprintf(name, sizeof(name), "step-%06d.h5", files ? step % (AHEAD + 1) : step);
        if (writes) {
            pace(&sheet, step, !core);
            if (files && step >= AHEAD) wait_for(&sheet, step - AHEAD, READ);
            data[0] = data[n - 1] = step;
            note(&sheet, step, BEGIN);
            const hid_t file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, list);
            for (int k = 0; k < sets; ++k) {
                char set_name[16];
                snprintf(set_name, sizeof(set_name), "x%d", k);
                const hid_t set = H5Dcreate2(file, set_name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
                if (k == 0) note(&sheet, step, CREATED);
                if (H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) return 1;
                H5Dclose(set);
            }
            note(&sheet, step, WRITTEN);
            if (H5Fclose(file) < 0) return 1;
            note(&sheet, step, RELEASED);
        } else {
            note(&sheet, step, WAITING);
            if (files) wait_for(&sheet, step, RELEASED);
            note(&sheet, step, OPENING);
            const hid_t file = H5Fopen(name, H5F_ACC_RDONLY, list);
            note(&sheet, step, OPENED);
            for (int k = 0; k < sets; ++k) {
                char set_name[16];
                snprintf(set_name, sizeof(set_name), "x%d", k);
                const hid_t set = H5Dopen2(file, set_name, H5P_DEFAULT);
                if (H5Dread(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) return 1;
                H5Dclose(set);
                if (data[0] != step || data[n - 1] != step) return fprintf(stderr, "step %d: read %g\n", step, data[0]), 3;
            }
            if (H5Fclose(file) < 0) return 1;
            note(&sheet, step, READ);
        }
    }
    return 0;
}
