// nftw and ftw: the C library's own read directories without readdir.
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "posix/dirs.hpp"
#include "posix/names.hpp"

namespace wilkins::posix {
namespace {

using Simple = int (*)(const char*, const struct stat*, int);
using Detailed = int (*)(const char*, const struct stat*, int, struct FTW*);

// One walk; its answers are those of nftw: 0, -1 with errno, or what the program's function has returned to end it.
class Walk {
public:
    Walk(Simple simple, Detailed detailed, int flags, const void* caller)
        : simple_(simple), detailed_(detailed), flags_(flags), caller_(caller) {}

    int from(const char* path) {
        std::string root = path;
        char here[PATH_MAX];
        if ((flags_ & FTW_CHDIR) && path[0] != '/') {  // the walk's own names must not depend on where it is
            if (!getcwd(here, sizeof(here))) return -1;
            root = std::string(here) + "/" + path;
            before_ = root.size() - strlen(path);
        }
        while (root.size() > 1 && root.back() == '/') root.pop_back();
        const Start start{(flags_ & FTW_CHDIR) ? libc::open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1};
        if ((flags_ & FTW_CHDIR) && start.fd < 0) return -1;
        const int result = visit(root, 0);
        const bool skips = (flags_ & FTW_ACTIONRETVAL) && (result == FTW_SKIP_SUBTREE || result == FTW_SKIP_SIBLINGS);
        return skips ? 0 : result;
    }

private:
    // Where the program was; it is there again in the end.
    struct Start {
        int fd;
        ~Start() {
            const int error = errno;
            if (fd >= 0) {
                static_cast<void>(fchdir(fd) == 0);  // there is nobody to tell
                libc::close(fd);
            }
            errno = error;
        }
    };
    struct Closing {
        DIR* directory;
        ~Closing() { close_directory(directory); }
    };

    static int base_of(const std::string& path) {
        const size_t slash = path.rfind('/');
        return slash == std::string::npos || path.size() == 1 ? 0 : static_cast<int>(slash) + 1;
    }

    int call(const std::string& path, const struct stat& st, int kind, int level) {
        const std::string name = path.size() > before_ ? path.substr(before_) : path;
        if (simple_) return simple_(name.c_str(), &st, kind == FTW_SLN ? FTW_SL : kind);
        struct FTW at = {base_of(name), level};
        return detailed_(name.c_str(), &st, kind, &at);
    }

    // In the folder of `path`, where names start that the program's function uses; the walk itself goes on by whole
    // names.
    bool enter_folder(const std::string& path) const {
        if (!(flags_ & FTW_CHDIR)) return true;
        const int base = base_of(path);
        return base == 0 || chdir(path.substr(0, static_cast<size_t>(base)).c_str()) == 0;
    }

    int visit(const std::string& path, int level) {
        struct stat st = {};
        const bool follow = !(flags_ & FTW_PHYS);
        int kind = FTW_NS;
        if (stat_for_program(path.c_str(), &st, follow) == 0)
            kind = S_ISDIR(st.st_mode) ? FTW_D : S_ISLNK(st.st_mode) ? FTW_SL : FTW_F;
        else if (follow && stat_for_program(path.c_str(), &st, false) == 0) kind = FTW_SLN;
        else if (level == 0 || (errno != EACCES && errno != ENOENT)) return -1;
        if (level == 0) device_ = st.st_dev;
        if (kind == FTW_D && (flags_ & FTW_MOUNT) && st.st_dev != device_) return 0;
        if (!enter_folder(path)) return -1;
        return kind == FTW_D ? visit_folder(path, st, level) : call(path, st, kind, level);
    }

    int visit_folder(const std::string& path, const struct stat& st, int level) {
        const std::pair<dev_t, ino_t> self{st.st_dev, st.st_ino};
        if (!(flags_ & FTW_PHYS)) {  // a link may lead back here
            for (const auto& seen : seen_)
                if (seen == self) return 0;
            seen_.push_back(self);
        }
        std::vector<std::string> names;
        if (!read(path, &names)) return errno == EACCES ? call(path, st, FTW_DNR, level) : -1;
        const bool acts = flags_ & FTW_ACTIONRETVAL;
        int result = 0;
        if (!(flags_ & FTW_DEPTH)) result = call(path, st, FTW_D, level);
        if (acts && result == FTW_SKIP_SUBTREE) return 0;
        for (size_t k = 0; result == 0 && k < names.size(); ++k)
            result = visit(path == "/" ? "/" + names[k] : path + "/" + names[k], level + 1);
        if (acts && result == FTW_SKIP_SIBLINGS) result = 0;
        if (result != 0 || !(flags_ & FTW_DEPTH)) return result;
        if (!enter_folder(path)) return -1;
        return call(path, st, FTW_DP, level);
    }

    bool read(const std::string& path, std::vector<std::string>* names) const {
        DIR* const directory = open_directory(path.c_str(), caller_);
        if (!directory) return false;
        const Closing closing{directory};
        while (const struct dirent* entry = read_directory(directory))
            if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) names->emplace_back(entry->d_name);
        return true;
    }

    const Simple simple_;
    const Detailed detailed_;
    const int flags_;
    const void* const caller_;
    size_t before_ = 0;  // of the walk's names: what the program has not given
    dev_t device_ = 0;
    std::vector<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace
}  // namespace wilkins::posix

using namespace wilkins;
using namespace wilkins::posix;

WILKINS_INTERPOSE(int, nftw, const char* path, int (*visit)(const char*, const struct stat*, int, struct FTW*),
                  int most, int flags) {
    if (!path || !path[0] || !in_run(WILKINS_CALLER)) return libc::nftw(path, visit, most, flags);
    const libc::KeptErrno kept;
    return kept(Walk(nullptr, visit, flags, WILKINS_CALLER).from(path));
}
WILKINS_OR(-1)
WILKINS_ALIAS(nftw64, nftw);

WILKINS_INTERPOSE(int, ftw, const char* path, int (*visit)(const char*, const struct stat*, int), int most) {
    if (!path || !path[0] || !in_run(WILKINS_CALLER)) return libc::ftw(path, visit, most);
    const libc::KeptErrno kept;
    return kept(Walk(visit, nullptr, 0, WILKINS_CALLER).from(path));
}
WILKINS_OR(-1)
WILKINS_ALIAS(ftw64, ftw);
