// A path of a call that leads into a step of a folder or of several files: the call goes on with the real one (see
// store/sets.hpp).
#pragma once

#include "posix/names.hpp"
#include "store/sets.hpp"

namespace wilkins::posix {

// While it lives, `path` is the real one, if it leads into such a step. Of tasks without such ports it costs a
// comparison.
class InSet {
public:
    InSet(const char*& path, sets::Use use, const void* caller) : InSet(AT_FDCWD, path, use, caller) {}
    InSet(int dirfd, const char*& path, sets::Use use, const void* caller) {
        if (path && sets::may_be_any() && in_run(caller) && sets::any()) find(dirfd, path, use);
    }
    ~InSet() {
        if (leads_ == sets::Leads::inside) sets::leave(place_);
    }
    InSet(const InSet&) = delete;
    InSet& operator=(const InSet&) = delete;

    // The call ends with errno.
    bool failed() const { return leads_ == sets::Leads::nowhere; }
    bool inside() const { return leads_ == sets::Leads::inside; }

private:
    void find(int dirfd, const char*& path, sets::Use use);

    sets::Leads leads_ = sets::Leads::elsewhere;
    sets::Place place_;
};

// rename of a folder of the disk to a name that is a step's then: it is begun, and the folder moves there. False: the
// names are none such; *result is else what the call answers.
bool move_into_set(const char* from, const char* to, const void* caller, int* result);

// A call has failed with EXDEV since one of these paths leads into a step in memory: the file's bytes are copied
// instead. Returns 0 or -1.
int copy_across(int from_dir, const char* from, int to_dir, const char* to);

// What an open with these flags does.
sets::Use use_of(int flags);

}  // namespace wilkins::posix

// In a function of the C library, before all else: `path` may lead into such a folder. `failed`: what the function
// answers with errno.
#define WILKINS_IN_SET(failed_result, use, ...)                      \
    const InSet in_set(__VA_ARGS__, sets::Use::use, WILKINS_CALLER); \
    if (in_set.failed()) return failed_result
