// stream_bytes write|read NAME: the same through C++ streams.
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

extern "C" {
#include "bytes.h"
}

int main(int argc, char **argv) {
    REQUIRE(argc == 3);
    std::unique_ptr<unsigned char, decltype(&free)> bytes(make_bytes(), free);
    char *chars = reinterpret_cast<char *>(bytes.get());
    if (!strcmp(argv[1], "write")) {
        std::ofstream file(argv[2], std::ios::binary);
        REQUIRE(file.write(chars, 100).good());
        REQUIRE(file.write(chars + 100, SIZE - 100).good());
        return 0;
    }
    std::ifstream file(argv[2], std::ios::binary);
    std::vector<char> got(SIZE);
    REQUIRE(file.read(got.data(), SIZE).good());
    REQUIRE(memcmp(got.data(), chars, SIZE) == 0);
    return 0;
}
