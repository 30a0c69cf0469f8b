// Initialises MPI for the program, builds its task's communicator, and finalises MPI when the process ends.
#include "mpi/world_state.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "board/border.hpp"
#include "posix/files.hpp"
#include "store/store.hpp"

namespace wilkins {

Substitution substitution;
World world;

namespace {

constexpr const char* kWorldVariable = "WILKINS_WORLD";
constexpr const char* kLibraryVariable = "WILKINS_MPI";  // the MPI library that a Python program will load

enum class Stage { off, wanted, up, left };
std::atomic<Stage> world_stage{Stage::off};
std::mutex boot_mutex;
std::atomic<ProgramEnd> program_end{nullptr};
thread_local bool inside = false;

struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
};

// Reads the variable once; the constructor of this library runs before any code of the program.
__attribute__((constructor)) void read_world() {
    const char* text = getenv(kWorldVariable);
    if (!text) return;
    int length = 0;
    if (sscanf(text, "%d:%d%n", &world.first, &world.last, &length) != 2 || text[length] != '\0' || world.first < 0 ||
        world.last < world.first) {
        dprintf(STDERR_FILENO, "wilkins: %s=%s is not <first rank>:<last rank>: the task keeps the world of the job\n",
                kWorldVariable, text);
        return;
    }
    world_stage.store(Stage::wanted, std::memory_order_release);
}

Handles detect_handles() {
    if (resolve("ompi_mpi_comm_world", world.library)) return Handles::open_mpi;
    Dl_info info;
    if (dladdr(world.library, &info) && info.dli_fname && strstr(info.dli_fname, "libmpi_abi"))
        return Handles::standard;
    return Handles::mpich;
}

// Open MPI's handle of a predefined communicator, as the library itself knows it: a program that is not position
// independent holds a copy of the symbol.
intptr_t from_fortran(int handle) {
    auto* convert = reinterpret_cast<intptr_t (*)(int)>(resolve("PMPI_Comm_f2c", world.library));
    return convert ? convert(handle) : 0;
}

void learn_handles() {
    world.handles = detect_handles();
    substitution.mask = world.handles == Handles::mpich ? intptr_t{0xffffffff} : ~intptr_t{0};
    switch (world.handles) {
        case Handles::mpich:
            substitution.world = 0x44000000;
            substitution.self = 0x44000001;
            break;
        case Handles::open_mpi:
            substitution.world = from_fortran(0);
            substitution.self = from_fortran(1);
            break;
        case Handles::standard:
            substitution.world = 0x101;
            substitution.self = 0x102;
            break;
    }
}

int initialize_mpi(int* argc, char*** argv) {
    const int multiple = world.handles == Handles::standard ? 4096 : 3;
    int already = 0;
    if (int error = call_mpi("PMPI_Initialized", &already)) return error;
    if (already) return call_mpi("PMPI_Query_thread", &world.provided);
    return call_mpi("PMPI_Init_thread", argc, argv, multiple, &world.provided);
}

// Ends the job if the ranks the launcher promised are not there.
void check_ranks() {
    int rank = -1, size = 0;
    call_mpi("PMPI_Comm_rank", substitution.world, &rank);
    call_mpi("PMPI_Comm_size", substitution.world, &size);
    if (rank >= world.first && rank <= world.last && world.last < size) return;
    dprintf(STDERR_FILENO,
            "wilkins: this process is rank %d of an MPI job of %d, but its task was given the ranks %d to %d of a job: "
            "the program uses another MPI than the mpiexec that started it, or was started with other ranks than "
            "planned; use the mpiexec of the program's own MPI library\n",
            rank, size, world.first, world.last);
    call_mpi("PMPI_Abort", substitution.world, 3);  // 3: wrong resources
}

int build_communicators() {
    intptr_t everyone = 0, task = 0;
    int range[1][3] = {{world.first, world.last, 1}};
    int error = call_mpi("PMPI_Comm_group", substitution.world, &everyone);
    if (!error) error = call_mpi("PMPI_Group_range_incl", everyone, 1, range, &task);
    if (!error) error = call_mpi("PMPI_Comm_create_group", substitution.world, task, 0, &substitution.task_world);
    if (!error) error = call_mpi("PMPI_Comm_dup", substitution.self, &substitution.task_self);
    if (!error) error = call_mpi("PMPI_Comm_set_name", substitution.task_world, "MPI_COMM_WORLD");
    if (!error) error = call_mpi("PMPI_Comm_set_name", substitution.task_self, "MPI_COMM_SELF");
    if (!error) error = call_mpi("PMPI_Group_free", &task);
    if (!error) error = call_mpi("PMPI_Group_free", &everyone);
    return error;
}

// What must be done once at the program's end. Returns the exit status to leave with.
int end_program(int status) {
    if (world_stage.load(std::memory_order_acquire) != Stage::up || getpid() != world.process) return status;
    world_stage.store(Stage::left, std::memory_order_release);
    const bool orderly = world.program_finalized || !world.program_initialized;
    const int failure = status;
    end_rank(status);
    if (ProgramEnd hook = program_end.load(std::memory_order_acquire)) status = hook(status, orderly);
    if (!orderly && (failure == 0 || status != 0)) return status;
    if (!world.program_finalized) finalize_program();
    const Inside guard;
    call_mpi("PMPI_Finalize");
    return status;
}

[[noreturn]] void exit_now(int status) {
    hand_over_closed();
    end_rank(status);
    reinterpret_cast<void (*)(int)>(resolve_libc("_exit"))(status);
    __builtin_unreachable();
}

void at_exit(int status, void*) try {
    const int changed = end_program(status);
    if (changed == status) return;
    fflush(nullptr);
    posix::end_process();
    exit_now(changed);
}
WILKINS_OR()

using Main = int (*)(int, char**, char**);
Main program_main = nullptr;

// A Python program loads MPI when it imports mpi4py, perhaps after waiting for a step of a task that waits for it in
// MPI_Init. So the launcher names the library; shells and the like on the way to Python must not become a rank.
void load_mpi_for_python() {
    const char* library = getenv(kLibraryVariable);
    if (!library || !dlsym(RTLD_DEFAULT, "Py_IsInitialized")) return;
    if (dlopen(library, RTLD_NOW | RTLD_GLOBAL)) return;
    dprintf(STDERR_FILENO, "wilkins: cannot load the MPI library %s named by %s: %s\n", library, kLibraryVariable,
            dlerror());
}

// Runs after all constructors and before the program: a program that is linked to MPI but never initialises it (a tool
// that an HDF5 built with MPI brought along) would otherwise hold up every other rank of the job.
int main_in_world(int argc, char** argv, char** environment) {
    load_mpi_for_python();
    int error = 0;
    boot_world(nullptr, nullptr, reinterpret_cast<const void*>(program_main), &error);
    return program_main(argc, argv, environment);
}

}  // namespace

