// Where the bytes of a typed transfer lie: a compact tree of runs, and a cursor that walks it in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace wilkins::mpiio {

// A piece of contiguous bytes, relative to where the layout starts.
struct Run {
    int64_t offset = 0;
    int64_t length = 0;
};

struct Node;
using Layout = std::shared_ptr<const Node>;

// One node of a layout. Build with the functions below, which merge what is adjacent: a layout whose bytes are
// contiguous from offset 0 is always a single `leaf`.
struct Node {
    enum class Kind { leaf, runs, repeat, sequence };

    Kind kind = Kind::leaf;
    int64_t size = 0;              // bytes of data
    int64_t count = 0;             // repeat: how often `child` occurs
    int64_t stride = 0;            // repeat: bytes from one occurrence to the next
    Layout child;                  // repeat
    std::vector<int64_t> offsets;  // runs, sequence: where each part starts
    std::vector<int64_t> before;   // runs, sequence: bytes of data before each part, and the total
    std::vector<Layout> parts;     // sequence

    int64_t width() const;  // children a cursor can stand on
};

Layout leaf(int64_t size);
Layout repeat(int64_t count, int64_t stride, Layout child);
Layout sequence(std::vector<std::pair<int64_t, Layout>> parts);
// `tile` again and again, `extent` apart, farther than any file reaches.
Layout endless(const Layout& tile, int64_t extent);

// Stands on a byte of a layout and yields the rest of it run by run.
class Cursor {
public:
    explicit Cursor(Layout layout, int64_t skip = 0);

    bool done() const { return run_.length == 0; }
    // What is left of the run it stands on.
    const Run& run() const { return run_; }
    // Goes on by `bytes`, at most the length of the run.
    void advance(int64_t bytes);

private:
    struct Frame {
        const Node* node;
        int64_t base;
        int64_t index;
    };

    void descend(const Node* node, int64_t base, int64_t skip);
    void next();

    Layout layout_;
    std::vector<Frame> frames_;
    Run run_;
};

// Bytes of data that `layout`, put at `start` and repeated endlessly `extent` apart, has before file position `limit`.
int64_t bytes_before(const Layout& tile, int64_t extent, int64_t start, int64_t limit);

}  // namespace wilkins::mpiio
