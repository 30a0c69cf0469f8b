// HDF5's high-level C libraries: lite (H5LT), images (H5IM), tables (H5TB), packet tables (H5PT), dimension scales (H5DS),
// optimised chunk calls (H5DO).
#include <hdf5_hl.h>
#include <stdlib.h>

#include "pair.h"

static hid_t create(const char* file) {
    return H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

CASE(lite, "groups; numbers; strings; fixed strings; attributes; contiguous; errors") {
    const hid_t f = create(file);
    const hsize_t dims[2] = {2, 3};
    const int numbers[6] = {1, 2, 3, 4, 5, 6};
    const double reals[6] = {0.5, 1.5, 2.5, -1, 1e300, 0};
    const char letters[6] = {'a', 'b', 0, 'c', 1, -1};
    TRY(H5LTmake_dataset_int(f, "numbers", 2, dims, numbers));
    TRY(H5LTmake_dataset_double(f, "reals", 2, dims, reals));
    TRY(H5LTmake_dataset_char(f, "letters", 2, dims, letters));
    TRY(H5LTmake_dataset(f, "any", 1, dims, H5T_STD_U16BE, "\1\2\3\4"));
    TRY(H5LTmake_dataset_string(f, "text", "one text in a dataset"));
    TRY(H5LTmake_dataset_int(f, "numbers", 2, dims, numbers));
    H5Gclose(H5Gcreate2(f, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    const long whole[2] = {-7, 1L << 40};
    TRY(H5LTset_attribute_string(f, "numbers", "unit", "m/s"));
    TRY(H5LTset_attribute_int(f, "g", "n", numbers, 3));
    TRY(H5LTset_attribute_double(f, "/", "r", reals, 6));
    TRY(H5LTset_attribute_long(f, "g", "l", whole, 2));
    TRY(H5LTset_attribute_int(f, "g", "n", numbers + 2, 2));
    TRY(H5LTset_attribute_int(f, "nowhere", "n", numbers, 2));
    TRY(H5Fclose(f));
}

LOOK(lite) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    int numbers[6] = {0}, n = 0;
    char text[64] = "";
    hsize_t dims[2];
    H5T_class_t kind;
    size_t size;
    TRY(H5LTread_dataset_int(f, "numbers", numbers));
    TRY(H5LTread_dataset_string(f, "text", text));
    say("%d %d %s", numbers[0], numbers[5], text);
    TRY(H5LTget_dataset_ndims(f, "reals", &n));
    TRY(H5LTget_dataset_info(f, "reals", dims, &kind, &size));
    say("%d %llu %llu %d %zu", n, (unsigned long long)dims[0], (unsigned long long)dims[1], (int)kind, size);
    TRY(H5LTget_attribute_string(f, "numbers", "unit", text));
    TRY(H5LTget_attribute_int(f, "g", "n", numbers));
    TRY(H5LTget_attribute_ndims(f, "g", "l", &n));
    TRY(H5LTget_attribute_info(f, "/", "r", dims, &kind, &size));
    say("%s %d %d %llu", text, numbers[0], n, (unsigned long long)dims[0]);
    TRY(H5LTfind_dataset(f, "any"));
    TRY(H5LTfind_dataset(f, "nothing"));
    TRY(H5LTfind_attribute(f, "r"));
    TRY(H5LTpath_valid(f, "/g", 1));
    TRY(H5LTpath_valid(f, "/g/none", 1));
    TRY(H5LTread_dataset_int(f, "nothing", numbers));
    TRY(H5Fclose(f));
}

CASE(types_from_text, "compound types; nested types; array types; enumerations; sequences; opaque types") {
    const hid_t f = create(file);
    static const char* const texts[] = {
        "H5T_COMPOUND { H5T_STD_I32BE \"n\"; H5T_ARRAY { [2][3] H5T_IEEE_F32LE } \"grid\"; }",
        "H5T_ENUM { H5T_STD_I16LE; \"RED\" 5; \"GREEN\" 6; }",
        "H5T_VLEN { H5T_STD_I16LE }",
        "H5T_OPAQUE { OPQ_SIZE 19; OPQ_TAG \"a tag\"; }",
        "H5T_STRING { STRSIZE 13; STRPAD H5T_STR_NULLPAD; CSET H5T_CSET_ASCII; CTYPE H5T_C_S1; }",
    };
    for (int i = 0; i < 5; ++i) {
        char name[16];
        snprintf(name, sizeof(name), "d%d", i);
        const hid_t type = H5LTtext_to_dtype(texts[i], H5LT_DDL);
        say("%d", type >= 0);
        if (type < 0) continue;
        H5Dclose(TRY(H5Dcreate2(f, name, type, space(3, 0), H5P_DEFAULT, untimed(), H5P_DEFAULT)));
        H5Tclose(type);
    }
    TRY(H5Fclose(f));
}

LOOK(types_from_text) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    for (int i = 0; i < 5; ++i) {
        char name[16], text[512];
        size_t size = sizeof(text);
        snprintf(name, sizeof(name), "d%d", i);
        const hid_t set = TRY(H5Dopen2(f, name, H5P_DEFAULT)), type = H5Dget_type(set);
        TRY(H5LTdtype_to_text(type, text, H5LT_DDL, &size));
        say("%s", text);
        H5Tclose(type);
        H5Dclose(set);
    }
    TRY(H5Fclose(f));
}

CASE(images, "object references; chunked; user blocks") {
    unsigned char grey[20 * 30], color[4 * 5 * 3];
    const unsigned char palette[9] = {0, 0, 0, 127, 0, 0, 255, 255, 255};
    for (int i = 0; i < 600; ++i) grey[i] = (unsigned char)(i % 3);
    for (int i = 0; i < 60; ++i) color[i] = (unsigned char)(i * 4);
    const hid_t how = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_userblock(how, 512);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, how, H5P_DEFAULT));
    const hsize_t three[2] = {3, 3};
    TRY(H5IMmake_image_8bit(f, "grey", 30, 20, grey));
    TRY(H5IMmake_image_24bit(f, "color", 5, 4, "INTERLACE_PIXEL", color));
    TRY(H5IMmake_palette(f, "palette", three, palette));
    TRY(H5IMlink_palette(f, "grey", "palette"));
    TRY(H5Fclose(f));
}

