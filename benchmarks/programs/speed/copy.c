/* Copies of memory: `copy BYTES SHEET STEPS WARM PACED`; each is a step of the sheet. */
#include "sheet.h"

int main(int argc, char** argv) {
    if (argc != 6) return fprintf(stderr, "usage: copy BYTES SHEET STEPS WARM PACED\n"), 2;
    const size_t bytes = strtoull(argv[1], NULL, 10);
    Sheet sheet = open_sheet(argv + 2);
    char *from = malloc(bytes), *to = malloc(bytes);
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int step = 0; step < sheet.steps; ++step) {
        from[0] = (char)step;
        note(&sheet, step, BEGIN);
        memcpy(to, from, bytes);
        if (((volatile char*)to)[0] != (char)step) return 3;
        note(&sheet, step, RELEASED);
        note(&sheet, step, READ);
    }
    return 0;
}