bool world_wanted() { return world_stage.load(std::memory_order_acquire) != Stage::off; }

bool world_is_up() { return world_stage.load(std::memory_order_acquire) == Stage::up; }

bool inside_mpi() { return inside; }

bool boot_world(int* argc, char*** argv, const void* caller, int* error) try {
    *error = 0;
    if (inside || !world_wanted()) return false;
    if (world_is_up()) return true;
    const std::lock_guard<std::mutex> lock(boot_mutex);
    if (world_stage.load(std::memory_order_acquire) != Stage::wanted) return world_is_up();
    void* init = resolve("PMPI_Init_thread", caller);
    if (!init) return false;
    const Inside guard;
    world.library = init;
    world.handles = detect_handles();
    if ((*error = initialize_mpi(argc, argv))) return false;
    learn_handles();
    check_ranks();
    if ((*error = build_communicators())) return false;
    world.process = getpid();
    unsetenv(kWorldVariable);  // programs that this one starts are not ranks of the job
    unsetenv(kLibraryVariable);
    world_stage.store(Stage::up, std::memory_order_release);
    substitution.on.store(true, std::memory_order_release);
    // Exit handlers run in reverse order: ours after those of what the program uses from here on (HDF5 closes files in
    // its own), and before those of MPI, registered by the Init above (MPICH leaves the job in its own, once
    // finalised).
    on_exit(at_exit, nullptr);
    return true;
}
WILKINS_OR((*error = kErrorOther, false))