LOOK(images) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    hsize_t width, height, planes, count, dims[2];
    hssize_t palettes;
    char interlace[32] = "";
    unsigned char pixels[600] = {0};
    TRY(H5IMis_image(f, "grey"));
    TRY(H5IMis_palette(f, "palette"));
    TRY(H5IMget_image_info(f, "color", &width, &height, &planes, interlace, &palettes));
    say("%llu %llu %llu %s", (unsigned long long)width, (unsigned long long)height, (unsigned long long)planes, interlace);
    TRY(H5IMread_image(f, "grey", pixels));
    say("%d %d", pixels[1], pixels[599]);
    TRY(H5IMget_npalettes(f, "grey", &palettes));
    TRY(H5IMget_palette_info(f, "grey", 0, dims));
    TRY(H5IMget_palette(f, "grey", 0, pixels));
    count = dims[0] * dims[1];
    say("%lld palettes, %llu, %d", (long long)palettes, (unsigned long long)count, pixels[8]);
    TRY(H5Fclose(f));
}

typedef struct {
    char name[8];
    int number;
    double energy;
} Row;

static const size_t offsets[] = {HOFFSET(Row, name), HOFFSET(Row, number), HOFFSET(Row, energy)};
static const size_t sizes[] = {8, sizeof(int), sizeof(double)};
static const char* fields[] = {"name", "number", "energy"};

