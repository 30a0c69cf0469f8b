// The records of a run's board: plain data in shared memory, addressed by index, valid in every process that maps it.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/folder.hpp"
#include "base/patterns.hpp"
#include "board/look.hpp"
#include "board/shared_lock.hpp"
#include "plan_table.hpp"
#include "report_table.hpp"

namespace wilkins {

inline constexpr uint64_t kMagic = 0x57494c4b494e5331;  // "WILKINS1"
inline constexpr int kAddressMax = 256;                 // bytes of where a server is (address:port), with its 0
inline constexpr uint32_t kLayout = 44;                 // raised whenever a record changes
inline constexpr int kCame = 16;                        // processes of a rank that are known at once
inline constexpr int kAnswers = 64;                     // the last ones of an in-port that are remembered
inline constexpr int kHolds = 48;                       // steps open at once that one Holds has places for
inline constexpr int kMembers = 64;                     // threads of a rank of which is known whether they wait
inline constexpr int kStarters = 4;                     // processes above one that are known
inline constexpr int kWaits = 16;                       // waits of a rank's threads of which is known what for
inline constexpr int kNearNames = 64;                   // hashes in a NameSet itself
inline constexpr int kNameTables = 28;                  // tables of a NameSet, each twice as large as the one before
inline constexpr int kNameRanges = 16;                  // of a NameSet
inline constexpr int kSegments = 32;                    // files that the board may grow by
inline constexpr int kSpareSlots = 12;                  // slots of a source beyond its longest queue
// Bytes of consumed steps that a source's arenas may keep: as many as a processor's caches hold, lest every step be
// slower.
inline constexpr uint64_t kRetained = 4u << 20;
inline constexpr int kClosedSlots = 64;  // and beyond those, for closed files before they are published
inline constexpr uint32_t kSeriesSlots =
    4096;  // slots of an out-port for each in-port that lists whole series, over all its sources,
inline constexpr int kListings = 32;           // the last ones of an in-port that other ranks may yet be answered like
inline constexpr uint32_t kLeastSeries = 256;  // but no fewer than so many each

inline constexpr int kUnmatchedNames = 12;  // names that match no port, which a task remembers of its program's

// closed: by its program, which is going to add to it; not published, so nobody else sees it.
enum class SlotState : uint32_t { free, writing, published, closed };
// How a wait ends if nothing that it waits for can come any more.
enum class WaitKind : uint32_t {
    plain,     // the run is stuck
    gives_up,  // the program goes on without
    to_end,    // as the first; and it waits for the end of the stream, whatever steps there are
    polls,     // it does not wait, but has asked so often that it is as if it did, for steps that it has not been shown
};

// True if files of such a port are published later than they are closed.
inline bool publishes_later(const AccessKeys& keys) {
    return keys.publish == Publish::next || keys.is_set || (keys.publish == Publish::close && keys.publish_count > 1);
}

// True if a file of such a port is a step when its program closes it, and as it is then.
inline bool publishes_at_once(const AccessKeys& keys) {
    return keys.publish == Publish::close && !publishes_later(keys);
}

// True if files of such a port are published while they are written, as copies.
inline bool takes_snapshots(const AccessKeys& keys) {
    return keys.publish == Publish::flush || keys.publish == Publish::write;
}

// Names that differ in one number, which grows by the same step from each to the next.
struct NameRange {
    uint64_t family;  // hash of the name without the number
    int64_t first;
    int64_t stride;
    uint64_t count;
    uint64_t gone;   // of the names that the tables do not know, those of lower places were removed
    uint64_t used;   // when it last went on
    uint32_t width;  // digits that the number is filled up to with zeros
};

// Names that are never forgotten (see board/past_names.hpp).
struct NameSet {
    uint64_t near[kNearNames];  // the first table: hashes, the lowest bit of which says that the name was not removed
    uint64_t tables[kNameTables];  // the others, in the board's annex; the first is `near`
    uint64_t stored;               // entries of all tables
    uint64_t clock;
    NameRange ranges[kNameRanges];
};

struct TaskRecord {
    char name[128];
    Folder folder;  // in which its programs start
    std::atomic<uint32_t>
        makes;     // its programs have made files of their own that are called like files of its in-ports
    NameSet made;  // which (see names/match.cpp)
    std::atomic<uint32_t> uses_links;  // symbolic links that lead to steps lie in its folder, or were made in this run
    int32_t nprocs;
    int32_t first_rank;  // of its ranks, in the rank table
    int32_t first_port;  // its ports lie from here
    int32_t last_port;   // to before here
    TaskState state;
    uint32_t starts;
    uint32_t one_step;     // started for one step: a fixed name means that step, however often it is opened
    uint32_t met_failure;  // an error that no program can mend (see fail_run)
    int32_t awaits;        // no program runs before this in-port, counted from 1, offers a step; 0: none is awaited
    int64_t awaits_since;  // ns, monotonic
    uint32_t follows;      // no program runs before some others have ended
};

// A name that a task's program has used, that matches none of its ports and yet may be meant for one (see
// names/unmatched_names.hpp).
struct UnmatchedName {
    std::atomic<uint64_t> hash;   // of the name; 0: the place is free
    std::atomic<uint32_t> whole;  // the name is there
    std::atomic<uint32_t> uses;
    char name[240];  // its end, where it is longer
};

// Steps that processes have open.
struct Holds {
    int32_t slots[kHolds];       // -1 for none
    uint32_t processes[kHolds];  // that have them open (see board/life.hpp)
    uint64_t more;               // further ones, in the board's annex; 0: there are none
};

// Looks of a rank that found nothing, and listings that showed it nothing new, since it last began or took a step, or
// was shown a new one.
struct EmptyLooks {
    uint64_t looks;
    uint64_t shown;  // the last publication that a listing has shown it
    uint64_t files;  // what RankRecord::files was: if that is another one now, these looks were followed by a step
    int64_t since;   // ns, monotonic
    int64_t last;
    int32_t port;    // of the last one
    uint32_t lists;  // it was a listing
    char name[kNameMax];
};

// The last open or look of a rank that failed since no step of the name will come.
struct FailedOpen {
    std::atomic<Sought> sought;
    std::atomic<WentOn> went_on;
    int32_t port;
    uint32_t steps;    // of the name that the task has read
    uint32_t opens;    // of the last of these, with this one
    uint32_t process;  // that has asked,
    int32_t pid;       // its pid, and that of its parent
    int32_t parent;
    int64_t at;  // ns, monotonic
    char name[kNameMax];
    char then[240];  // the end of the name that it went on to
};

inline constexpr uint32_t kNobody = UINT32_MAX;  // is no process's number

// What a thread does that has used a rank's ports.
enum class Doing : uint32_t {
    moves,   // whatever it likes, as far as is known
    waits,   // in the layer
    sleeps,  // until a thread of its process goes on that waits in the layer
};

struct Member {
    uint32_t process;  // 0: the place is free
    int32_t pid;
    int32_t thread;
    Doing does;
    uint64_t pid_namespace;       // in which these are known
    int32_t starters[kStarters];  // the processes that have led to its process (see waiting/starters.hpp),
    uint32_t one_of_several;      // of which the first has started others that have used ports
};

struct WaitRecord {
    WaitFor what;  // nothing: the place is free
    WaitKind kind;
    uint32_t process;
    int32_t pid;
    int32_t thread;
    int32_t port;
    uint32_t found_nothing;  // programs on other hosts, too, wait for each other (see waiting/circle.hpp)
    int64_t since;           // ns, monotonic
    char name[kNameMax];
};

struct RankRecord {
    int32_t task;
    int32_t rank;
    uint32_t listed;  // since which start of the task (counted from 1) a listing has been answered that may wait for
                      // the first step
    WaitRecord waits[kWaits];     // what its threads wait for now
    std::atomic<uint32_t> among;  // the process that is in a call of MPI's which other ranks may have to end; 0: none
    std::atomic<int32_t> among_thread;
    std::atomic<int64_t> among_since;  // ns, monotonic
    uint32_t came[kCame];  // processes of the rank that have opened steps or looked at them, since its task's last
                           // start; 0: none
    EmptyLooks empty_looks;
    FailedOpen failed_open;
    uint32_t more_members;  // than there is room for
    Member members[kMembers];
    uint32_t leaving;  // the process in which the rank's program is in MPI_Finalize; kNobody: no process of the rank is
                       // left; 0: neither
    std::atomic<uint32_t> makes_folder;  // the process that is just making one; 0: none
    int64_t flush_since;  // ns, monotonic: in a flush that the layer makes after a write, of a file of this port; 0: in
                          // none
    int32_t flush_port;
    int32_t flush_pid;
    Holds holds;
    std::atomic<uint64_t> waiting_ns;
    std::atomic<uint64_t> copying_ns;
    std::atomic<uint64_t> moved_bytes;
    uint64_t files;  // steps its processes have begun or taken: how far the program has come
};

template <class Visit>
void each_wait(RankRecord& rank, Visit visit) {
    for (WaitRecord& wait : rank.waits)
        if (wait.what != WaitFor::nothing) visit(wait);
}

// A wait of the rank for that, or nullptr.
inline const WaitRecord* waits_for(const RankRecord& rank, WaitFor what) {
    for (const WaitRecord& wait : rank.waits)
        if (wait.what == what) return &wait;
    return nullptr;
}

// How far a rank is with what the first open of an in-port is answered with (see AccessKeys::first).
struct FirstOpens {
    uint32_t opened;       // opens answered so
    uint32_t since_start;  // of these, since the task's last start
    uint64_t asked;        // 1 + RankRecord::files at the first mere look, 0 before it
};

// What a rank has asked of an in-port without waiting for it, and what it was given (see queue/polls.cpp).
struct Asked {
    uint64_t questions;
    uint32_t steps;           // given to it, by waiting too
    uint32_t process;         // that got to the rank's last step
    uint32_t process_before;  // the last one that was another
    uint64_t listings;        // that it was answered
};

// What the listing of this number shows on every rank: steps published up to then.
struct ListingAnswer {
    uint64_t number;
    uint64_t published;
};

// What looks of a rank at an in-port go by.
struct Looked {
    uint64_t questions;      // asked so far
    Look consumed;           // the step that it has opened last, of which it has not let go; identity 0: there is none
    uint64_t consumed_name;  // hash of the name
    int32_t consumed_slot;
    uint32_t apart;    // it has asked otherwise than other ranks of its task
    uint64_t settled;  // hash of a name that means the consumed step until the rank opens one: nobody can tell whether
                       // another comes
    uint64_t listed_after;  // opens in the run before its last listing that did not show all that it could have opened
                            // again before; 0: none
};

// The answer to the question of this number of each rank (see queue/answers.hpp).
struct Answered {
    uint64_t number;
    uint64_t name;   // hash of the one asked about
    uint64_t stamp;  // of the step that is there; 0: there is none
};

struct PortRecord {
    int32_t task;
    Direction direction;
    uint32_t fixed;  // its program calls all its files by one name: the pattern has no wildcard, or the workflow file
                     // gives one
    uint32_t components;                  // of the pattern
    std::atomic<uint32_t> touched;        // a program opened or created a matching name
    char pattern[kNameMax];               // of its files' names, as their producers say them
    std::atomic<AliasState> alias_state;  // in
    uint32_t alias_components;            // of the alias, or of the name that would have become it:
    char alias[kNameMax];
    NameSet shapes;       // in, unless fixed: names published for it, see shape_of
    NameSet left;         // in, undecided: which files on disk an earlier run has left, see left_by_run
    NameSet consumed;     // in, unless read in order: names that the task has read (see queue/failed_opens.cpp)
    uint32_t most_opens;  // in, unless read in order: of one step by one rank
    NameSet
        folders;  // where its producers, or an out-port's task, have begun files, each above the pattern's own folders
    NameSet made_folders;  // in: folders that their programs have made in this run: files may be begun there yet
    std::atomic<uint32_t> logged;  // what the log says of it and need not say again: a set of Once
    std::atomic<uint32_t> begun;   // out: files that its programs have begun
    char begun_in[kNameMax];       // out: the folder that they have come to last
    AccessKeys keys;
    int32_t beside;              // out, of a relay: its number among the ports whose steps come from the same host
    char asked_at[kAddressMax];  // out, of a relay: where its producers' host answers questions about folders; empty:
                                 // it does not
    std::atomic<uint32_t> pressed;  // out, of a relay: how often that host has said that it is short of memory
    uint64_t cap;                   // out: bytes its arenas may take, 0 for no limit
    uint64_t used;                  // out: bytes its arenas take
    uint64_t steps;                 // out: published; in: opened (by the first rank to open each)
    uint64_t bytes;
    uint64_t dropped;
    int32_t first_link;  // its channels, in the link table
    int32_t links;
    int32_t first_source;        // out
    int32_t sources;             // out
    uint32_t log_end;            // in, fixed: deliveries so far
    uint64_t positions;          // in, fixed: offset of uint32_t[nprocs], deliveries each rank has taken
    uint64_t log;                // in, fixed: offset of Delivery[log_room]
    uint32_t log_room;           // steps its sources can hold: a delivery that some rank has yet to take is one of them
    uint64_t firsts;             // in: offset of FirstOpens[nprocs]
    uint64_t looked;             // in: offset of Looked[nprocs]
    Answered answers[kAnswers];  // in: each in the place of its number's remainder
    uint64_t started_for;        // in: stamp of the step that its task's program, which runs, was started for; 0: none
    uint64_t listed_to;  // in: since the task's last start, the last publication before its program listed steps; 0: it
                         // has listed none
    uint32_t read_listed;               // in: steps opened since then that were published before the listing,
    uint32_t read_later;                // and that were not
    uint32_t listed_whole;              // in: since then, a listing has waited for all steps
    ListingAnswer listings[kListings];  // in: each in the place of its number's remainder
    uint32_t wanted;     // in: since a step was published for it, a rank has asked for one and found none
    uint32_t ahead;      // in: steps that may be queued beyond the bounds of its channels, as its program asks
    uint64_t asked;      // in: offset of Asked[nprocs]
    uint64_t given;      // in: offset of uint64_t[log_room]: the first question that each step may be the answer to
    uint32_t given_end;  // in: steps given to the rank that has got most
    uint64_t questions;  // in: of the rank that has asked most
    uint64_t ended_at;   // in: the first question to which the answer was that no step will come; 0: none yet
    uint32_t
        in_common;    // in: two ranks of its task have consumed one step, so each rank gets what another has consumed
    uint64_t latest;  // in: offset of uint64_t[nprocs]: published_stamp of the last published step that each rank has
                      // consumed
    NameSet by_name;  // in: what was asked for by name, where two sources could publish it
    NameSet let_go;   // in, unless fixed: names whose steps its task could have opened again, and whose memory a later
                      // one has by now
    NameSet removed;  // in: names that its task has removed
    uint64_t first_gone;  // in, in order: published_stamp of the first step whose memory a later one has, of those
                          // before all that are there; 0: none
    std::atomic<uint32_t> reopened;  // out: published files that their program reopened to add to them
    std::atomic<uint32_t>
        by_turns;  // in: its program shares the steps among processes of a rank, and knows which has which
    std::atomic<uint32_t> shared;  // in: times that processes of one rank got to its steps by turns
    uint32_t found_nothing;        // in: opens and looks that found nothing while the task had consumed no step, and
    uint32_t only_looks;           // whether all of them were looks
    char missing_name[kNameMax];   // ... of which the last was for this name, or the first one that `first` answered
    uint32_t
        not_found;  // in: objects of its steps that its programs opened by their paths and that were not there, and
    uint32_t not_found_printed;     // those for which HDF5 printed an error
    char not_found_path[kNameMax];  // the path of the last of those, or of the last of all
    char not_found_in[kNameMax];    // in the file of this name
    uint32_t again;  // in, in order: since the task's last start, its only step was opened again, and there was no
                     // other (see store/reading.cpp)
    std::atomic<uint32_t> unseen;    // out: files whose publish rule never came about: published without the flush, the
                                     // write or the n-th close
    std::atomic<uint32_t> bell;      // futex: rung when something changes for those who wait here
    std::atomic<uint32_t> sleepers;  // at most so many do (those that were killed stay in the count)
};

// True if the in-port has an alias: a name that means the next step, and no producer's file.
inline bool has_alias(const PortRecord& port) {
    const AliasState how = port.alias_state.load(std::memory_order_acquire);
    return how == AliasState::given || how == AliasState::found;
}

// True if each open of the in-port leads to the next step, in the order of its log.
inline bool in_order(const PortRecord& port) { return port.fixed || has_alias(port); }

// One entry of the order in which an in-port with a fixed name hands out steps, the same for all ranks.
struct Delivery {
    int32_t link;    // which of the port's channels
    int32_t source;  // number of the source in its out-port
    uint64_t sequence;
};

struct ChannelRecord {
    int32_t outport;
    int32_t inport;
    uint32_t every;   // of the steps offered to it, every n-th is kept (n is this),
    uint32_t offset;  // from this one on, counted from 0; less than `every`
    uint32_t queue;
    WhenFull when_full;
    uint32_t group;  // channels of the out-port with the same number drop the same steps; 0: it is alone
    int32_t readers;
    uint32_t readers_given;  // by the workflow file: the program's calls do not tell otherwise
    uint32_t in_part;        // since its last start, a part of the task's ranks has opened a step together
    int32_t place;           // this channel's place among the out-port's channels,
    int32_t link;            // and among the in-port's
    uint64_t published;  // steps of this run whose names match the in-port, without those that its task consumed in the
                         // run before; of these:
    uint64_t read;       // consumed by some rank, or it was started for them
    uint64_t dropped;
    uint64_t skipped;    // steps that are not for this channel (`every`, `offset`)
    uint64_t let_go;     // steps that no rank consumed, given up since a set of waits would have lasted for ever
    uint64_t newer;      // steps that no rank consumed, of names of which one consumed an older step, where the channel
                         // keeps all
    uint32_t stretched;  // steps by which the queue has grown to break circles of waits
    int32_t reader_place;  // of its first reader, among those of all channels of the out-port (see Consumed)
    uint64_t marks;        // offset of Mark[sources][readers]
    uint64_t firsts;   // offset of uint64_t[sources]: steps of lower numbers are not kept; the consumer had them in the
                       // run before
    uint64_t offered;  // offset of uint64_t[sources]: steps published so far whose names match the in-port (see
                       // queue/queue.cpp)
    uint64_t logged;   // offset of uint64_t[sources]: one past the last sequence number in the in-port's log
    NameSet left_out;  // of a relay: names of steps that it does not get, of which its readers ask (see is_left_out)
};

// What the step that a rank has opened last still is to it.
enum Kept : uint32_t {
    kGone,        // nothing
    kOpened,      // opened; its name (a fixed one) now means the next step, but to remove it means this one
    kOpensAgain,  // may be opened again by name
    kCurrent,     // what its name means until the rank asks for the next name (see queue::choose)
    kHalfOpened,  // opened less often than its program opens each step: the next open means it again
};

// Why a rank does not need a step any more, in a port that is not read in order.
enum Consumed : uint8_t {
    kConsumed = 1,  // opened it
    kLeft = 2,      // it was given up for the rank, to end a circle of waits
    kPast = 4,      // its name does not mean it again: let go, or opened before the task's last start
};

// How far a reading rank has got on one source. Of a port that is read in order, every step below `next` was opened or
// passed over; of others, the slots say which were (see Consumed).
struct Mark {
    uint64_t next;       // one past the highest number opened or passed over
    uint64_t last;       // one past the number of the step opened last
    uint32_t keep;       // what that step still is to the reader: a Kept
    uint32_t opened;     // steps opened since the task's last start
    uint32_t opens;      // of the step opened last
    uint64_t opened_at;  // when that was, as BoardRecord::opens counts
};

// A file with memory that is made ready for an arena before a step asks for it (see board/ahead.hpp). All that
// processes of the run do to it they do without the board's lock.
struct Spare {
    std::atomic<uint64_t> offer;  // its number, and whether it may be taken
    std::atomic<uint64_t> size;   // that it is meant to have,
    std::atomic<uint64_t> ready;  // of which so much has memory
};

inline constexpr int kSpares = 2;  // of a source

struct Ahead {
    Spare spares[kSpares];
    std::atomic<uint64_t> expected;  // bytes of a step, as the launcher expects them before there is one
    std::atomic<uint32_t> most;      // arenas that the source can need; 0: nothing is made ready for it
};

struct SourceRecord {
    int32_t port;
    int32_t rank;             // within the task
    uint64_t first_sequence;  // of this run; more than 0 if it goes on with another one
    uint64_t next_sequence;
    uint64_t made;  // steps of lower numbers were published by an earlier start of its program: made again, they are
                    // for nobody
    uint32_t rewrites;  // it has published one name twice
    uint32_t renames;   // it has published two names one after the other
    uint32_t series;    // a reader waits for all its steps, to list them
    int32_t first_slot;
    int32_t slots;
    uint64_t judged;           // files published so far, in this run, of which is known whether they rewrite a name
    uint64_t named;            // ... whose names are remembered
    uint64_t different;        // ... names of these
    NameSet names;             // published
    NameSet files;             // on disk, that hold its steps (see queue/let_go.cpp)
    uint64_t replaced_steps;   // that could have been opened again, and whose memory a later one has by now
    char cwd[kNameMax];        // the process's folder when the last file was named
    uint64_t cwds;             // how often that has changed
    char moving_to[kNameMax];  // the name that one of its steps is being given, and it is to be found under neither
                               // name meanwhile; or empty
    uint32_t moving_process;   // that does so
    uint64_t came_to;          // of a relay: Origin::stamp of its last step
    std::atomic<uint64_t> largest;  // bytes of its largest step in this run
    std::atomic<uint32_t> begun;    // steps, in this run
    uint64_t aside_first;  // arenas that were its slots' and that programs can still see have numbers from here
    uint64_t aside_end;    // to before here;
    uint64_t aside_look;   // this one is looked at next,
    uint64_t aside_bytes;  // and so much memory is in all of them
    Ahead ahead;
    uint64_t set_turn;            // of folders: stamp of the newest in which the rank has written,
    uint32_t set_writer;          // and the process of the rank that did
    std::atomic<uint64_t> left;   // bytes of its steps that have not come
    std::atomic<uint64_t> asked;  // messages for those that have come afterwards
};

inline constexpr uint8_t kOn = 1, kCounted = 2, kNewer = 4;  // see SlotRecord::on

// Where a step that was made on another host was in the order of publication there.
struct Origin {
    uint64_t stamp;   // its published_stamp there; 0: it was made here
    uint64_t before;  // offset of uint64_t[ports whose steps come from that host]: the stamp of each one's newest step
                      // up to there
};

// Why bytes of a published step may be absent here until they are read.
enum class Absence : uint32_t {
    none,
    lazy,       // it was made on another host (see steps/lazy.hpp)
    scattered,  // ranks on other hosts have written them (see steps/homes.hpp)
};

// A step of which bytes are on other hosts.
struct Lazy {
    Absence is;
    int32_t slot;                   // on the board of the host that has made it
    uint64_t stamp;                 // there
    std::atomic<uint64_t> absent;   // sectors, of a published one
    std::atomic<uint64_t> sectors;  // entries of its table of homes that may be set
    std::atomic<uint32_t> pinned;   // its program has a descriptor of the arena: all its bytes have to be there
    std::atomic<uint32_t> comes;    // it was published while its bytes come, all of them and in order:
    std::atomic<uint64_t> come;     // so many are here
    SharedLock bringing;            // held by the process that changes that table
};

// Where the bytes of a file that is being written are, other than in its arena. While they move, no call writes there,
// but all may read them there.
inline constexpr uint32_t kInKernel = 1;
inline constexpr uint32_t kMoving = 2;

// A step, and the arena that holds it: slot k owns the files "a<k>", "a<k>.blocks" and "a<k>.grains".
struct SlotRecord {
    int32_t source;  // index in the source table
    SlotState state;
    uint32_t holds;           // open StepFiles of readers
    uint32_t peers;           // open StepFiles of other ranks of the writer
    uint32_t kept_for;        // of its holds, those for readers on other hosts (see steps/lazy.hpp)
    int32_t writer;           // rank table index of the lead that writes it
    uint32_t writer_process;  // of a closed one: the process that closed it
    uint32_t handed_over;     // of a closed one: that process ends by itself, and leaves it to others of its task
    int64_t empty_since;      // ns, monotonic: when its program closed it without a byte in it
    uint32_t made_anew;       // its program opened it last so that whatever it had written before was gone (O_TRUNC)
    uint32_t keeps_name;  // it was a step that its program has moved to another folder: its name is not written anew
    uint64_t sequence;
    uint64_t numbered;  // of one that has come from another host: one more than its sequence there; 0: it was made here
    uint64_t stamp;     // grows with every creation in the run; identifies the step
    uint64_t published_stamp;  // order of publication over the whole run
    uint64_t gone_after;       // that of the first step in an in-port's order behind this one, if its memory is a later
                               // one's by now; 0: none
    int64_t published_ns;      // wall clock
    uint64_t place_hash;       // of the absolute name
    Folder folder;             // in which its producer puts it; stays when the slot is cleared
    uint64_t cwds;             // of its source, when it was named
    uint64_t inode;            // of its file on disk under its program's name; 0: it has none
    uint64_t accounted;        // bytes counted in the port's `used`
    uint32_t claimed_by;  // the process that changes, without the board's lock, what lies on disk of it (see claimed);
                          // 0: none
    uint32_t removed;     // by its producer, for which the name is free again; consumers still read it
    std::atomic<uint64_t> size;      // end of file
    std::atomic<uint64_t> reserved;  // bytes of the arena's file that have memory
    std::atomic<uint64_t> cuts;      // times it has lost memory: what devices have registered of it holds no longer
    std::atomic<uint64_t>
        arena;  // times it has got another arena, since programs could still see its own (see board/views.hpp)
    std::atomic<uint32_t> viewed;   // a program has got a descriptor of the arena,
    std::atomic<uint32_t> sent;     // or has queued pages of it in a socket or a pipe
    std::atomic<uint64_t> touched;  // blocks whose table entries may be set
    std::atomic<uint32_t>
        inherited;  // its program has let go of it, but another process may still write it (see steps/inherited.hpp)
    std::atomic<uint64_t> summed;   // stamp of the step whose blocks have checksums (see steps/sums.hpp)
    std::atomic<int32_t> broken;    // errno of a write that failed on any rank: the step is not whole
    uint32_t is_copy;               // while it is written: of a file that its program goes on with
    uint32_t joint_writers;         // open handles beside its lead's that have written to it (see steps/joined.cpp)
    uint32_t lead_left;             // its lead is closed: the last of these publishes it
    uint32_t closing;               // the handle that publishes it is at that: no other one may begin to write
    std::atomic<uint32_t> opening;  // its lead has yet to say where its bytes are: others that join it wait for that
    std::atomic<uint32_t>
        in_kernel;                  // its bytes are (kInKernel) in the kernel's file w<slot> (see steps/inherited.hpp),
    std::atomic<uint32_t> shared;   // and have to stay there: other handles read or write them, too
    std::atomic<uint32_t> copying;  // descriptors that are just writing to its arena
    uint32_t kept_back;             // closed until its task's actions serve it
    uint64_t set_folder;  // of a port of folders: stamp of the step whose folder the slot has (see store/sets.hpp);
                          // stays when it is cleared
    std::atomic<uint64_t> set_bytes;  // of what is in it
    uint32_t set_complete;            // the file that completes it is in it
    uint32_t closes;                  // times its program has closed it
    uint32_t snapshots;               // copies published of it
    uint64_t digest;                  // of the file as the last of them holds it
    std::atomic<uint64_t> changes;    // grows with every write
    uint64_t snapshot_changes;        // what it was at the last snapshot
    std::atomic<uint64_t> flushed;    // one more than it was when HDF5 last flushed the whole file; 0: it never did
    uint64_t on;                      // offset of uint8_t[channels of the port]: kOn if the step goes to this channel,
                                      // kCounted if some rank has consumed it, kNewer: see ChannelRecord::newer
    uint64_t consumed;                // offset of uint8_t[readers of these channels]: of each a set of Consumed
    uint64_t opened_at;               // grows with every open in the run: when a rank has opened it last
    Lazy lazy;
    Origin origin;
    char name[kNameMax];
};

// A process that holds a lock, or held it last, in words for people. Written with the lock, read without.
struct HolderRecord {
    std::atomic<uint32_t> process;  // its number in the run
    int32_t task;                   // -1 of a launcher
    int32_t rank;
    int32_t pid;          // in its own PID namespace
    uint64_t namespace_;  // which that is
    char program[32];
};

// The board's lock, and that of the trace file: whoever holds one of them takes no other.
struct NamedLock {
    SharedLock lock;
    HolderRecord holder;
};

inline constexpr uint64_t kTraceRoom = 1u << 18;  // bytes of lines for the trace file that the board has room for
inline constexpr uint64_t kTraceMany = 1u << 14;  // so many are written by whoever finds them

struct BoardRecord {
    uint64_t magic;
    uint32_t layout;
    std::atomic<uint32_t> stopped;
    uint64_t size;
    NamedLock lock;
    NamedLock trace_lock;
    std::atomic<uint32_t> processes;  // that have joined so far (see board/life.hpp)
    char failure[8192];  // the first error that no program can mend, such as two ranks that create one name: its line
                         // in the log
    char log_file[4096];
    char trace_file[4096];
    uint32_t
        trace_at_once;  // what a run that goes on with this one must know is written as it happens, not much together
    std::atomic<uint32_t> trace_stopped;   // events were lost; later ones would tell of a run without these
    std::atomic<uint64_t> events_end;      // bytes of lines so far; grows with the board's lock
    std::atomic<uint64_t> events_urgent;   // nobody may act on what those up to here tell before they are in the file
    std::atomic<uint64_t> events_written;  // those up to here are in the file; grows with the trace's lock
    uint64_t events_halfway;  // those up to here are being written: whoever dies then has perhaps cut a line short
    char events[kTraceRoom];  // a ring: byte k is at k % kTraceRoom
    uint64_t stamp;
    uint64_t publications;
    uint64_t opens;
    uint64_t moves;        // grows with all that may end a wait or begin one
    int64_t moved_at;      // ns, monotonic: when a step was last begun, published or opened
    uint64_t circle_seen;  // what `moves` was when waits were last looked over,
    int64_t circle_next;   // and when they may be again
    uint32_t circle_open;  // ... and then some waited for each other of which others may yet find out that they do
    uint64_t reserve;      // address space per arena
    uint64_t memory;
    uint64_t memory_peak;
    uint32_t reserving;  // calls that are taking memory that is counted already: those that have died stay in it
    std::atomic<uint32_t>
        leaves;  // in this run a step was left to processes that may still write it (see steps/inherited.hpp)
    std::atomic<uint32_t> ahead_bell;     // futex: rung when memory may be made ready for another arena
    std::atomic<uint32_t> ahead_works;    // somebody listens to it
    std::atomic<uint32_t> ahead_offered;  // some was
    std::atomic<uint32_t> ahead_short;    // shared memory was: none is made ready any more
    uint32_t segments;                    // of the annex
    struct {
        uint64_t size, used;
    } annex[kSegments];
    int32_t tasks, ports, channels, links, sources, slots, ranks;
    uint64_t at_tasks, at_ports, at_channels, at_links, at_sources, at_slots, at_ranks, at_unmatched_names;
};

}  // namespace wilkins
