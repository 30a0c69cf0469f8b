// Pieces of memory cross as one sequence of bytes, however many of them each call moves.
#include "base/pieces.hpp"

#include <random>
#include <vector>

#include "check.hpp"

using namespace wilkins;

namespace {

// What one call moves, of which the kernel may do less.
void cross(std::mt19937& random, std::vector<std::vector<char>> pieces) {
    const auto any = [&random](uint64_t least, uint64_t most) {
        return std::uniform_int_distribution<uint64_t>(least, most)(random);
    };
    Pieces left;
    std::vector<char> whole, moved;
    for (std::vector<char>& piece : pieces) {
        left.add(piece.data(), piece.size());
        whole.insert(whole.end(), piece.begin(), piece.end());
    }
    while (!left.done()) {
        const uint64_t most = any(0, 3) == 0 ? UINT64_MAX : any(1, 5000);
        const msghdr& message = *left.next(most);
        std::vector<char> given;
        for (size_t k = 0; k < message.msg_iovlen; ++k) {
            const auto* const at = static_cast<const char*>(message.msg_iov[k].iov_base);
            CHECK(message.msg_iov[k].iov_len > 0);
            given.insert(given.end(), at, at + message.msg_iov[k].iov_len);
        }
        CHECK(message.msg_iovlen <= 1024);  // what a kernel takes
        CHECK(!given.empty() && given.size() <= most);
        const uint64_t count = any(1, given.size());
        left.advance(count);
        moved.insert(moved.end(), given.begin(), given.begin() + static_cast<std::ptrdiff_t>(count));
    }
    CHECK(moved == whole);
}

}  // namespace

int main() {
    CHECK(Pieces().done());
    std::mt19937 random(1);
    for (int round = 0; round < 300; ++round) {
        const auto any = [&random](size_t least, size_t most) {
            return std::uniform_int_distribution<size_t>(least, most)(random);
        };
        std::vector<std::vector<char>> pieces(any(0, round % 10 == 0 ? 2000 : 20));
        for (std::vector<char>& piece : pieces) {
            piece.resize(any(0, 3) == 0 ? 0 : any(1, 700));
            for (char& byte : piece) byte = static_cast<char>(any(0, 255));
        }
        cross(random, std::move(pieces));
    }
    return 0;
}