static void fill_rows(Row* rows, int n, int from) {
    memset(rows, 0, (size_t)n * sizeof(Row));
    for (int i = 0; i < n; ++i) {
        snprintf(rows[i].name, 8, "p%d", from + i);
        rows[i].number = from + i;
        rows[i].energy = (from + i) / 3.0;
    }
}

CASE(tables, "resizable; gzip; fill values; overwrites; partial writes; extents; copy, move, delete", PAIR) {
    const hid_t f = create(file), other = create(target(file));
    const hid_t text = H5Tcopy(H5T_C_S1);
    H5Tset_size(text, 8);
    const hid_t types[] = {text, H5T_NATIVE_INT, H5T_NATIVE_DOUBLE};
    Row rows[40], fill = {"none", -1, 0.5};
    fill_rows(rows, 40, 0);
    TRY(H5TBmake_table("a title", f, "t", 3, 20, sizeof(Row), fields, offsets, types, 6, &fill, 1, rows));
    TRY(H5TBappend_records(f, "t", 20, sizeof(Row), offsets, sizes, rows + 20));
    TRY(H5TBdelete_record(f, "t", 3, 5));
    TRY(H5TBinsert_record(f, "t", 4, 2, sizeof(Row), offsets, sizes, rows));
    TRY(H5TBwrite_records(f, "t", 10, 3, sizeof(Row), offsets, sizes, rows + 30));
    const int numbers[2] = {77, 78};
    const size_t nothing = 0;
    TRY(H5TBwrite_fields_name(f, "t", "number", 1, 2, sizeof(int), &nothing, &sizes[1], numbers));
    TRY(H5TBmake_table("another", other, "t", 3, 10, sizeof(Row), fields, offsets, types, 4, NULL, 0, rows));
    TRY(H5TBmake_table("a source", f, "from", 3, 10, sizeof(Row), fields, offsets, types, 4, NULL, 0, rows + 10));
    TRY(H5TBadd_records_from(f, "from", 0, 5, "t", 3));
    TRY(H5TBcombine_tables(f, "t", other, "t", "both"));
    long longs[40] = {1, 2, 3};
    TRY(H5TBinsert_field(f, "t", "more", H5T_NATIVE_LONG, 1, &longs[2], longs));
    TRY(H5TBdelete_field(f, "t", "energy"));
    TRY(H5TBappend_records(f, "nowhere", 20, sizeof(Row), offsets, sizes, rows));
    TRY(H5Fclose(other));
    TRY(H5Fclose(f));
}

LOOK(tables) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT)), other = TRY(H5Fopen(target(file), H5F_ACC_RDONLY, H5P_DEFAULT));
    hsize_t columns, records;
    Row rows[64];
    TRY(H5TBget_table_info(other, "t", &columns, &records));
    TRY(H5TBread_table(other, "t", sizeof(Row), offsets, sizes, rows));
    say("%llu %llu %s %g", (unsigned long long)columns, (unsigned long long)records, rows[2].name, rows[2].energy);
    TRY(H5TBget_table_info(f, "t", &columns, &records));
    int numbers[5];
    const size_t nothing = 0;
    TRY(H5TBread_fields_name(f, "t", "number", 1, 5, sizeof(int), &nothing, &sizes[1], numbers));
    say("%llu %llu %d %d", (unsigned long long)columns, (unsigned long long)records, numbers[0], numbers[4]);
    TRY(H5TBread_records(f, "t", 1000, 5, sizeof(Row), offsets, sizes, rows));
    TRY(H5Fclose(other));
    TRY(H5Fclose(f));
}

