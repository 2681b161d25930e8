/* The preloaded library of the crate `powercut`. It intercepts the C library's file calls of a process, stores for
 * every file below one directory the content that the disk certainly has, and cuts the power at a chosen call.
 * src/lib.rs describes its use.
 *
 * For each sector (512 bytes) written since the last sync of its file, the library stores the bytes before the write. A
 * sync discards them. A write through a descriptor opened with O_DSYNC or O_SYNC is synced when it returns. After a
 * failed sync, later syncs do not write the sectors that it should have written, until the process writes them again:
 * Linux does the same.
 *
 * Every call holds one mutex until the real call has returned, so the stored bytes and the content of the file agree.
 *
 * There are two simpler failures. SIGKILL at a chosen call discards no write, so nothing is stored for it. A limit of
 * room is the total number of bytes by which files below the directory may grow. A call that would exceed it fails with
 * ENOSPC and has no effect. Truncating a file frees room; removing one does not.
 *
 * Faults by rules, of faults.c, come before all of this: a call that fails by a rule is not executed.
 *
 * Not detected: stores through a shared mapping, calls that bypass the C library, O_TRUNC. Renames and removals count
 * as durable at once.
 */

#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SECTOR = 512, EXIT_STATUS = 86 };

static const char MAGIC[8] = "PWRCUT1\n";

struct sector {
    uint64_t index;
    unsigned char lost; /* a sync of it failed, and it was not written since */
    unsigned char before[SECTOR];
};

struct file {
    struct file *next;
    dev_t device;
    ino_t inode;
    int reading_fd; /* never closed: closing would drop the process's record locks on the file */
    uint64_t durable_size;
    struct sector *sectors;
    size_t count, capacity;
    size_t *slots; /* open addressing over `sectors`, one more than the position there; 0 is free */
    size_t slot_count;
};

enum kind { WRITE, SYNC };

static struct {
    const char *directory;
    size_t directory_length;
    const char *journal;
    uint64_t cut_at, kill_at;
    const char *room_file, *count_file;
    int64_t grown;
    int fails, remembers;
    enum kind fail_kind;
    uint64_t fail_at;
    int fail_errno;
    uint64_t calls, writes, syncs;
    struct file *files;
} state;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static ssize_t (*real_pwritev)(int, const struct iovec *, int, off_t);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_writev)(int, const struct iovec *, int);
static int (*real_ftruncate)(int, off_t);
static int (*real_fallocate)(int, int, off_t, off_t);
static int (*real_fdatasync)(int);
static int (*real_fsync)(int);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);

static void die(const char *why) {
    dprintf(2, "powercut: %s: %s\n", why, strerror(errno));
    abort();
}

