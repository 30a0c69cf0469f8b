// Performs random programs of several ranks: mpiexec -n RANKS PROGRAM write|read OUT BATCH
//
// BATCH has a line for each call. A program begins with `program NAME`, and how its file is created; below `take MODE`
// are the calls of its readers. Each rank tells in OUT-RANK.txt what its calls returned, in a section per program.
#include <sched.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "performer.h"

enum { LIMIT = 60 };  // seconds that a program may take, before its rank ends, and with it the job

long next(Call* call) { return call->used < call->count ? call->values[call->used++] : 0; }

int below(Call* call, long bound) { return (int)(labs(next(call)) % bound); }

void add_path(Paths* paths, const char* path) {
    if (paths->count < MOST_PATHS && strlen(path) < PATH) strcpy(paths->path[paths->count++], path);
}

// The next line: a word and integers.
static int read_call(FILE* from, Call* call) {
    static char line[1024];
    if (!fgets(line, sizeof(line), from)) return 0;
    call->word = strtok(line, " \n");
    call->count = call->used = 0;
    for (char* word = strtok(NULL, " \n"); word && call->count < 48; word = strtok(NULL, " \n"))
        call->values[call->count++] = strtol(word, NULL, 10);
    return call->word != NULL;
}

static int is(const Call* call, const char* word) { return strcmp(call->word, word) == 0; }

static void perform(Job* job, Call* call) {
    const Known* const lists[] = {object_calls, transfer_calls};
    for (int k = 0; k < 2; ++k)
        for (const Known* known = lists[k]; known->word; ++known)
            if (is(call, known->word)) {
                say("%s", call->word);
                known->perform(job, call);
            }
}

// ALIKE TOGETHER CACHE: metadata is read by all ranks or none, and written by all at once.
static hid_t access_of(Job* job, Call* call) {
    const hid_t list = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_mpio(list, job->comm, MPI_INFO_NULL);
    job->alike = below(call, 2);
    H5Pset_all_coll_metadata_ops(list, (hbool_t)job->alike);
    H5Pset_coll_metadata_write(list, (hbool_t)below(call, 2));
    const int cache = below(call, 3);
    if (cache) H5Pset_cache(list, 0, 7, cache == 1 ? 0 : 2000, 0.75);
    return list;
}

// ... VERSION THRESHOLD INTERVAL META SMALL USERBLOCK ORDER
static void create_file(Job* job, Call* call) {
    static const H5F_libver_t least[] = {H5F_LIBVER_EARLIEST, H5F_LIBVER_LATEST, H5F_LIBVER_V18, H5F_LIBVER_V110};
    const hid_t creation = H5Pcreate(H5P_FILE_CREATE);
    job->access = access_of(job, call);
    H5Pset_libver_bounds(job->access, least[below(call, 4)], H5F_LIBVER_LATEST);
    const long threshold = next(call), interval = next(call), meta = next(call), small = next(call);
    if (interval) H5Pset_alignment(job->access, (hsize_t)threshold, (hsize_t)interval);
    if (meta) H5Pset_meta_block_size(job->access, (hsize_t)meta);
    if (small) H5Pset_small_data_block_size(job->access, (hsize_t)small);
    H5Pset_userblock(creation, (hsize_t)next(call));
    if (below(call, 2)) H5Pset_link_creation_order(creation, H5P_CRT_ORDER_TRACKED | H5P_CRT_ORDER_INDEXED);
    job->id = TRY(H5Fcreate(job->name, H5F_ACC_TRUNC, creation, job->access));
    H5Pclose(creation);
}

static herr_t note(hid_t in, const char* name, const H5O_info_t* info, void* data) {
    (void)in;
    Job* const job = data;
    char path[PATH];
    snprintf(path, sizeof(path), "/%s", name);
    if (info->type == H5O_TYPE_DATASET) add_path(&job->sets, path);
    else if (strcmp(name, ".")) add_path(info->type == H5O_TYPE_GROUP ? &job->groups : &job->types, path);
    return 0;
}

// MODE ALIKE TOGETHER CACHE: all ranks together (0), each by itself through MPI-IO (1), or as one process would (2).
static void open_file(Job* job, Call* call) {
    const int mode = below(call, 3);
    const MPI_Comm comm = job->comm;
    if (mode) job->comm = MPI_COMM_SELF;
    job->access = access_of(job, call);
    if (mode) job->alike = 0;
    job->comm = comm;
    if (mode == 2) H5Pset_fapl_sec2(job->access);
    job->id = TRY(H5Fopen(job->name, H5F_ACC_RDONLY, job->access));
    TRY(H5Ovisit2(job->id, H5_INDEX_NAME, H5_ITER_INC, note, job, H5O_INFO_BASIC));
}

