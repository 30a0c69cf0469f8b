// The MPI calls that need more than another communicator: beginning and end, predefined attributes, error handlers.
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>

#include "mpi/world_state.hpp"
#include "store/store.hpp"

namespace wilkins {
namespace {

pid_t this_thread() { return static_cast<pid_t>(syscall(SYS_gettid)); }

// Set while a Fortran call of Open MPI is repeated for the real world.
thread_local bool keep_fortran_handle = false;

template <typename... Arguments>
int call_real(RealFunction& real, const char* name, const void* caller, Arguments... arguments) {
    auto* function = reinterpret_cast<int (*)(Arguments...)>(real.get(caller));
    return function ? function(arguments...) : no_mpi(name);
}

// True if this layer answers for MPI: a task with a world of its own, and not MPI calling itself.
bool answers() { return world_wanted() && !inside_mpi(); }

int begin_program(int level) {
    world.program_level = level < world.provided ? level : world.provided;
    world.program_thread = this_thread();
    world.program_initialized = true;
    return 0;
}

// The program's first MPI_Init or MPI_Init_thread. False if MPI itself should answer; *result is set otherwise.
bool initialize(int* argc, char*** argv, int level, const void* caller, int* result) {
    if (!answers() || world.program_initialized) return false;
    if (boot_world(argc, argv, caller, result)) {
        *result = begin_program(level);
        return true;
    }
    return *result != 0;
}

int init(RealFunction& real, const char* name, int* argc, char*** argv, const void* caller) {
    int result = 0;
    if (initialize(argc, argv, 0, caller, &result)) return result;
    return call_real(real, name, caller, argc, argv);
}

int init_thread(RealFunction& real, const char* name, int* argc, char*** argv, int required, int* provided,
                const void* caller) {
    int result = 0;
    if (!initialize(argc, argv, required, caller, &result)) {
        return call_real(real, name, caller, argc, argv, required, provided);
    }
    if (result == 0) *provided = world.program_level;
    return result;
}

// MPI_Initialized and MPI_Finalized, which may be called at any time, with or without an MPI library: for a library
// that uses MPI if there is one, the first call of all.
int query(RealFunction& real, std::atomic<bool> World::* answer, int* flag, const void* caller) {
    release_weak_references(caller);
    if (answers()) {
        *flag = world.*answer;
        return 0;
    }
    auto* function = reinterpret_cast<int (*)(int*)>(real.get(caller));
    if (function) return function(flag);
    *flag = 0;
    return 0;
}

int finalize(RealFunction& real, const char* name, const void* caller) {
    if (!answers() || world.process == 0) return call_real(real, name, caller);
    if (!world.program_initialized || world.program_finalized) {
        dprintf(STDERR_FILENO, "wilkins: the program calls MPI_Finalize %s: call it once, after MPI_Init\n",
                world.program_finalized ? "a second time" : "before MPI_Init");
        return kErrorOther;
    }
    if (getpid() != world.process) {  // a forked child that ends like its parent: MPI is the parent's
        world.program_finalized = true;
        return 0;
    }
    const int error = finalize_program();
    return error || world_is_up() ? error : call_real(real, name, caller);  // past exit nothing else would
}

// While the program is in there, it brings nothing that other tasks may wait for, until the other ranks of its task
// have come there, too.
int leave(RealFunction& real, const char* name, const void* caller) {
    leave_mpi(true);
    const int error = finalize(real, name, caller);
    leave_mpi(false);
    return error;
}

int query_thread(RealFunction& real, const char* name, int* provided, const void* caller) {
    if (!answers() || !world.program_initialized) return call_real(real, name, caller, provided);
    *provided = world.program_level;
    return 0;
}

int is_thread_main(RealFunction& real, const char* name, int* flag, const void* caller) {
    if (!answers() || !world.program_initialized) return call_real(real, name, caller, flag);
    *flag = this_thread() == world.program_thread;
    return 0;
}

int session_init(RealFunction& real, const char* name, intptr_t info, intptr_t errhandler, void* session,
                 const void* caller) {
    int error = 0;
    boot_world(nullptr, nullptr, caller, &error);
    return error ? error : call_real(real, name, caller, info, errhandler, session);
}

// The process set mpi://WORLD is the task.
int group_from_session(RealFunction& real, const char* name, intptr_t session, const char* set, void* group,
                       const void* caller) {
    const int error = call_real(real, name, caller, session, set, group);
    if (error || !answers() || !world_is_up() || !set || strcasecmp(set, "mpi://WORLD") != 0) return error;
    intptr_t everyone = load_handle(group), task = 0;
    int range[1][3] = {{world.first, world.last, 1}};
    if (int failure = call_mpi("PMPI_Group_range_incl", everyone, 1, range, &task)) return failure;
    store_handle(group, task);
    return call_mpi("PMPI_Group_free", &everyone);
}

// MPI_TAG_UB and its kin may be known to the real world alone. The program attaches nothing there, so what the task's
// communicator lacks and the real one has is predefined.
template <typename... Kind>
int get_attribute(RealFunction& real, const char* name, intptr_t comm, int keyval, void* value, int* flag,
                  const void* caller, Kind... kind) {
    const int error = call_real(real, name, caller, world_comm(comm), keyval, value, flag, kind...);
    if (error || *flag || !substitution.on.load(std::memory_order_acquire)) return error;
    return call_real(real, name, caller, substitution.world, keyval, value, flag, kind...);
}

// The same for Open MPI's Fortran, where the handle is still to be converted (see PMPI_Comm_f2c).
void get_attribute_fortran(RealFunction& real, const char* name, int* comm, int* keyval, void* value, int* flag,
                           int* error, const void* caller) {
    auto* function = reinterpret_cast<void (*)(int*, int*, void*, int*, int*)>(real.get(caller));
    if (!function) {
        *error = no_mpi(name);
        return;
    }
    function(comm, keyval, value, flag, error);
    if (*error || *flag || world.handles != Handles::open_mpi || !substitution.on.load(std::memory_order_acquire))
        return;
    int job = 0;
    keep_fortran_handle = true;
    function(&job, keyval, value, flag, error);
    keep_fortran_handle = false;
}

// An error that belongs to no communicator is raised on the real world or the real self: their handlers follow.
int set_errhandler(RealFunction& real, const char* name, intptr_t comm, intptr_t handler, const void* caller) {
    const intptr_t meant = world_comm(comm);
    const int error = call_real(real, name, caller, meant, handler);
    if (error || meant == comm) return error;
    return call_real(real, name, caller, comm, handler);
}

// Open MPI's Fortran bindings convert each handle by this one and then use what it gives, in part without further calls
// that could be seen. Programs call MPI_Comm_f2c, which stays as it is: its result is compared with MPI_COMM_WORLD.
intptr_t from_fortran(RealFunction& real, intptr_t comm, const void* caller) {
    auto* function = reinterpret_cast<intptr_t (*)(intptr_t)>(real.get(caller));
    if (!function) return 0;
    const intptr_t handle = function(comm);
    return world.handles == Handles::open_mpi && !keep_fortran_handle && !inside_mpi() ? world_comm(handle) : handle;
}

}  // namespace
}  // namespace wilkins