static uint64_t number(const char *name) {
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static void start(void) {
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_pwritev = dlsym(RTLD_NEXT, "pwritev");
    real_write = dlsym(RTLD_NEXT, "write");
    real_writev = dlsym(RTLD_NEXT, "writev");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    real_fallocate = dlsym(RTLD_NEXT, "fallocate");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_open = dlsym(RTLD_NEXT, "open");
    real_openat = dlsym(RTLD_NEXT, "openat");
    state.directory = getenv("POWERCUT_DIRECTORY");
    state.directory_length = state.directory ? strlen(state.directory) : 0;
    state.journal = getenv("POWERCUT_JOURNAL");
    state.cut_at = number("POWERCUT_AT");
    state.kill_at = number("POWERCUT_KILL_AT");
    state.room_file = getenv("POWERCUT_ROOM");
    state.count_file = getenv("POWERCUT_COUNT");
    state.fail_at = number("POWERCUT_FAIL_AT");
    state.fail_errno = (int)number("POWERCUT_FAIL_ERRNO");
    const char *kind = getenv("POWERCUT_FAIL_KIND");
    state.fails = kind != NULL;
    state.fail_kind = kind && strcmp(kind, "sync") == 0 ? SYNC : WRITE;
    state.remembers = state.cut_at || state.fails;
}

/* ---- the watched files ---- */

#define LINK_MAX_LENGTH 64

static void link_of(int fd, char *link) { snprintf(link, LINK_MAX_LENGTH, "/proc/self/fd/%d", fd); }

static int path_of(int fd, char *path) {
    char link[LINK_MAX_LENGTH];
    link_of(fd, link);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return 1;
}

/* Returns the file of a descriptor; NULL if it is not below the directory. */
static struct file *file_of(int fd) {
    struct stat facts;
    char path[PATH_MAX], link[LINK_MAX_LENGTH];
    if (!state.directory || fstat(fd, &facts) != 0 || !S_ISREG(facts.st_mode)) return NULL;
    for (struct file *file = state.files; file; file = file->next)
        if (file->device == facts.st_dev && file->inode == facts.st_ino) return file;
    if (!path_of(fd, path) || strncmp(path, state.directory, state.directory_length) != 0 ||
        path[state.directory_length] != '/')
        return NULL;
    struct file *file = calloc(1, sizeof *file);
    if (!file) die("calloc");
    file->device = facts.st_dev;
    file->inode = facts.st_ino;
    file->durable_size = (uint64_t)facts.st_size;
    /* Not by path: a file without a name still counts until it is closed. */
    link_of(fd, link);
    file->reading_fd = real_open(link, O_RDONLY | O_CLOEXEC);
    if (file->reading_fd < 0) die(path);
    file->next = state.files;
    state.files = file;
    return file;
}

static uint64_t size_of(struct file *file) {
    struct stat facts;
    if (fstat(file->reading_fd, &facts) != 0) die("fstat");
    return (uint64_t)facts.st_size;
}

/* ---- the content of the disk ---- */

static size_t *slot_of(struct file *file, uint64_t index) {
    size_t at = (size_t)(index * 0x9E3779B97F4A7C15u) & (file->slot_count - 1);
    while (file->slots[at] && file->sectors[file->slots[at] - 1].index != index) at = (at + 1) & (file->slot_count - 1);
    return &file->slots[at];
}

static void index_anew(struct file *file) {
    memset(file->slots, 0, file->slot_count * sizeof *file->slots);
    for (size_t at = 0; at < file->count; at++) *slot_of(file, file->sectors[at].index) = at + 1;
}

static void grow(struct file *file) {
    file->capacity = file->capacity ? file->capacity * 2 : 256;
    file->slot_count = file->capacity * 2;
    file->sectors = realloc(file->sectors, file->capacity * sizeof *file->sectors);
    free(file->slots);
    file->slots = malloc(file->slot_count * sizeof *file->slots);
    if (!file->sectors || !file->slots) die("realloc");
    index_anew(file);
}

static void remember(struct file *file, uint64_t offset, uint64_t length) {
    if (length == 0 || !state.remembers) return;
    for (uint64_t index = offset / SECTOR; index <= (offset + length - 1) / SECTOR; index++) {
        if (file->count == file->capacity) grow(file);
        size_t *slot = slot_of(file, index);
        if (*slot) {
            file->sectors[*slot - 1].lost = 0;
            continue;
        }
        struct sector *sector = &file->sectors[file->count];
        memset(sector, 0, sizeof *sector);
        sector->index = index;
        if (pread(file->reading_fd, sector->before, SECTOR, (off_t)(index * SECTOR)) < 0) die("pread");
        *slot = ++file->count;
    }
}

/* Records that the sectors from `first` to `end` - 1 are on the disk. */
static void forget(struct file *file, uint64_t first, uint64_t end) {
    size_t kept = 0;
    for (size_t at = 0; at < file->count; at++) {
        struct sector *sector = &file->sectors[at];
        if (sector->lost || sector->index < first || sector->index >= end) file->sectors[kept++] = *sector;
    }
    file->count = kept;
    if (file->slot_count) index_anew(file);
}

static void lose(struct file *file) {
    for (size_t at = 0; at < file->count; at++) file->sectors[at].lost = 1;
}

/* ---- the cut ---- */

static void put(FILE *out, const void *bytes, size_t length) {
    if (fwrite(bytes, 1, length, out) != length) die("journal");
}

static void put_number(FILE *out, uint64_t value) { put(out, &value, sizeof value); }

static void cut(void) {
    FILE *out = state.journal ? fopen(state.journal, "w") : NULL;
    if (!out) die("POWERCUT_JOURNAL");
    put(out, MAGIC, sizeof MAGIC);
    for (struct file *file = state.files; file; file = file->next) {
        struct stat facts;
        char path[PATH_MAX];
        if (fstat(file->reading_fd, &facts) != 0 || facts.st_nlink == 0 || !path_of(file->reading_fd, path)) continue;
        put_number(out, strlen(path));
        put(out, path, strlen(path));
        put_number(out, file->durable_size);
        put_number(out, file->count);
        for (size_t at = 0; at < file->count; at++) {
            put_number(out, file->sectors[at].index);
            put(out, file->sectors[at].before, SECTOR);
        }
    }
    if (fclose(out) != 0) die("journal");
    _exit(EXIT_STATUS);
}

/* ---- the room ---- */

/* Returns true if files may grow by `growth`. Reads the limit each time, so that a test can raise it. */
static int has_room(int64_t growth) {
    if (!state.room_file || growth <= 0) return 1;
    char text[32] = "";
    int fd = real_open(state.room_file, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, text, sizeof text - 1) < 0) die("POWERCUT_ROOM");
    close(fd);
    return state.grown + growth <= strtoll(text, NULL, 10);
}