CASE(packets, "appending; shuffle; file handling", AGAIN) {
    hid_t f = create(file);
    const hid_t text = H5Tcopy(H5T_C_S1), list = H5Pcreate(H5P_DATASET_CREATE);
    H5Tset_size(text, H5T_VARIABLE);
    H5Pset_shuffle(list);
    H5Pset_deflate(list, 3);
    hid_t table = TRY(H5PTcreate(f, "numbers", H5T_NATIVE_INT, 100, list));
    for (int i = 0; i < 250; ++i) H5PTappend(table, 1, &i);
    TRY(H5PTclose(table));
    table = TRY(H5PTcreate(f, "words", text, 10, H5P_DEFAULT));
    const char* words[] = {"one", "", "three"};
    TRY(H5PTappend(table, 3, words));
    TRY(H5PTclose(table));
    TRY(H5Fclose(f));
    f = TRY(H5Fopen(file, H5F_ACC_RDWR, H5P_DEFAULT));
    table = TRY(H5PTopen(f, "numbers"));
    for (int i = 250; i < 300; ++i) H5PTappend(table, 1, &i);
    hsize_t n;
    TRY(H5PTget_num_packets(table, &n));
    say("%llu", (unsigned long long)n);
    TRY(H5PTclose(table));
    TRY(H5Fclose(f));
}

LOOK(packets) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT)), table = TRY(H5PTopen(f, "numbers"));
    hsize_t n;
    int numbers[3] = {0};
    TRY(H5PTget_num_packets(table, &n));
    TRY(H5PTread_packets(table, 297, 3, numbers));
    say("%llu %d %d", (unsigned long long)n, numbers[0], numbers[2]);
    TRY(H5PTset_index(table, 100));
    TRY(H5PTget_next(table, 2, numbers));
    say("%d", numbers[1]);
    TRY(H5PTread_packets(table, 1000, 3, numbers));
    TRY(H5PTappend(table, 1, numbers));
    TRY(H5PTclose(table));
    TRY(H5Fclose(f));
}

CASE(scales, "dimension scales; chunk calls") {
    const hid_t f = create(file);
    const hsize_t dims[2] = {3, 4}, two[2] = {2, 2}, origin[2] = {0, 0};
    const double values[12] = {1, 2, 3}, x[4] = {0, 0.5, 1, 1.5};
    const int chunk[4] = {9, 8, 7, 6};
    TRY(H5LTmake_dataset_double(f, "u", 2, dims, values));
    TRY(H5LTmake_dataset_double(f, "x", 1, dims + 1, x));
    TRY(H5LTmake_dataset_double(f, "second x", 1, dims + 1, x));
    const hid_t u = H5Dopen2(f, "u", H5P_DEFAULT), scale = H5Dopen2(f, "x", H5P_DEFAULT), second = H5Dopen2(f, "second x", H5P_DEFAULT);
    TRY(H5DSset_scale(scale, "position"));
    TRY(H5DSattach_scale(u, scale, 1));
    TRY(H5DSattach_scale(u, second, 1));
    TRY(H5DSattach_scale(u, u, 0));
    TRY(H5DSset_label(u, 0, "time"));
    TRY(H5DSdetach_scale(u, second, 1));
    const hid_t list = untimed();
    H5Pset_chunk(list, 2, two);
    const hid_t chunks = TRY(H5Dcreate2(f, "chunks", H5T_NATIVE_INT, space(4, 4), H5P_DEFAULT, list, H5P_DEFAULT));
    TRY(H5DOwrite_chunk(chunks, H5P_DEFAULT, 0, origin, sizeof(chunk), chunk));
    const hsize_t far[2] = {100, 0};
    TRY(H5DOwrite_chunk(chunks, H5P_DEFAULT, 0, far, sizeof(chunk), chunk));
    const int line[4] = {1, 2, 3, 4};
    const hsize_t most[1] = {H5S_UNLIMITED}, four[1] = {4};
    const hid_t grows = untimed();
    H5Pset_chunk(grows, 1, four);
    const hid_t of = H5Screate_simple(1, four, most), series = TRY(H5Dcreate2(f, "series", H5T_NATIVE_INT, of, H5P_DEFAULT, grows, H5P_DEFAULT));
    for (int i = 0; i < 3; ++i) TRY(H5DOappend(series, H5P_DEFAULT, 0, 4, H5T_NATIVE_INT, line));
    H5Dclose(series);
    H5Dclose(chunks);
    H5Dclose(u);
    H5Dclose(scale);
    H5Dclose(second);
    TRY(H5Fclose(f));
}

