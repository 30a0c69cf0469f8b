// The types of random programs' elements, and values of them.
#include "performer.h"

static hid_t record(void) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 13);
    H5Tinsert(type, "a", 0, H5T_STD_I32LE);
    H5Tinsert(type, "b", 4, H5T_IEEE_F64BE);
    H5Tinsert(type, "c", 12, H5T_STD_U8LE);
    return type;
}

static hid_t triple(void) {
    const hsize_t three = 3;
    return H5Tarray_create2(H5T_IEEE_F32BE, 1, &three);
}

static hid_t colours(void) {
    static const char* const names[] = {"red", "green", "blue"};
    const hid_t type = H5Tenum_create(H5T_STD_I16BE);
    for (short k = 0; k < 3; ++k) H5Tenum_insert(type, names[k], &k);
    return type;
}

static hid_t nested(void) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 40), inner = record(), three = triple();
    H5Tinsert(type, "inner", 2, inner);
    H5Tinsert(type, "b", 16, H5T_STD_I64LE);
    H5Tinsert(type, "three", 24, three);
    H5Tclose(inner);
    H5Tclose(three);
    return type;
}

static hid_t bytes(hid_t kind, size_t size) {
    const hid_t type = kind == H5T_C_S1 ? H5Tcopy(kind) : H5Tcreate(H5T_OPAQUE, size);
    if (kind == H5T_C_S1) H5Tset_size(type, size);
    else H5Tset_tag(type, "a tag");
    return type;
}

hid_t type_of(long number) {
    const hid_t numbers[] = {H5T_STD_I8LE,   H5T_STD_I16BE,  H5T_STD_I32LE,  H5T_STD_I32BE, H5T_STD_I64LE,
                             H5T_STD_U8LE,   H5T_STD_U16BE,  H5T_STD_U32LE,  H5T_STD_U64BE, H5T_IEEE_F32LE,
                             H5T_IEEE_F32BE, H5T_IEEE_F64LE, H5T_IEEE_F64BE, H5T_STD_B16BE};
    const int plain = sizeof(numbers) / sizeof(numbers[0]);
    if (number < plain) return H5Tcopy(numbers[number]);
    switch (number - plain) {
        case 0: return record();
        case 1: return triple();
        case 2: return colours();
        case 3: return nested();
        case 4: return bytes(H5T_OPAQUE, 5);
        case 5: return bytes(H5T_C_S1, 6);
        default: return bytes(H5T_C_S1, H5T_VARIABLE);
    }
}

hid_t memory_type(hid_t type, int how) {
    static const hid_t* const natives[] = {&H5T_NATIVE_DOUBLE_g, &H5T_NATIVE_INT_g, &H5T_NATIVE_LLONG_g};
    const H5T_class_t kind = H5Tget_class(type);
    if (how > 0 && (kind == H5T_INTEGER || kind == H5T_FLOAT)) return H5Tcopy(*natives[(how - 1) % 3]);
    if (how > 0 && kind == H5T_COMPOUND) {
        const hid_t member = H5Tcreate(H5T_COMPOUND, 8);
        H5Tinsert(member, "b", 0, how % 2 ? H5T_NATIVE_DOUBLE : H5T_NATIVE_LLONG);
        return member;
    }
    return H5Tcopy(type);
}

static unsigned long long mixed(unsigned long long seed, unsigned long long number) {
    unsigned long long x = (seed + 1) * 0x9e3779b97f4a7c15ull + number * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 31)) * 0x94d049bb133111ebull;
    return x ^ (x >> 29);
}

void fill(void* values, hid_t type, size_t count, long seed) {
    const size_t size = H5Tget_size(type);
    hid_t as = H5Tget_class(type) == H5T_COMPOUND && H5Tget_nmembers(type) == 1 ? H5Tget_member_type(type, 0) : H5Tcopy(type);
    const int doubles = H5Tequal(as, H5T_NATIVE_DOUBLE) > 0;
    const int words = H5Tget_class(as) == H5T_STRING;
    for (size_t i = 0; i < count; ++i) {
        unsigned char* const element = (unsigned char*)values + i * size;
        const double number = (double)((long long)(mixed((unsigned long long)seed, i) % 4001) - 2000) / 4;
        if (doubles) memcpy(element, &number, sizeof(number));
        for (size_t b = 0; !doubles && b < size; ++b) {
            const unsigned char byte = (unsigned char)(mixed((unsigned long long)seed, i * 64 + b) >> 11);
            element[b] = words ? (unsigned char)('a' + byte % 26) : byte;
        }
    }
    H5Tclose(as);
}

void say_content(const char* what, const void* content, size_t size) {
    const unsigned char* const all = content;
    unsigned long long sum = 1469598103934665603ull;
    for (size_t i = 0; i < size; ++i) sum = (sum ^ all[i]) * 1099511628211ull;
    char first[65] = "";
    for (size_t i = 0; i < size && i < 32; ++i) snprintf(first + 2 * i, 3, "%02x", all[i]);
    say("  %s: %zu bytes, digest %llx: %s", what, size, sum, first);
}
