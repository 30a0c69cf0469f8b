// What static libraries of Debian 13 ask of its libc, for programs that are linked with an older one: functions as of
// C23, which differ from those before in that they also read binary numbers.
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

long __isoc23_strtol(const char* text, char** end, int base) { return strtol(text, end, base); }

long long __isoc23_strtoll(const char* text, char** end, int base) { return strtoll(text, end, base); }

unsigned long __isoc23_strtoul(const char* text, char** end, int base) { return strtoul(text, end, base); }

unsigned long long __isoc23_strtoull(const char* text, char** end, int base) { return strtoull(text, end, base); }

uintmax_t __isoc23_strtoumax(const char* text, char** end, int base) { return strtoumax(text, end, base); }

int __isoc23_sscanf(const char* text, const char* format, ...) {
    va_list values;
    va_start(values, format);
    const int read = vsscanf(text, format, values);
    va_end(values);
    return read;
}
