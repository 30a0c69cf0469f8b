// Names and patterns.
#include "base/patterns.hpp"

#include <cstring>
#include <string>

#include "check.hpp"

using namespace wilkins;

namespace {

std::string clean(const char* name) {
    char out[512];
    CHECK(normalise(name, out, sizeof(out)));
    return out;
}

}  // namespace

int main() {
    CHECK(clean("a/b.h5") == "a/b.h5");
    CHECK(clean("./a//b.h5") == "a/b.h5");
    CHECK(clean("a/./x/../b.h5") == "a/b.h5");
    CHECK(clean("../b.h5") == "../b.h5");
    CHECK(clean("../../b.h5") == "../../b.h5");
    CHECK(clean("a/../../b.h5") == "../b.h5");
    CHECK(clean("/../b.h5") == "/b.h5");
    CHECK(clean("/a/../b.h5") == "/b.h5");
    CHECK(clean("/a//") == "/a");
    char tiny[8];
    CHECK(!normalise("a-long-name.h5", tiny, sizeof(tiny)));

    CHECK(glob_match("plt*.h5", "plt0001.h5"));
    CHECK(glob_match("plt*.h5", "plt.h5"));
    CHECK(!glob_match("plt*.h5", "plt0001.h5.tmp"));
    CHECK(!glob_match("plt*.h5", "a/plt0001.h5"));
    CHECK(!glob_match("*", "a/b"));
    CHECK(glob_match("*/b", "a/b"));
    CHECK(glob_match("*-ez-*.h5", "guide-ez-000010.00.h5"));
    CHECK(glob_match("p[0-9][!a].h5", "p3b.h5"));
    CHECK(!glob_match("p[0-9][!a].h5", "p3a.h5"));
    CHECK(glob_match("p[.h5", "p[.h5"));
    CHECK(glob_match("[]x].h5", "].h5"));
    CHECK(glob_match("a?c", "abc"));
    CHECK(!glob_match("a?c", "a/c"));
    CHECK(!glob_match("sim.h5", "sim-analysis.h5"));
    CHECK(!glob_match("", "a"));
    CHECK(glob_match("", ""));
    // Backtracking stays linear in the text for one star after another.
    const std::string many(300, 'a');
    CHECK(!glob_match("*a*a*a*a*a*a*b", many.c_str()));

    CHECK(pattern_match("out.h5", 1, "/scratch/run/out.h5"));
    CHECK(pattern_match("out.h5", 1, "../sim/out.h5"));
    CHECK(pattern_match("run/plt*.h5", 2, "/scratch/run/plt1.h5"));
    CHECK(!pattern_match("run/plt*.h5", 2, "plt1.h5"));
    CHECK(!pattern_match("run/plt*.h5", 2, "rerun/plt1.h5"));
    CHECK(pattern_match("/scratch/*.h5", 2, "/scratch/a.h5"));
    CHECK(!pattern_match("/scratch/*.h5", 2, "scratch/a.h5"));
    // Any number of folders.
    CHECK(is_deep("**/x.h5") && is_deep("a/**/x.h5") && !is_deep("a**/x.h5") && !is_deep("a/**"));
    CHECK(glob_match("**/x.h5", "x.h5") && glob_match("**/x.h5", "a/b/x.h5") && !glob_match("**/x.h5", "a/xx.h5"));
    CHECK(glob_match("a/**/x*.h5", "a/x1.h5") && glob_match("a/**/x*.h5", "a/b/c/x1.h5") &&
          !glob_match("a/**/x*.h5", "b/x1.h5"));
    CHECK(glob_match("a*/**/b/**/c", "a1/x/b/y/z/c") && !glob_match("a*/**/b/**/c", "a1/x/y/z/c"));
    CHECK(pattern_match("b/**/x.h5", kAllComponents, "/a/b/c/x.h5") &&
          !pattern_match("b/**/x.h5", kAllComponents, "/a/c/x.h5"));
    CHECK(pattern_match("/a/**/x.h5", kAllComponents, "/a/b/c/x.h5") &&
          !pattern_match("**/x.h5", kAllComponents, "x.h5"));
    CHECK(literal_folder("/a/b/c*.h5") == 5 && literal_folder("/a/b*/c.h5") == 3 && literal_folder("/c.h5") == 1);
    CHECK(count_components("/a/b.h5") == 2 && count_components("b.h5") == 1);
    CHECK(strcmp(last_components("/a/b/c.h5", 2), "b/c.h5") == 0);
    CHECK(strcmp(last_components("c.h5", 2), "c.h5") == 0);
    CHECK(has_wildcard("a*") && has_wildcard("a[1]") && has_wildcard("?") && !has_wildcard("a.h5"));
    puts("match: ok");
}
