// Groups, links, attributes, committed types, types of every class, references.
#include <stdlib.h>

#include "pair.h"

static hid_t create(const char* file) {
    return H5Fcreate(file, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

static hid_t dataset(hid_t in, const char* name, hid_t type, hid_t of, const void* values, hid_t memory) {
    const hid_t list = untimed();
    const hid_t id = H5Dcreate2(in, name, type, of, H5P_DEFAULT, list, H5P_DEFAULT);
    if (id >= 0 && values) H5Dwrite(id, memory < 0 ? type : memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, values);
    H5Pclose(list);
    return id;
}

static void put(hid_t in, const char* name, hid_t type, hid_t of, const void* values) {
    const hid_t id = dataset(in, name, type, of, values, -1);
    tried(name, id);
    H5Dclose(id);
}

static void annotate(hid_t thing, const char* name, hid_t type, hid_t of, const void* value) {
    const hid_t id = H5Acreate2(thing, name, type, of, H5P_DEFAULT, H5P_DEFAULT);
    tried(name, id);
    if (value) TRY(H5Awrite(id, type, value));
    H5Aclose(id);
}

static herr_t say_link(hid_t group, const char* name, const H5L_info_t* info, void* unused) {
    (void)group;
    (void)unused;
    say("  link %s: type %d, order %d %lld", name, (int)info->type, (int)info->corder_valid, (long long)info->corder);
    return 0;
}

CASE(groups, "groups") {
    const hid_t f = create(file);
    const hid_t between = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(between, 1);
    H5Gclose(TRY(H5Gcreate2(f, "a/b/c/d/e", between, H5P_DEFAULT, H5P_DEFAULT)));
    const hid_t few = H5Pcreate(H5P_GROUP_CREATE);
    H5Pset_link_phase_change(few, 3, 2);
    H5Pset_est_link_info(few, 3, 8);
    const hid_t g = H5Gcreate2(f, "dense later", H5P_DEFAULT, few, H5P_DEFAULT);
    for (int i = 0; i < 20; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "g%02d", i);
        H5Gclose(H5Gcreate2(g, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
    H5G_info_t info;
    TRY(H5Gget_info(g, &info));
    say("%llu links, storage %d", (unsigned long long)info.nlinks, (int)info.storage_type);
    TRY(H5Gcreate2(f, "a/b", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Gcreate2(f, "x/y", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Gopen2(f, "nowhere", H5P_DEFAULT));
    H5Gclose(g);
    TRY(H5Fclose(f));
}

LOOK(groups) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Literate_by_name(f, "dense later", H5_INDEX_NAME, H5_ITER_DEC, NULL, say_link, NULL, H5P_DEFAULT));
    TRY(H5Lexists(f, "a/b/c", H5P_DEFAULT));
    TRY(H5Gcreate2(f, "new", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Fclose(f));
}

CASE(links, "links; external links; creation order", PAIR) {
    const hid_t order = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_link_creation_order(order, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    H5Pset_attr_creation_order(order, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    const hid_t f = TRY(H5Fcreate(file, H5F_ACC_TRUNC, order, H5P_DEFAULT));
    const hid_t g = create(target(file));
    const int value[3] = {3, 1, 2};
    put(f, "zebra", H5T_STD_I32BE, space(3, 0), value);
    put(g, "far", H5T_STD_I32LE, space(3, 0), value);
    TRY(H5Lcreate_hard(f, "zebra", f, "again", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcreate_soft("/zebra", f, "soft", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcreate_soft("/nowhere", f, "dangling", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcreate_external(target(file), "/far", f, "other", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcreate_external("plain-file.h5", "/x", f, "on disk", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcreate_external("no-such-file.h5", "/x", f, "lost", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Fclose(g));
    H5Dclose(TRY(H5Dopen2(f, "on disk", H5P_DEFAULT)));
    TRY(H5Dopen2(f, "lost", H5P_DEFAULT));
    TRY(H5Dopen2(f, "dangling", H5P_DEFAULT));
    TRY(H5Lmove(f, "again", f, "moved", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Lcopy(f, "soft", f, "soft too", H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Ldelete(f, "soft", H5P_DEFAULT));
    TRY(H5Lcreate_hard(f, "nothing", f, "x", H5P_DEFAULT, H5P_DEFAULT));
    for (int i = 0; i < 3; ++i) annotate(f, i == 0 ? "z" : i == 1 ? "a" : "m", H5T_NATIVE_INT, H5Screate(H5S_SCALAR), &i);
    TRY(H5Fclose(f));
}

LOOK(links) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    TRY(H5Literate(f, H5_INDEX_CRT_ORDER, H5_ITER_INC, NULL, say_link, NULL));
    TRY(H5Literate(f, H5_INDEX_NAME, H5_ITER_INC, NULL, say_link, NULL));
    const char* const names[] = {"other", "on disk", "moved", "soft too", "dangling", "lost"};
    for (int i = 0; i < 6; ++i) {
        const hid_t x = TRY(H5Dopen2(f, names[i], H5P_DEFAULT));
        char text[256] = "";
        if (x >= 0) TRY(H5Fget_name(x, text, sizeof(text)));
        if (x >= 0) say_values(x, H5T_NATIVE_INT);
        say("  in %s", text);
        if (x >= 0) H5Dclose(x);
    }
    const char *in = "", *at = "";
    char stored[128];
    unsigned flags;
    TRY(H5Lget_val(f, "other", stored, sizeof(stored), H5P_DEFAULT));
    TRY(H5Lunpack_elink_val(stored, sizeof(stored), &flags, &in, &at));
    say("%s %s", in, at);
    TRY(H5Fclose(f));
}

typedef struct {
    double x;
    short n;
    char tag[5];
    float grid[2][2];
    hvl_t list;
    char* text;
} Mixed;

static hid_t mixed(void) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Mixed)), tag = H5Tcopy(H5T_C_S1), text = H5Tcopy(H5T_C_S1);
    const hsize_t two[2] = {2, 2};
    H5Tset_size(tag, 5);
    H5Tset_size(text, H5T_VARIABLE);
    H5Tinsert(type, "x", HOFFSET(Mixed, x), H5T_NATIVE_DOUBLE);
    H5Tinsert(type, "n", HOFFSET(Mixed, n), H5T_STD_I16BE);
    H5Tinsert(type, "tag", HOFFSET(Mixed, tag), tag);
    H5Tinsert(type, "grid", HOFFSET(Mixed, grid), H5Tarray_create2(H5T_NATIVE_FLOAT, 2, two));
    H5Tinsert(type, "list", HOFFSET(Mixed, list), H5Tvlen_create(H5T_NATIVE_SHORT));
    H5Tinsert(type, "text", HOFFSET(Mixed, text), text);
    return type;
}

static void fill_mixed(Mixed* at, short* numbers) {
    memset(at, 0, 2 * sizeof(Mixed));
    for (int i = 0; i < 2; ++i) {
        at[i].x = 1.5 * i;
        at[i].n = (short)(i * 256 + 1);
        memcpy(at[i].tag, i ? "two" : "one", 3);
        at[i].grid[1][0] = 7.25f;
        at[i].list.len = (size_t)i * 3;
        at[i].list.p = numbers;
        at[i].text = (char*)(i ? "a longer text of variable length" : "");
    }
}

CASE(types, "compound types; nested types; array types; sequences; strings; fixed strings; enumerations; booleans; opaque types; bitfields; complex; numbers") {
    const hid_t f = create(file);
    Mixed values[2];
    short numbers[3] = {1, -2, 300};
    fill_mixed(values, numbers);
    put(f, "mixed", mixed(), space(2, 0), values);
    const hid_t color = H5Tenum_create(H5T_STD_I16BE);
    const short red = 0, blue = 256;
    TRY(H5Tenum_insert(color, "red", &red));
    TRY(H5Tenum_insert(color, "blue", &blue));
    TRY(H5Tenum_insert(color, "blue", &red));
    const short colors[3] = {256, 0, 256};
    put(f, "enum", color, space(3, 0), colors);
    const hid_t truth = H5Tenum_create(H5T_NATIVE_INT8);
    const signed char no = 0, yes = 1, truths[2] = {1, 0};
    H5Tenum_insert(truth, "FALSE", &no);
    H5Tenum_insert(truth, "TRUE", &yes);
    put(f, "bool", truth, space(2, 0), truths);
    const hid_t opaque = H5Tcreate(H5T_OPAQUE, 5);
    H5Tset_tag(opaque, "five bytes");
    put(f, "opaque", opaque, space(2, 0), "0123456789");
    const unsigned bits[3] = {1, 0x8001, 0xffff};
    put(f, "bits", H5T_STD_B32BE, space(3, 0), bits);
    const hid_t complex = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(complex, "r", 0, H5T_NATIVE_DOUBLE);
    H5Tinsert(complex, "i", 8, H5T_NATIVE_DOUBLE);
    const double c[4] = {1, -2, 0.5, 1e300};
    put(f, "complex", complex, space(2, 0), c);
    const hid_t numbers_of[] = {H5T_STD_I8LE, H5T_STD_U16BE, H5T_STD_I64BE, H5T_IEEE_F32BE, H5T_IEEE_F64BE};
    for (int i = 0; i < 5; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "number %d", i);
        const double from[4] = {0, 1, -3, 1e9};
        H5Dclose(TRY(dataset(f, name, numbers_of[i], space(4, 0), from, H5T_NATIVE_DOUBLE)));
    }
    const hid_t odd = H5Tcopy(H5T_STD_I32LE), small = H5Tcopy(H5T_IEEE_F32LE);
    TRY(H5Tset_precision(odd, 19));
    TRY(H5Tset_offset(odd, 7));
    TRY(H5Tset_pad(odd, H5T_PAD_ONE, H5T_PAD_ZERO));
    TRY(H5Tset_fields(small, 15, 10, 5, 0, 10));
    TRY(H5Tset_size(small, 2));
    TRY(H5Tset_ebias(small, 15));
    const double some[3] = {1, -2, 1000};
    H5Dclose(TRY(dataset(f, "odd", odd, space(3, 0), some, H5T_NATIVE_DOUBLE)));
    H5Dclose(TRY(dataset(f, "half", small, space(3, 0), some, H5T_NATIVE_DOUBLE)));
    for (int pad = H5T_STR_NULLTERM; pad <= H5T_STR_SPACEPAD; ++pad) {
        const hid_t text = H5Tcopy(H5T_C_S1);
        H5Tset_size(text, 6);
        H5Tset_strpad(text, (H5T_str_t)pad);
        H5Tset_cset(text, pad ? H5T_CSET_UTF8 : H5T_CSET_ASCII);
        put(f, pad == 0 ? "terminated" : pad == 1 ? "padded" : "spaced", text, space(2, 0), "ab\0\0\0\0cdefgh");
    }
    TRY(H5Fclose(f));
}

LOOK(types) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    hid_t x = TRY(H5Dopen2(f, "mixed", H5P_DEFAULT));
    Mixed values[2];
    memset(values, 0, sizeof(values));
    const hid_t type = mixed(), of = H5Dget_space(x);
    hsize_t size = 0;
    TRY(H5Dvlen_get_buf_size(x, type, of, &size));
    TRY(H5Dread(x, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values));
    for (int i = 0; i < 2; ++i)
        say("%g %d %.5s %g %zu %d %s, %llu", values[i].x, values[i].n, values[i].tag, values[i].grid[1][0], values[i].list.len,
            values[i].list.len ? ((short*)values[i].list.p)[2] : 0, values[i].text ? values[i].text : "", (unsigned long long)size);
    TRY(H5Dvlen_reclaim(type, of, H5P_DEFAULT, values));
    H5Dclose(x);
    const char* const names[] = {"enum", "bits", "odd", "half", "number 1", "number 4"};
    for (int i = 0; i < 6; ++i) {
        x = TRY(H5Dopen2(f, names[i], H5P_DEFAULT));
        const hid_t native = H5Tget_native_type(H5Dget_type(x), H5T_DIR_ASCEND);
        say("%s: class %d, size %zu", names[i], (int)H5Tget_class(native), H5Tget_size(native));
        say_values(x, native);
        say_values(x, H5T_NATIVE_FLOAT);
        H5Dclose(x);
    }
    TRY(H5Fclose(f));
}

CASE(attributes, "attributes; committed types; null and scalar spaces") {
    const hid_t f = create(file);
    Mixed values[2];
    short numbers[3] = {1, 2, 3};
    fill_mixed(values, numbers);
    const hid_t kind = mixed();
    TRY(H5Tcommit2(f, "kind", kind, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    TRY(H5Tcommitted(kind));
    TRY(H5Tcommit_anon(f, H5Tcopy(H5T_NATIVE_INT), H5P_DEFAULT, H5P_DEFAULT));
    const hid_t x = dataset(f, "x", kind, space(2, 0), values, -1), g = H5Gcreate2(f, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t things[] = {f, g, x, kind};
    for (int i = 0; i < 4; ++i) {
        const int n[6] = {1, 2, 3, 4, 5, 6};
        annotate(things[i], "matrix", H5T_STD_I32BE, space(2, 3), n);
        annotate(things[i], "committed", kind, space(2, 0), values);
        annotate(things[i], "null", H5T_NATIVE_INT, H5Screate(H5S_NULL), NULL);
        annotate(things[i], "scalar", H5T_IEEE_F32BE, H5Screate(H5S_SCALAR), n);
        TRY(H5Arename(things[i], "scalar", "renamed"));
        TRY(H5Adelete(things[i], "none"));
        TRY(H5Aexists(things[i], "matrix"));
    }
    for (int i = 0; i < 40; ++i) {
        char name[32];
        snprintf(name, sizeof(name), "many %02d", i);
        annotate(g, name, H5T_NATIVE_INT, H5Screate(H5S_SCALAR), &i);
    }
    TRY(H5Dclose(x));
    TRY(H5Tclose(kind));
    H5Gclose(g);
    TRY(H5Fclose(f));
}

static herr_t say_attribute(hid_t thing, const char* name, const H5A_info_t* info, void* unused) {
    (void)thing;
    (void)unused;
    say("  %s: %llu bytes, cset %d", name, (unsigned long long)info->data_size, (int)info->cset);
    return 0;
}

LOOK(attributes) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    const char* const names[] = {"/", "g", "x", "kind"};
    for (int i = 0; i < 4; ++i) {
        const hid_t thing = TRY(H5Oopen(f, names[i], H5P_DEFAULT));
        TRY(H5Aiterate2(thing, H5_INDEX_NAME, H5_ITER_INC, NULL, say_attribute, NULL));
        TRY(H5Aopen(thing, "none", H5P_DEFAULT));
        TRY(H5Adelete(thing, "matrix"));
        H5Oclose(thing);
    }
    TRY(H5Fclose(f));
}

CASE(references, "object references; region references") {
    const hid_t f = create(file);
    const int n[12] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const hid_t x = dataset(f, "x", H5T_STD_I32LE, space(3, 4), n, -1), s = space(3, 4);
    hobj_ref_t objects[3] = {0};
    hdset_reg_ref_t regions[2];
    memset(regions, 0, sizeof(regions));
    const hsize_t start[2] = {1, 0}, count[2] = {2, 2}, stride[2] = {1, 2}, points[4] = {0, 0, 2, 3};
    TRY(H5Rcreate(&objects[0], f, "x", H5R_OBJECT, -1));
    TRY(H5Rcreate(&objects[1], f, "/", H5R_OBJECT, -1));
    TRY(H5Rcreate(&objects[2], f, "nothing", H5R_OBJECT, -1));
    H5Sselect_hyperslab(s, H5S_SELECT_SET, start, stride, count, NULL);
    TRY(H5Rcreate(&regions[0], f, "x", H5R_DATASET_REGION, s));
    H5Sselect_elements(s, H5S_SELECT_SET, 2, points);
    TRY(H5Rcreate(&regions[1], f, "x", H5R_DATASET_REGION, s));
    put(f, "objects", H5T_STD_REF_OBJ, space(3, 0), objects);
    put(f, "regions", H5T_STD_REF_DSETREG, space(2, 0), regions);
    annotate(x, "self", H5T_STD_REF_OBJ, space(2, 0), objects);
    H5Dclose(x);
    TRY(H5Fclose(f));
}

LOOK(references) {
    const hid_t f = TRY(H5Fopen(file, H5F_ACC_RDONLY, H5P_DEFAULT));
    const hid_t x = TRY(H5Dopen2(f, "regions", H5P_DEFAULT));
    hdset_reg_ref_t regions[2];
    TRY(H5Dread(x, H5T_STD_REF_DSETREG, H5S_ALL, H5S_ALL, H5P_DEFAULT, regions));
    for (int i = 0; i < 2; ++i) {
        char name[32] = "";
        const hid_t region = TRY(H5Rget_region(x, H5R_DATASET_REGION, &regions[i]));
        TRY(H5Rget_name(x, H5R_DATASET_REGION, &regions[i], name, sizeof(name)));
        const hid_t of = TRY(H5Rdereference2(x, H5P_DEFAULT, H5R_DATASET_REGION, &regions[i]));
        int values[4] = {0};
        TRY(H5Dread(of, H5T_NATIVE_INT, space((hsize_t)H5Sget_select_npoints(region), 0), region, H5P_DEFAULT, values));
        say("%s: %d %d %d %d", name, values[0], values[1], values[2], values[3]);
        H5Oclose(of);
    }
    H5Dclose(x);
    TRY(H5Fclose(f));
}
