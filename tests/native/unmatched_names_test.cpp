// Names that are like a pattern without matching it.
#include "names/unmatched_names.hpp"

#include <string>

#include "check.hpp"

using namespace wilkins;

int main() {
    CHECK(alike("feild_*.h5", "field_0000.h5"));
    CHECK(alike("feild_*", "field_12"));
    CHECK(alike("plt????.h5", "plt_0001.h5"));
    CHECK(alike("*field.h5", "field.h5"));
    CHECK(!alike("plt*.h5", "restart.h5"));
    CHECK(!alike("plt*.h5", "mesh.h5"));
    CHECK(!alike("a*", "b1"));  // too short to tell
    CHECK(!alike("*", "any.h5"));
    const std::string longer = "plt" + std::string(60, 'x') + ".h5";
    CHECK(!alike("plt*.h5", longer.c_str()));
    CHECK(!alike(longer.c_str(), longer.c_str()));
    return 0;
}
