#include <silo.h>
#include <stdio.h>
int main(void) {
    for (int step = 0; step < 4; ++step) {
        char name[32];
        snprintf(name, sizeof name, "plt%04d.silo", step);
        double x[4];
        DBfile *file = DBOpen(name, DB_UNKNOWN, DB_READ);
        if (!file || DBReadVar(file, "x", x) || DBClose(file)) return 1;
        printf("%d: %g %g %g %g\n", step, x[0], x[1], x[2], x[3]);
    }
}
