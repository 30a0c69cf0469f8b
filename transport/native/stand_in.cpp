// Names that stand for the next step of an in-port.
#include "stand_in.hpp"

#include "match.hpp"

namespace wilkins {

bool is_called(const PortRecord& port, const char* name) {
    if (port.stand_in == StandIn::given) return pattern_match(port.stands, static_cast<int>(port.stands_components), name);
    return pattern_match(port.pattern, static_cast<int>(port.components), name);
}

bool means(const PortRecord& inport, const char* asked, const char* published) {
    if (stands_in(inport)) return pattern_match(inport.stands, static_cast<int>(inport.stands_components), asked);
    return same_ends(asked, published, static_cast<int>(inport.components));
}

const char* name_for(const PortRecord& inport, const SlotRecord& slot) { return stands_in(inport) ? inport.stands : slot.name; }

}  // namespace wilkins