static void begin(Job* job, const char* name, MPI_Comm comm) {
    memset(job, 0, sizeof(*job));
    job->comm = comm;
    MPI_Comm_rank(comm, &job->rank);
    MPI_Comm_size(comm, &job->ranks);
    job->name = name;
    job->id = job->access = -1;
    add_path(&job->groups, "/");
}

static void end(Job* job) {
    if (job->id >= 0) TRY(H5Fclose(job->id));
    if (job->access >= 0) H5Pclose(job->access);
    close_all();
}

// Creates, or looks at, the first two files of a port: only its second file tells that its names are not one stream. Each
// rank that leads those who write files has streams of its own: the second files of programs are led by the second rank.
static void begin_files(const char* kind, int writes, int lead) {
    static const char* const numbers[] = {"first", "second"};
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 2 && (!writes || rank == lead); ++i) {
        char name[64];
        Job job;
        Call call = {0};
        snprintf(name, sizeof(name), "%s-%s.h5", kind, numbers[i]);
        begin(&job, name, writes ? MPI_COMM_SELF : MPI_COMM_WORLD);
        if (writes) create_file(&job, &call);
        else open_file(&job, &call);
        end(&job);
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

// Performs one side of a program with one of its files; `call` is the line that begins the side.
static void perform_side(FILE* batch, const char* kind, const char* of, MPI_Comm comm, int writes, Call* call) {
    char name[64];
    Job* const job = malloc(sizeof(*job));
    snprintf(name, sizeof(name), "%s-%s.h5", kind, of);
    begin(job, name, comm);
    if (writes) create_file(job, call);
    else open_file(job, call);
    while (read_call(batch, call) && !is(call, "take") && !is(call, "end"))
        if (job->id >= 0) perform(job, call);
    end(job);
    free(job);
}

// Performs one side with both files of a program that has two: its writers have one each, half of the ranks.
static void perform_halves(FILE* batch, const char* kind, const char* of, int writes, Call* call) {
    const long place = ftell(batch);
    const Call first = *call;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (writes && ranks > 1) {
        MPI_Comm half;
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
        perform_side(batch, rank % 2 ? "target" : kind, of, half, writes, call);
        MPI_Comm_free(&half);
        return;
    }
    perform_side(batch, kind, of, MPI_COMM_WORLD, writes, call);
    fseek(batch, place, SEEK_SET);
    *call = first;
    perform_side(batch, "target", of, MPI_COMM_WORLD, writes, call);
}

#ifdef MPICH_VERSION
static void yield(int signal) {
    (void)signal;
    sched_yield();
}
#endif

// MPICH's ranks spin while they wait for each other, also for one that has no core: these yield, ten thousand times a
// second.
static void give_way(void) {
#ifdef MPICH_VERSION
    struct sigaction action = {.sa_handler = yield, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGURG};
    const struct itimerspec often = {{0, 100000}, {0, 100000}};
    timer_t timer;
    sigaction(SIGURG, &action, NULL);
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) == 0) timer_settime(timer, 0, &often, NULL);
#endif
}

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    give_way();
    int rank, ranks;
    char name[256], kind[16], of[16] = "";
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc > 2) snprintf(name, sizeof(name), "%s-%d.txt", argv[2], rank);
    FILE* const batch = argc == 4 ? fopen(argv[3], "r") : NULL;
    if (!batch || !(out = fopen(name, "w"))) {
        fprintf(stderr, "usage: %s write|read OUT BATCH\n", argv[0]);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    setvbuf(out, NULL, _IOLBF, BUFSIZ);  // what a program said that does not end
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const int writes = strcmp(argv[1], "write") == 0;
    Call call;
    int halves = 0;
    if (!read_call(batch, &call)) return 2;
    snprintf(kind, sizeof(kind), "%s", call.word);
    begin_files(kind, writes, 0);
    begin_files("target", writes, ranks > 1);
    while (read_call(batch, &call)) {
        if (is(&call, "program")) {
            snprintf(of, sizeof(of), "%04ld", next(&call));
            halves = below(&call, 2);
            say("== %s", of);
            fflush(out);
            alarm(LIMIT);
        } else if (is(&call, writes ? "file" : "take")) {
            if (halves) perform_halves(batch, kind, of, writes, &call);
            else perform_side(batch, kind, of, MPI_COMM_WORLD, writes, &call);
            fflush(out);
            MPI_Barrier(MPI_COMM_WORLD);
        }
    }
    fclose(batch);
    const int failed = fclose(out) != 0;
    MPI_Finalize();
    return failed;
}
