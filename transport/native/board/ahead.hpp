// Memory of arenas that is made ready before a step asks for it. A thread of the launcher fills a file of the run's
// folder with pages (python/ahead.cpp), for a source that will need an arena, and whoever begins the step takes it as
// that arena, by renaming it.
//
// The thread waits for nobody and holds no lock: it may be slow. Who takes a file that is being filled waits while that
// goes on. All that it does to a file leaves the file's bytes and length as they are, so it may come too late without
// harm: a file that was taken has been cut to what was ready, and nothing gets memory beyond a file's end.
#pragma once

#include "board/board.hpp"

namespace wilkins::ahead {

inline constexpr uint64_t kLeast = 2u << 20;  // bytes of a step, of which fresh memory costs less than to make it ready

enum class State : uint64_t { none, offered, taken };

// What Spare::offer says.
struct Offer {
    uint64_t number;
    State state;

    uint64_t word() const { return number << 2 | static_cast<uint64_t>(state); }
    static Offer of(uint64_t word) { return {word >> 2, static_cast<State>(word & 3)}; }
    static Offer of(const Spare& spare) { return of(spare.offer.load(std::memory_order_acquire)); }
};

// A spare that is the caller's, since it has taken it.
struct Taken {
    Spare* spare = nullptr;  // nullptr: there was none
    char path[4096] = {};    // of its file
    explicit operator bool() const { return spare != nullptr; }
};

void path_of(const Board& board, int source, int spare, uint64_t number, char* out, size_t room);

// How large the source's next step will be, as far as is known: as its largest one, or what was expected of the first.
uint64_t size_of_next(const SourceRecord& source);

// True if memory for another arena of the source is to be made ready. For the step that it begins first; for others not
// before it has begun a second one, since many programs write one alone.
bool is_wanted(const Board& board, const SourceRecord& source);

// Waits while the spare of a source's of which most is ready is being filled: faults for the rest would take three
// times as long. Not for long, since nobody knows how much of it the step will need.
void await(const Board& board, int source);

// Takes this spare of a source's, or the one of which most is ready.
Taken take(const Board& board, int source, int spare);
Taken take(const Board& board, int source);

// Tells the launcher's thread to look again.
void ring(const Board& board);

// Bytes that are ready, or being made so, for sources of a port, or of all (port < 0).
uint64_t held(const Board& board, int port);

// Memory is short, for a port or for all (port < 0): gives it back, and lets none be made ready there any more. True if
// there was some.
bool give_back(const Board& board, int port);

}  // namespace wilkins::ahead