/* Returns the growth of a file that is written up to `end`. */
static int64_t growth_to(struct file *file, uint64_t end) {
    uint64_t size = size_of(file);
    return end > size ? (int64_t)(end - size) : 0;
}

/* If the process ends by itself, writes its number of calls and its growth, from which a test chooses a point. */
__attribute__((destructor)) static void tell(void) {
    pthread_once(&once, start);
    FILE *out = state.count_file ? fopen(state.count_file, "w") : NULL;
    if (out) {
        fprintf(out, "%llu %lld\n", (unsigned long long)state.calls, (long long)state.grown);
        fclose(out);
    }
}

/* ---- the calls ---- */

struct call {
    struct file *file;
    int last; /* the power goes after this call */
    int error; /* the error that this call must give, 0 for none */
};

static struct call begin(int fd, enum kind kind) {
    pthread_once(&once, start);
    pthread_mutex_lock(&mutex);
    struct call call = {file_of(fd), 0, 0};
    if (!call.file) return call;
    int syncs = kind == SYNC || (fcntl(fd, F_GETFL) & O_DSYNC);
    state.calls++;
    state.writes += kind == WRITE;
    state.syncs += syncs;
    call.last = state.calls == state.cut_at;
    if (state.fails && state.fail_kind == WRITE && kind == WRITE && state.writes == state.fail_at) call.error = state.fail_errno;
    if (state.fails && state.fail_kind == SYNC && syncs && state.syncs == state.fail_at) call.error = state.fail_errno;
    return call;
}

static ssize_t end(struct call call, ssize_t result) {
    if (call.last) cut();
    if (call.file && state.calls == state.kill_at) kill(getpid(), SIGKILL);
    int error = errno;
    pthread_mutex_unlock(&mutex);
    errno = error;
    return result;
}

static size_t length_of(const struct iovec *parts, int count) {
    size_t length = 0;
    for (int at = 0; at < count; at++) length += parts[at].iov_len;
    return length;
}

/* A write through a descriptor opened with O_DSYNC is a sync, too. */
static int fault_of_write(int fd) {
    int fault = fault_by_fd(FAULT_WRITE, fd);
    if (fault || !(fcntl(fd, F_GETFL) & O_DSYNC)) return fault;
    return fault_by_fd(FAULT_SYNC, fd);
}

/* Writes `parts` at `offset`, or at the descriptor's position if that is negative. */
static ssize_t write_parts(int fd, const struct iovec *parts, int count, off_t offset) {
    int fault = fault_of_write(fd);
    if (fault) {
        errno = fault;
        return -1;
    }
    struct call call = begin(fd, WRITE);
    if (!call.file) {
        pthread_mutex_unlock(&mutex);
        return offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    }
    int flags = fcntl(fd, F_GETFL);
    uint64_t from = (uint64_t)offset;
    if (flags & O_APPEND)
        from = size_of(call.file);
    else if (offset < 0)
        from = (uint64_t)lseek(fd, 0, SEEK_CUR);
    uint64_t length = length_of(parts, count);
    int64_t growth = growth_to(call.file, from + length);
    if (!call.error && !has_room(growth)) call.error = ENOSPC;
    remember(call.file, from, length);
    if (call.error && call.error != EIO) {
        errno = call.error;
        return end(call, -1);
    }
    ssize_t written = offset < 0 ? real_writev(fd, parts, count) : real_pwritev(fd, parts, count, offset);
    if (written > 0) state.grown += growth;
    if (call.error) {
        /* The pages are in memory, but the disk did not accept them. */
        lose(call.file);
        errno = call.error;
        return end(call, -1);
    }
    if (written > 0 && (flags & O_DSYNC) && !call.last) {
        uint64_t written_to = from + (uint64_t)written;
        forget(call.file, from / SECTOR, (written_to + SECTOR - 1) / SECTOR);
        if (written_to > call.file->durable_size) call.file->durable_size = written_to;
    }
    return end(call, written);
}

static int truncate_to(int fd, off_t size) {
    int fault = fault_by_fd(FAULT_WRITE, fd);
    if (fault) {
        errno = fault;
        return -1;
    }
    struct call call = begin(fd, WRITE);
    int64_t growth = 0;
    if (call.file) {
        uint64_t before = size_of(call.file);
        growth = (int64_t)size - (int64_t)before;
        if (!call.error && !has_room(growth)) call.error = ENOSPC;
        if (before > (uint64_t)size) remember(call.file, (uint64_t)size, before - (uint64_t)size);
    }
    if (call.error) {
        errno = call.error;
        return (int)end(call, -1);
    }
    int result = real_ftruncate(fd, size);
    if (result == 0) state.grown += growth;
    return (int)end(call, result);
}

