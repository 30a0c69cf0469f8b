// Whose bytes were damaged.
#include "far/damage.hpp"

#include <algorithm>

#include "events.hpp"
#include "far/far_file.hpp"

namespace wilkins::far {

std::vector<ByteRange> damaged_bytes(const std::vector<Crossed>& crossed, const std::vector<ByteRange>& damaged) {
    std::vector<ByteRange> found;
    uint64_t at = 0;
    for (const Crossed& one : crossed) {
        for (const ByteRange& range : damaged) {
            const uint64_t begin = std::max(at, range.begin), end = std::min(at + one.stored, range.end);
            if (begin >= end) continue;
            const bool plain = one.stored == one.end - one.begin;
            found.push_back(plain ? ByteRange{one.begin + (begin - at), one.begin + (end - at)}
                                  : ByteRange{one.begin, one.end});
        }
        at += one.stored;
    }
    return found;
}

void note_damage(const char* server, const StepToken& token, const char* name, const char* from,
                 const std::vector<ByteRange>& bytes) {
    int error = 0;
    const std::unique_ptr<FarFile> step = FarFile::open(server, token, Use::bring, name, "", &error);
    const std::string of = step ? step->owners(bytes) : "";
    const std::string range =
        bytes.empty() ? "" : std::to_string(bytes.front().begin) + " to " + std::to_string(bytes.back().end);
    log_event(event::damaged_on_the_way(name, (of.empty() ? range : of).c_str(), from));
}

}  // namespace wilkins::far
