/* A child that is linked statically, so that nothing can be preloaded into it: copies its input to its output. */
#include <unistd.h>

int main(void) {
    char bytes[5000];
    for (ssize_t n; (n = read(0, bytes, sizeof(bytes))) > 0;)
        if (write(1, bytes, (size_t)n) != n) return 1;
    return 0;
}
