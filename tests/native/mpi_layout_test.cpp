// Layouts against the plain list of their bytes: random trees, cursors from anywhere, positions before a limit.
#include <algorithm>
#include <random>
#include <vector>

#include "check.hpp"
#include "mpi/layout.hpp"

using namespace wilkins::mpiio;

namespace {

// A layout and where each of its bytes lies, in order.
struct Known {
    Layout layout;
    std::vector<int64_t> bytes;
};

std::mt19937 source(20240607);

int64_t below(int64_t limit) { return std::uniform_int_distribution<int64_t>(0, limit - 1)(source); }

void append(std::vector<int64_t>& to, const std::vector<int64_t>& bytes, int64_t by) {
    for (int64_t byte : bytes) to.push_back(byte + by);
}

Known make(int depth) {
    if (depth == 0) {
        Known known{leaf(below(9)), {}};
        for (int64_t i = 0; i < known.layout->size; ++i) known.bytes.push_back(i);
        return known;
    }
    Known out;
    if (below(2) == 0) {
        const Known child = make(depth - 1);
        const int64_t count = below(5), stride = below(40);
        out.layout = repeat(count, stride, child.layout);
        for (int64_t i = 0; i < count; ++i) append(out.bytes, child.bytes, i * stride);
        return out;
    }
    std::vector<std::pair<int64_t, Layout>> parts;
    for (int64_t i = below(5); i > 0; --i) {
        const Known part = make(depth - 1);
        const int64_t offset = below(100);
        parts.emplace_back(offset, part.layout);
        append(out.bytes, part.bytes, offset);
    }
    out.layout = sequence(std::move(parts));
    return out;
}

void walks_every_byte_from_anywhere() {
    for (int round = 0; round < 3000; ++round) {
        const Known known = make(static_cast<int>(below(5)));
        const auto size = static_cast<int64_t>(known.bytes.size());
        CHECK(known.layout->size == size);
        const int64_t skip = below(size + 2);
        std::vector<int64_t> seen;
        for (Cursor cursor(known.layout, skip); !cursor.done();) {
            const int64_t part = 1 + below(cursor.run().length);
            for (int64_t i = 0; i < part; ++i) seen.push_back(cursor.run().offset + i);
            cursor.advance(part);
        }
        const auto from = known.bytes.begin() + std::min(skip, size);
        CHECK(seen == std::vector<int64_t>(from, known.bytes.end()));
    }
}

void merges_what_is_adjacent() {
    const Layout row = repeat(4, 8, leaf(8));
    CHECK(row->kind == Node::Kind::leaf && row->size == 32);
    CHECK(repeat(3, 32, row)->kind == Node::Kind::leaf);
    CHECK(sequence({{0, leaf(8)}, {8, leaf(4)}})->kind == Node::Kind::leaf);
    CHECK(repeat(5, 16, repeat(2, 8, leaf(4)))->child->kind == Node::Kind::leaf);
    CHECK(leaf(0)->size == 0 && repeat(7, 3, leaf(0))->size == 0);
    CHECK(endless(leaf(8), 8)->kind == Node::Kind::leaf);
}

void counts_bytes_before_a_limit() {
    const Layout tile = sequence({{4, leaf(4)}, {12, leaf(2)}});  // bytes 4 to 7, 12 and 13 of every 16
    for (int64_t limit = 0; limit < 400; ++limit) {
        int64_t expected = 0;
        for (int64_t place = 100; place < limit; ++place) {
            const int64_t in_tile = (place - 100) % 16;
            expected += (in_tile >= 4 && in_tile < 8) || in_tile == 12 || in_tile == 13;
        }
        CHECK(bytes_before(tile, 16, 100, limit) == expected);
    }
}

}  // namespace

int main() {
    walks_every_byte_from_anywhere();
    merges_what_is_adjacent();
    counts_bytes_before_a_limit();
    return 0;
}