// Defines MPI_X and PMPI_X, which differ only in the function behind them.
#define WILKINS_BOTH(name, parameters, ...)                         \
    extern "C" WILKINS_MPI_SYMBOL int MPI_##name parameters {       \
        static wilkins::RealFunction real{"MPI_" #name};            \
        [[maybe_unused]] constexpr const char* own = "MPI_" #name;  \
        return __VA_ARGS__;                                         \
    }                                                               \
    extern "C" WILKINS_MPI_SYMBOL int PMPI_##name parameters {      \
        static wilkins::RealFunction real{"PMPI_" #name};           \
        [[maybe_unused]] constexpr const char* own = "PMPI_" #name; \
        return __VA_ARGS__;                                         \
    }

WILKINS_BOTH(Init, (int* argc, char*** argv), wilkins::init(real, own, argc, argv, WILKINS_CALLER))
WILKINS_BOTH(Init_thread, (int* argc, char*** argv, int required, int* provided),
             wilkins::init_thread(real, own, argc, argv, required, provided, WILKINS_CALLER))
WILKINS_BOTH(Initialized, (int* flag), wilkins::query(real, &wilkins::World::program_initialized, flag, WILKINS_CALLER))
WILKINS_BOTH(Finalized, (int* flag), wilkins::query(real, &wilkins::World::program_finalized, flag, WILKINS_CALLER))
WILKINS_BOTH(Finalize, (), wilkins::leave(real, own, WILKINS_CALLER))
WILKINS_BOTH(Query_thread, (int* provided), wilkins::query_thread(real, own, provided, WILKINS_CALLER))
WILKINS_BOTH(Is_thread_main, (int* flag), wilkins::is_thread_main(real, own, flag, WILKINS_CALLER))
WILKINS_BOTH(Session_init, (intptr_t info, intptr_t errhandler, void* session),
             wilkins::session_init(real, own, info, errhandler, session, WILKINS_CALLER))
