// Tells the launcher of a rank of a one-job run that the rank's program has come to its end, and with which exit
// status, although its process has not ended: that waits in MPI_Finalize for every other rank of the job, some of which
// wait for the end of its streams.
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/raw.hpp"
#include "mpi/world.hpp"
#include "store/store.hpp"

namespace wilkins {
namespace {

constexpr unsigned char kOver = 1;  // as in wilkins/launch/job/rendezvous.py

char ranks_file[256];
int job_rank = -1;

// A program that fails without MPI_Finalize does not wait there: its process ends at once, and that tells enough. If it
// failed because its stream had ended, the launcher judges, and the job goes on.
int tell_launcher(int status, bool orderly) {
    if (status != 0 && !orderly && !met_end()) return status;
    const int file = raw::open(ranks_file, O_WRONLY | O_CLOEXEC, 0);
    if (file < 0) return status;
    const unsigned char entry[2] = {kOver, static_cast<unsigned char>(status)};
    [[maybe_unused]] const long written = syscall(SYS_pwrite64, file, entry, sizeof entry, off_t{job_rank} * 2);
    raw::close(file);
    return orderly ? status : 0;
}

__attribute__((constructor)) void find_job() {
    const char* folder = getenv("WILKINS_JOB");
    const char* world = getenv("WILKINS_WORLD");
    const char* rank = getenv("WILKINS_RANK");
    if (!folder || !world || !rank) return;
    const int length = snprintf(ranks_file, sizeof ranks_file, "%s/ranks", folder);
    if (length < 0 || length >= static_cast<int>(sizeof ranks_file)) return;
    job_rank = atoi(world) + atoi(rank);
    on_program_end(tell_launcher);
}

}  // namespace
}  // namespace wilkins
