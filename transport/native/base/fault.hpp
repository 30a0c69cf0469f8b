// Fault injection: named points between two effects of the store, at which tests let a process die, be late or be
// without memory.
//
// The variable WILKINS_FAULTS says what happens: settings separated by commas, and sets of them by semicolons; a
// process obeys the first set that is for its task.
//
//     seed=7,delay=2ms            at every point, one time in two, sleep a random time up to 2 ms
//     chance=0.1                  ... one time in ten
//     kill=publish.shown:3        SIGKILL itself the third time it gets there (without a number: the first)
//     stop=publish.shown:3        SIGSTOP itself there
//     throw=publish.shown:3       be without memory there: std::bad_alloc
//     flip=0.1                    damage one in ten of the pieces of steps that it sends to other hosts
//     flip-words=0.1              likewise of what its messages say
//     flip-memory=0.1         damage one in ten of the steps that it publishes, once they have checksums
//     task=sim                    only the processes of this task; `task=launcher`: the launcher
//     rank=1                      only this rank
//
// Only a library that is built for tests has them (WILKINS_HOOKS); its points are known without running it.
#pragma once

#ifdef WILKINS_HOOKS

namespace wilkins::fault {

// Set once, when the process joins its run.
extern bool enabled;

// Reads WILKINS_FAULTS, for a process of this task and rank.
void configure(const char* task, int rank);

void hit(const char* point);

// Whether to damage what is sent to another host now. `bytes`: a piece of a step.
bool flips(bool bytes);
// Whether to damage a step in memory now.
bool flips_memory();

}  // namespace wilkins::fault

// The name is kept in a section of its own, where wilkins_fault_points() finds it. For plain functions, not for inline
// ones or templates.
#define WILKINS_FAULT_POINT(name)                                                                     \
    do {                                                                                              \
        static const char* const fault_point __attribute__((section("wilkins_faults"), used)) = name; \
        if (__builtin_expect(::wilkins::fault::enabled, false)) ::wilkins::fault::hit(fault_point);   \
    } while (false)

#else

namespace wilkins::fault {

inline void configure(const char*, int) {}

}  // namespace wilkins::fault

#define WILKINS_FAULT_POINT(name) \
    do {                          \
    } while (false)

#endif
