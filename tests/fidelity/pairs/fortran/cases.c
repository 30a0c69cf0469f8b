// The cases of the Fortran modules beside this file, which are called from here, each with the name of its file.
#include "pair.h"

// Says a line of Fortran text, which has no end mark.
void say_text(const char* text, int length) {
    say("%.*s", length, text);
}

// Says what a call returned, as a line of its own.
void tried_fortran(const char* call, int length, int result) {
    char name[80];
    snprintf(name, sizeof(name), "%.*s", length < 79 ? length : 79, call);
    tried(name, result);
}

#define FORTRAN(name)                                \
    void write_fortran_##name(const char* file);     \
    void look_fortran_##name(const char* file);

FORTRAN(groups)
FORTRAN(attributes)
FORTRAN(types)
FORTRAN(layouts)
FORTRAN(parts)
FORTRAN(references)
FORTRAN(reopened)
FORTRAN(specially)
FORTRAN(highlevel)
FORTRAN(interoperable)
FORTRAN(sizes)

CASE(groups, "groups; links; external links; creation order; copy, move, delete; errors", PAIR) { write_fortran_groups(file); }
LOOK(groups) { look_fortran_groups(file); }
CASE(attributes, "attributes; fixed strings; null and scalar spaces; committed types") { write_fortran_attributes(file); }
LOOK(attributes) { look_fortran_attributes(file); }
CASE(types, "numbers; compound types; nested types; array types; enumerations; opaque types; complex; bitfields") { write_fortran_types(file); }
LOOK(types) { look_fortran_types(file); }
CASE(layouts, "contiguous; compact; chunked; resizable; gzip; shuffle; fletcher32; szip; scale-offset; fill values; fill times") { write_fortran_layouts(file); }
LOOK(layouts) { look_fortran_layouts(file); }
CASE(parts, "partial writes; overwrites; extents; filling memory") { write_fortran_parts(file); }
LOOK(parts) { look_fortran_parts(file); }
CASE(references, "object references; region references") { write_fortran_references(file); }
LOOK(references) { look_fortran_references(file); }
CASE(reopened, "appending; file handling; closing; errors", AGAIN) { write_fortran_reopened(file); }
LOOK(reopened) { look_fortran_reopened(file); }
CASE(specially, "user blocks; formats; drivers", PAIR) { write_fortran_specially(file); }
LOOK(specially) { look_fortran_specially(file); }
CASE(highlevel, "dimension scales") { write_fortran_highlevel(file); }
LOOK(highlevel) { look_fortran_highlevel(file); }
CASE(interoperable, "strings; sequences; booleans") { write_fortran_interoperable(file); }
LOOK(interoperable) { look_fortran_interoperable(file); }
CASE(sizes, "zero sizes; large datasets; many objects") { write_fortran_sizes(file); }
LOOK(sizes) { look_fortran_sizes(file); }
CASE(over_a_stale_file, "stale files") { write_fortran_references(file); }
