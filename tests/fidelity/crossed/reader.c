// Reads any HDF5 file completely: reader OUT FILE... Objects, links, attributes, types, spaces, storage and values, or how that fails.
#include <hdf5.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static FILE* out;

static herr_t say_error(unsigned n, const H5E_error2_t* error, void* unused) {
    (void)unused;
    fprintf(out, "  #%u %s\n", n, error->desc ? error->desc : "");
    return 0;
}

static void say_failure(const char* what) {
    fprintf(out, "%s fails\n", what);
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, say_error, NULL);
}

static void say_bytes(const unsigned char* bytes, size_t size) {
    unsigned long long sum = 1469598103934665603ull;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ bytes[i]) * 1099511628211ull;
    fprintf(out, " %zu bytes, digest %llx:", size, sum);
    for (size_t i = 0; i < size && i < 32; ++i) fprintf(out, " %02x", bytes[i]);
    fputc('\n', out);
}

static void say_type_and_space(hid_t type, hid_t space) {
    hsize_t dims[H5S_MAX_RANK], most[H5S_MAX_RANK];
    const int rank = H5Sget_simple_extent_dims(space, dims, most);
    fprintf(out, " class %d, %zu bytes, space %d:", (int)H5Tget_class(type), H5Tget_size(type), (int)H5Sget_simple_extent_type(space));
    for (int i = 0; i < rank; ++i) fprintf(out, " %llu of %lld", (unsigned long long)dims[i], (long long)most[i]);
}

// Says values that were read, of which those of variable length are addresses.
static void say_values(const char* what, hid_t type, hid_t space, int failed, unsigned char* values, size_t size) {
    const int addresses = H5Tdetect_class(type, H5T_VLEN) > 0 || H5Tis_variable_str(type) > 0 || H5Tdetect_class(type, H5T_STRING) > 0;
    if (failed) say_failure(what);
    else if (addresses || H5Tdetect_class(type, H5T_REFERENCE) > 0) fprintf(out, " %s\n", what);
    else say_bytes(values, size);
    if (!failed && addresses) H5Dvlen_reclaim(type, space, H5P_DEFAULT, values);
}

static herr_t say_attribute(hid_t of, const char* name, const H5A_info_t* info, void* unused) {
    const hid_t attribute = H5Aopen(of, name, H5P_DEFAULT), type = H5Aget_type(attribute), space = H5Aget_space(attribute);
    const hid_t memory = H5Tget_native_type(type, H5T_DIR_DEFAULT);
    const size_t size = (size_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(memory > 0 ? memory : type);
    unsigned char* values = calloc(size + 1, 1);
    (void)unused;
    fprintf(out, " attribute %s, order %lld,", name, (long long)(info->corder_valid ? (int)info->corder : -1));
    say_type_and_space(type, space);
    say_values("read", memory, space, memory < 0 || H5Aread(attribute, memory, values) < 0, values, size);
    free(values);
    if (memory >= 0) H5Tclose(memory);
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(attribute);
    return 0;
}

static void say_dataset(hid_t set) {
    const hid_t type = H5Dget_type(set), space = H5Dget_space(set), list = H5Dget_create_plist(set);
    const hid_t memory = H5Tget_native_type(type, H5T_DIR_DEFAULT);
    const size_t size = (size_t)H5Sget_simple_extent_npoints(space) * H5Tget_size(memory > 0 ? memory : type);
    say_type_and_space(type, space);
    fprintf(out, "; layout %d, %d filters, %llu bytes stored,", (int)H5Pget_layout(list), H5Pget_nfilters(list),
            (unsigned long long)H5Dget_storage_size(set));
    unsigned char* values = calloc(size + 1, 1);
    say_values("read", memory, space, memory < 0 || H5Dread(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0, values, size);
    free(values);
    if (memory >= 0) H5Tclose(memory);
    H5Pclose(list);
    H5Sclose(space);
    H5Tclose(type);
}

static herr_t say_link(hid_t root, const char* path, const H5L_info_t* info, void* unused) {
    hsize_t next = 0;
    (void)unused;
    fprintf(out, "%s: link %d", path, (int)info->type);
    const hid_t object = H5Oopen(root, path, H5P_DEFAULT);
    if (object < 0) {
        say_failure(" open");
        return 0;
    }
    fprintf(out, " to %d", (int)H5Iget_type(object));
    if (H5Iget_type(object) == H5I_DATASET) say_dataset(object);
    else fputc('\n', out);
    H5Aiterate2(object, H5_INDEX_NAME, H5_ITER_INC, &next, say_attribute, NULL);
    H5Oclose(object);
    return 0;
}

int main(int argc, char** argv) {
    setenv("HDF5_DISABLE_VERSION_CHECK", "2", 1);  // HDF5 of other versions than the headers'
    if (argc < 2 || !(out = fopen(argv[1], "w"))) return 2;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    for (int i = 2; i < argc; ++i) {
        fprintf(out, "== %s\n", argv[i]);
        const hid_t file = H5Fopen(argv[i], H5F_ACC_RDONLY, H5P_DEFAULT);
        hsize_t next = 0, size = 0;
        if (file < 0) {
            say_failure("open");
            continue;
        }
        H5Fget_filesize(file, &size);
        fprintf(out, "%llu bytes, %d\n", (unsigned long long)size, H5Fis_hdf5(argv[i]));
        H5Aiterate2(file, H5_INDEX_NAME, H5_ITER_INC, &next, say_attribute, NULL);
        if (H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, say_link, NULL) < 0) say_failure("visit");
        H5Fclose(file);
    }
    return fclose(out) != 0;
}