WILKINS_BOTH(Group_from_session_pset, (intptr_t session, const char* set, void* group),
             wilkins::group_from_session(real, own, session, set, group, WILKINS_CALLER))
WILKINS_BOTH(Comm_get_attr, (intptr_t comm, int keyval, void* value, int* flag),
             wilkins::get_attribute(real, own, comm, keyval, value, flag, WILKINS_CALLER))
WILKINS_BOTH(Attr_get, (intptr_t comm, int keyval, void* value, int* flag),
             wilkins::get_attribute(real, own, comm, keyval, value, flag, WILKINS_CALLER))
WILKINS_BOTH(Comm_set_errhandler, (intptr_t comm, intptr_t handler),
             wilkins::set_errhandler(real, own, comm, handler, WILKINS_CALLER))
WILKINS_BOTH(Errhandler_set, (intptr_t comm, intptr_t handler),
             wilkins::set_errhandler(real, own, comm, handler, WILKINS_CALLER))

extern "C" WILKINS_MPI_SYMBOL intptr_t PMPI_Comm_f2c(intptr_t comm) {
    static wilkins::RealFunction real{"PMPI_Comm_f2c"};
    return wilkins::from_fortran(real, comm, WILKINS_CALLER);
}

// What MPICH's Fortran bindings call for attributes. MPICH's library of the standard ABI calls these itself, with
// handles of MPICH's own that are no longer the program's.
extern "C" WILKINS_MPI_SYMBOL int MPII_Comm_get_attr(intptr_t comm, int keyval, void* value, int* flag, intptr_t kind) {
    static wilkins::RealFunction real{"MPII_Comm_get_attr"};
    constexpr const char* own = "MPII_Comm_get_attr";
    if (wilkins::world.handles == wilkins::Handles::mpich) {
        return wilkins::get_attribute(real, own, comm, keyval, value, flag, WILKINS_CALLER, kind);
    }
    return wilkins::call_real(real, own, WILKINS_CALLER, comm, keyval, value, flag, kind);
}

extern "C" WILKINS_MPI_SYMBOL int MPII_Comm_set_attr(intptr_t comm, int keyval, intptr_t value, intptr_t kind) {
    static wilkins::RealFunction real{"MPII_Comm_set_attr"};
    const intptr_t meant = wilkins::world.handles == wilkins::Handles::mpich ? wilkins::world_comm(comm) : comm;
    return wilkins::call_real(real, "MPII_Comm_set_attr", WILKINS_CALLER, meant, keyval, value, kind);
}

// The Fortran names of attribute queries, as compilers for Linux spell them.
#define WILKINS_FORTRAN_ATTRIBUTE(name)                                                                   \
    extern "C" WILKINS_MPI_SYMBOL void name(int* comm, int* keyval, void* value, int* flag, int* error) { \
        static wilkins::RealFunction real{#name};                                                         \
        wilkins::get_attribute_fortran(real, #name, comm, keyval, value, flag, error, WILKINS_CALLER);    \
    }

WILKINS_FORTRAN_ATTRIBUTE(mpi_comm_get_attr_)
WILKINS_FORTRAN_ATTRIBUTE(pmpi_comm_get_attr_)
WILKINS_FORTRAN_ATTRIBUTE(mpi_attr_get_)
WILKINS_FORTRAN_ATTRIBUTE(pmpi_attr_get_)