// As the standard asks of MPI_Finalize: callbacks of attributes of MPI_COMM_SELF run first, with MPI still at hand;
// what was sent arrives; then the rest goes.
int finalize_program() {
    int error = call_mpi("PMPI_Comm_free", &substitution.task_self);
    if (!error) error = call_mpi("PMPI_Barrier", substitution.task_world);
    if (!error) error = call_mpi("PMPI_Comm_free", &substitution.task_world);
    substitution.on.store(false, std::memory_order_release);
    world.program_finalized = true;
    return error;
}

int world_comm_f(int comm) {
    if (!substitution.on.load(std::memory_order_acquire)) return comm;
    switch (world.handles) {
        case Handles::mpich: return static_cast<int>(world_comm(comm));
        case Handles::open_mpi:
        case Handles::standard: {
            const intptr_t handle = from_fortran(comm);
            const intptr_t meant = world_comm(handle);
            auto* convert = reinterpret_cast<int (*)(intptr_t)>(resolve("PMPI_Comm_c2f", world.library));
            return meant == handle || !convert ? comm : convert(meant);
        }
    }
    return comm;
}

void on_program_end(ProgramEnd hook) { program_end.store(hook, std::memory_order_release); }

void* RealFunction::look_up(const void* caller) try {
    release_weak_references(caller);
    void* function = resolve(name_, caller);
    // A call that MPI makes to itself may seem to come from here: MPI_Comm_get_attr of MPICH jumps to
    // MPII_Comm_get_attr.
    static std::atomic<const void*> used{nullptr};
    const void* library = world.library ? world.library : used.load(std::memory_order_acquire);
    if (!function && library) function = resolve(name_, library);
    if (function) used.store(function, std::memory_order_release);
    function_.store(function, std::memory_order_relaxed);
    return function;
}
WILKINS_OR(nullptr)

int no_mpi(const char* name) {
    dprintf(STDERR_FILENO,
            "wilkins: the program calls %s, but no MPI library that has it is loaded in this process: link the program "
            "to its MPI library, or load that with RTLD_GLOBAL\n",
            name);
    return kErrorOther;
}

intptr_t load_handle(const void* from) {
    intptr_t handle = 0;
    memcpy(&handle, from, world.handles == Handles::mpich ? sizeof(int) : sizeof(intptr_t));
    return handle;
}

void store_handle(void* to, intptr_t handle) {
    memcpy(to, &handle, world.handles == Handles::mpich ? sizeof(int) : sizeof(intptr_t));
}

}  // namespace wilkins

extern "C" {

WILKINS_MPI_SYMBOL int __libc_start_main(wilkins::Main main, int argc, char** argv, void (*init)(), void (*fini)(),
                                         void (*loader_fini)(), void* stack_end) {
    static const auto real = reinterpret_cast<decltype(&__libc_start_main)>(wilkins::resolve_libc("__libc_start_main"));
    if (wilkins::world_wanted()) {
        wilkins::program_main = main;
        main = wilkins::main_in_world;
    }
    return real(main, argc, argv, init, fini, loader_fini, stack_end);
}

// After MPI_Finalize a program may leave without running exit handlers; the job must not take that for a crash.
WILKINS_MPI_SYMBOL void _exit(int status) {
    wilkins::posix::end_process();
    if (wilkins::world.program_finalized) status = wilkins::end_program(status);
    wilkins::exit_now(status);
}

WILKINS_MPI_SYMBOL void _Exit(int status) { _exit(status); }

}  // extern "C"
