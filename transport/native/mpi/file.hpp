// One file that MPI-IO has open on an arena: what a real MPI_File holds, with a step instead of a file behind it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "mpi/abi.hpp"
#include "mpi/datatype.hpp"
#include "mpi/errhandler.hpp"
#include "store/store.hpp"

namespace wilkins::mpiio {

// What MPI_File_set_view sets. Frees its duplicates of the program's datatypes.
struct View {
    View(const Abi& mpi, int64_t disp, Handle etype, Handle filetype);
    ~View();
    View(const View&) = delete;
    View& operator=(const View&) = delete;

    int prepare();  // decodes the datatypes; an MPI error code if it cannot

    const Abi& mpi;
    int64_t disp;
    Handle etype;
    Handle filetype;
    Datatype element;
    Datatype tile;
    Layout bytes;  // of the whole view, relative to disp
};

class File {
public:
    // The file behind a handle, or nullptr if the handle is not one of ours. Never dereferences an unknown handle.
    static File* find(Handle handle);
    // Our handle for a Fortran one, or 0.
    static Handle from_fortran(int fortran);

    // Collective, like the MPI calls of the same names. All return an MPI error code; for one that is not 0, the error
    // handler has been called.
    static int open(const Abi& mpi, Handle comm, const Match& match, int amode, Handle info, Handle* out);
    // Collective: does the disk answer for this open (see names/first_opens.hpp)? As the lead says.
    static int on_disk(const Abi& mpi, Handle comm, const Match& match, int amode, bool* disk);
    int close();
    int set_size(int64_t size, bool only_grow);
    int sync();
    int set_atomicity(bool flag);
    int set_view(int64_t disp, Handle etype, Handle filetype, const char* datarep);

    // Collective: returns when all ranks have called it.
    int arrive();

    enum class Direction { read, write };
    // Moves `count` elements of `type` between `buffer` and the view, from `offset` (in etypes) on; `bytes` says how
    // much was moved.
    int transfer(Direction direction, int64_t offset, void* buffer, int64_t count, Handle type, int64_t* bytes);
    // The same from the individual file pointer, which moves on.
    int transfer_next(Direction direction, void* buffer, int64_t count, Handle type, int64_t* bytes);

    int seek(int64_t offset, int whence);
    int64_t position();
    int byte_offset(int64_t offset, int64_t* disp);
    int get_view(int64_t* disp, void* etype, void* filetype, char* datarep);
    int get_group(void* group);
    int get_info(void* info);
    int set_info(Handle info);

    // Sets the status of a finished transfer.
    void finish(void* status, int64_t bytes) const;
    // Makes a request that is complete already.
    int request(int64_t bytes, Handle* out);
    // Calls the file's error handler for a code; returns the code if the handler lets it.
    int fail(int code);
    int unsupported(const char* what);

    const Abi& mpi() const { return mpi_; }
    int64_t size() const { return static_cast<int64_t>(step_->eof()); }
    int amode() const { return amode_; }
    bool atomic() const { return atomic_; }
    int fortran() const;

    // With a reference that is the program's.
    int get_errhandler(void* errhandler) const;
    int set_errhandler(Handle errhandler);
    std::atomic<int64_t> split_bytes{0};  // what the split collective transfer in progress has moved

private:
    explicit File(const Abi& mpi) : mpi_(mpi), errhandler_(mpi.errors_return) {}
    ~File();

    int begin();  // sets the first view, and the file pointer; an errno
    // From now on this is the file's, which has a reference to it.
    void have_errhandler(Handle errhandler);
    std::shared_ptr<const View> view();
    int refused(Direction direction, int64_t offset, int64_t count) const;  // an MPI error code
    int transfer_typed(Direction direction, int64_t offset, unsigned char* memory, int64_t count, Handle type,
                       int64_t* bytes);
    int move(Direction direction, const View& view, int64_t offset, unsigned char* memory, const Layout& layout,
             int64_t* bytes);
    int64_t end_of_view(const View& view) const;

    const Abi& mpi_;
    StepFile* step_ = nullptr;
    Handle comm_ = 0;  // our duplicate; 0 for a file of one rank
    Handle info_ = 0;  // 0: none
    int rank_ = 0;
    bool from_hdf5_ = false;  // opened by an HDF5 whose calls are seen
    int amode_ = 0;
    int slot_ = -1;
    std::atomic<bool> atomic_{false};
    std::mutex
        turn_;  // in atomic mode one thread of this process at a time has the file; ranks take turns by file lock
    std::mutex mutex_;  // guards view_ and position_
    std::shared_ptr<const View> view_;
    int64_t position_ = 0;  // of the individual file pointer, in etypes
    std::atomic<Handle> errhandler_;
    std::atomic<bool> refers_{false};                        // it has a reference to its error handler
    std::atomic<Errhandler*> errhandler_function_{nullptr};  // of one that the program made
};

}  // namespace wilkins::mpiio