static herr_t say_scale(hid_t set, unsigned dimension, hid_t scale, void* unused) {
    char name[32] = "";
    (void)set;
    (void)unused;
    H5DSget_scale_name(scale, name, sizeof(name));
    say("  scale of %u: %s", dimension, name);
    return 0;
}

LOOK(scales) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t u = H5Dopen2(f, "u", H5P_DEFAULT), x = H5Dopen2(f, "x", H5P_DEFAULT), chunks = H5Dopen2(f, "chunks", H5P_DEFAULT);
    char label[32] = "";
    TRY(H5DSis_scale(x));
    TRY(H5DSis_scale(u));
    TRY(H5DSget_num_scales(u, 1));
    TRY(H5DSget_label(u, 0, label, sizeof(label)));
    TRY(H5DSiterate_scales(u, 1, NULL, say_scale, NULL));
    TRY(H5DSis_attached(u, x, 1));
    const hsize_t origin[2] = {0, 0}, none[2] = {2, 2};
    unsigned mask = 9;
    int chunk[4] = {0};
    TRY(H5DOread_chunk(chunks, H5P_DEFAULT, origin, &mask, chunk));
    say("%s %u %d", label, mask, chunk[3]);
    TRY(H5DOread_chunk(chunks, H5P_DEFAULT, none, &mask, chunk));
    H5Dclose(u);
    H5Dclose(x);
    H5Dclose(chunks);
    TRY(H5Fclose(f));
}

CASE(file_images, "drivers; stale files") {
    size_t size;
    const int numbers[3] = {1, 2, 3};
    const hsize_t three = 3;
    hid_t f = create(file);
    TRY(H5LTmake_dataset_int(f, "x", 1, &three, numbers));
    H5Fflush(f, H5F_SCOPE_GLOBAL);
    size = (size_t)TRY(H5Fget_file_image(f, NULL, 0));
    void* image = malloc(size);
    TRY(H5Fget_file_image(f, image, size));
    TRY(H5Fclose(f));
    f = TRY(H5LTopen_file_image(image, size, H5LT_FILE_IMAGE_OPEN_RW));
    int read[3] = {0};
    TRY(H5LTread_dataset_int(f, "x", read));
    say("%d", read[2]);
    TRY(H5Fclose(f));
    free(image);
}

CASE(sizes, "zero sizes; 32 dimensions; large datasets; many objects") {
    const hid_t f = create(file);
    hsize_t dims[32];
    const int four[4] = {4, 3, 2, 1};
    for (int i = 0; i < 32; ++i) dims[i] = i < 30 ? 1 : 2;
    TRY(H5LTmake_dataset_int(f, "32", 32, dims, four));
    const hsize_t none = 0, large = 3000000;
    TRY(H5LTmake_dataset_int(f, "none", 1, &none, four));
    double* values = malloc(large * sizeof(double));
    for (hsize_t i = 0; i < large; ++i) values[i] = (double)i;
    TRY(H5LTmake_dataset_double(f, "large", 1, &large, values));
    free(values);
    for (int i = 0; i < 500; ++i) {
        char name[16];
        snprintf(name, sizeof(name), "d%d", i);
        H5LTmake_dataset_int(f, name, 1, dims, &i);
        H5LTset_attribute_int(f, name, "i", &i, 1);
    }
    TRY(H5Fclose(f));
}

LOOK(sizes) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t large = H5Dopen2(f, "large", H5P_DEFAULT);
    say_values(large, H5T_NATIVE_DOUBLE);
    int n = 0;
    TRY(H5LTget_attribute_int(f, "d499", "i", &n));
    say("%d", n);
    H5Dclose(large);
    TRY(H5Fclose(f));
}
