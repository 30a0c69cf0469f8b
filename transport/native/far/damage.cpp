// Whose bytes were damaged.
#include "far/damage.hpp"

#include <algorithm>

#include "events.hpp"
#include "far/far_file.hpp"

namespace wilkins::far {

std::vector<ByteRange> damaged_bytes(const std::vector<ByteRange>& crossed, const std::vector<ByteRange>& damaged) {
    std::vector<ByteRange> found;
    auto next = damaged.begin();
    uint64_t at = 0;
    for (const ByteRange& one : crossed) {
        const uint64_t end = at + (one.end - one.begin);
        while (next != damaged.end() && next->end <= at) ++next;
        for (auto range = next; range != damaged.end() && range->begin < end; ++range)
            found.push_back(
                {one.begin + (std::max(at, range->begin) - at), one.begin + (std::min(end, range->end) - at)});
        at = end;
    }
    return found;
}

uint64_t length_of(const std::vector<ByteRange>& ranges) {
    uint64_t length = 0;
    for (const ByteRange& range : ranges) length += range.end - range.begin;
    return length;
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
