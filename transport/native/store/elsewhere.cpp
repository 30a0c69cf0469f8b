#include "store/elsewhere.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "board/step_token.hpp"
#include "names/places.hpp"
#include "steps/handles.hpp"
#include "store/store.hpp"

namespace wilkins {

StepFile* open_elsewhere(const Match& match, bool writable, int* error) {
    *error = ENOENT;
    const char* at = getenv("WILKINS_FILES_ELSEWHERE");
    char name[kNameMax];
    if (at == nullptr || match.outport < 0 || !make_whole(match.name, name)) return nullptr;
    while (*at != 0) {
        const std::string where(at, strcspn(at, ","));
        at += where.size() + (at[where.size()] == ',');
        const StepToken own = {-1, -1, 0};
        StepFile* const file = attach_far(where.c_str(), own, writable, match, name, error);
        if (file != nullptr) {
            *error = 0;
            return writable ? file : private_copy(file, error);
        }
        if (*error != ENOENT) return nullptr;
    }
    return nullptr;
}

bool find_elsewhere(const Match& match, Look* look) {
    int error = 0;
    StepFile* const file = open_elsewhere(match, false, &error);
    if (!file) return false;
    *look = {file->eof(), file->identity(), now_ns()};
    close_step(file);
    return true;
}

}  // namespace wilkins