static int allocate(int fd, int mode, off_t offset, off_t length) {
    int fault = fault_by_fd(FAULT_WRITE, fd);
    if (fault) {
        errno = fault;
        return -1;
    }
    struct call call = begin(fd, WRITE);
    int64_t growth = call.file && !(mode & ~FALLOC_FL_KEEP_SIZE) ? growth_to(call.file, (uint64_t)(offset + length)) : 0;
    if (!call.error && !has_room(growth)) call.error = ENOSPC;
    if (call.error) {
        errno = call.error;
        return (int)end(call, -1);
    }
    /* Modes that change bytes; the others change only the size. */
    if (call.file && (mode & ~FALLOC_FL_KEEP_SIZE)) remember(call.file, (uint64_t)offset, (uint64_t)length);
    int result = real_fallocate(fd, mode, offset, length);
    if (result == 0) state.grown += growth;
    return (int)end(call, result);
}

static int sync_with(int (*real)(int), int fd) {
    int fault = fault_by_fd(FAULT_SYNC, fd);
    if (fault) {
        errno = fault;
        return -1;
    }
    struct call call = begin(fd, SYNC);
    if (call.last) cut();
    if (call.error) {
        lose(call.file);
        errno = call.error;
        return (int)end(call, -1);
    }
    int result = real(fd);
    if (call.file && result == 0) {
        forget(call.file, 0, UINT64_MAX);
        call.file->durable_size = size_of(call.file);
    }
    return (int)end(call, result);
}

/* ---- the C library's names of the calls ---- */

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset) {
    struct iovec part = {(void *)bytes, length};
    return write_parts(fd, &part, 1, offset);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    return pwrite(fd, bytes, length, offset);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return write_parts(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return write_parts(fd, parts, count, offset);
}

ssize_t write(int fd, const void *bytes, size_t length) {
    struct iovec part = {(void *)bytes, length};
    return write_parts(fd, &part, 1, -1);
}

ssize_t writev(int fd, const struct iovec *parts, int count) { return write_parts(fd, parts, count, -1); }

int ftruncate(int fd, off_t size) { return truncate_to(fd, size); }

int ftruncate64(int fd, off64_t size) { return truncate_to(fd, size); }

int fallocate(int fd, int mode, off_t offset, off_t length) { return allocate(fd, mode, offset, length); }

int fallocate64(int fd, int mode, off64_t offset, off64_t length) { return allocate(fd, mode, offset, length); }

int posix_fallocate(int fd, off_t offset, off_t length) { return allocate(fd, 0, offset, length) == 0 ? 0 : errno; }

int posix_fallocate64(int fd, off64_t offset, off64_t length) { return posix_fallocate(fd, offset, length); }

/* Returns the error with which opening a file fails; 0 for none. A new file needs room for its name. */
static int refusal_of(const char *path, int flags) {
    pthread_once(&once, start);
    int fault = fault_by_path(FAULT_OPEN, path);
    if (fault) return fault;
    if (!(flags & O_CREAT) || !state.room_file || !state.directory) return 0;
    if (strncmp(path, state.directory, state.directory_length) != 0 || path[state.directory_length] != '/') return 0;
    if (access(path, F_OK) == 0) return 0;
    pthread_mutex_lock(&mutex);
    int refused = !has_room(1);
    pthread_mutex_unlock(&mutex);
    return refused ? ENOSPC : 0;
}

static mode_t mode_of(int flags, va_list arguments) {
    return flags & (O_CREAT | __O_TMPFILE) ? va_arg(arguments, mode_t) : 0;
}

int open(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    int refusal = refusal_of(path, flags);
    if (refusal) {
        errno = refusal;
        return -1;
    }
    return real_open(path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return open(path, flags | O_LARGEFILE, mode);
}

int openat(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    int refusal = refusal_of(path, flags);
    if (refusal) {
        errno = refusal;
        return -1;
    }
    return real_openat(folder, path, flags, mode);
}

int openat64(int folder, const char *path, int flags, ...) {
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = mode_of(flags, arguments);
    va_end(arguments);
    return openat(folder, path, flags | O_LARGEFILE, mode);
}

int fdatasync(int fd) {
    pthread_once(&once, start);
    return sync_with(real_fdatasync, fd);
}

int fsync(int fd) {
    pthread_once(&once, start);
    return sync_with(real_fsync, fd);
}
