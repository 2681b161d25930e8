/* Faults by rules: system calls that fail without any effect, in chosen threads, on chosen files and at chosen times.
 *
 * POWERCUT_FAULTS contains the rules; src/lib.rs describes their form. A rule counts the calls that match it, from 1,
 * and fails `times` of them beginning with the `from`th. With `while=FILE` it matches only while that file exists, so
 * that a test can switch it on and off. interpose.c implements the calls on files and asks this module first; the other
 * calls are implemented here.
 */

#define _GNU_SOURCE
#include "faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RULES_MAX = 16, THREAD_NAME_SIZE = 16, HANG_MICROSECONDS = 10000 };

struct rule {
    enum fault_call call;
    const char *thread, *path, *only_while; /* NULL matches everything */
    uint64_t from, times;                   /* times 0 is without end */
    int error;                              /* of clock, the seconds by which it is ahead */
    int delay;                              /* in milliseconds; the call then does what it does */
    atomic_uint_fast64_t seen;
};

static struct rule rules[RULES_MAX];
static int rule_count;
static const char *log_file;

static const char *const CALLS[] = {"open",   "write",  "sync", "rename", "mmap",
                                    "accept", "thread", "random", "wait", "clock"};

static const struct {
    const char *name;
    int number;
} ERRORS[] = {
    {"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EDQUOT", EDQUOT}, {"EMFILE", EMFILE}, {"ENFILE", ENFILE},
    {"ENOMEM", ENOMEM}, {"EAGAIN", EAGAIN}, {"EINTR", EINTR},   {"EACCES", EACCES}, {"EROFS", EROFS},
};

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void *(*real_mmap)(void *, size_t, int, int, int, off_t);
static int (*real_accept)(int, struct sockaddr *, socklen_t *);
static int (*real_accept4)(int, struct sockaddr *, socklen_t *, int);
static int (*real_pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
static int (*real_rename)(const char *, const char *);
static ssize_t (*real_getrandom)(void *, size_t, unsigned);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_clock_gettime)(clockid_t, struct timespec *);

/* Ends the process: a test with an invalid rule would prove nothing. */
static void refuse(const char *what) {
    dprintf(2, "powercut: POWERCUT_FAULTS: %s\n", what);
    abort();
}

static void read_field(struct rule *rule, const char *name, const char *value) {
    if (strcmp(name, "call") == 0) {
        for (size_t at = 0; at < sizeof CALLS / sizeof *CALLS; at++)
            if (strcmp(value, CALLS[at]) == 0) {
                rule->call = (enum fault_call)at;
                return;
            }
    } else if (strcmp(name, "errno") == 0) {
        rule->error = atoi(value);
        for (size_t at = 0; at < sizeof ERRORS / sizeof *ERRORS; at++)
            if (strcmp(value, ERRORS[at].name) == 0) rule->error = ERRORS[at].number;
        if (rule->error > 0) return;
    } else if (strcmp(name, "delay") == 0) {
        rule->delay = atoi(value);
        if (rule->delay > 0) return;
    } else if (strcmp(name, "ahead") == 0) {
        rule->error = atoi(value);
        if (rule->error > 0) return;
    } else if (strcmp(name, "from") == 0) {
        rule->from = strtoull(value, NULL, 10);
        return;
    } else if (strcmp(name, "times") == 0) {
        rule->times = strtoull(value, NULL, 10);
        return;
    } else if (strcmp(name, "thread") == 0) {
        rule->thread = value;
        return;
    } else if (strcmp(name, "path") == 0) {
        rule->path = value;
        return;
    } else if (strcmp(name, "while") == 0) {
        rule->only_while = value;
        return;
    }
    refuse(value);
}

static void start(void) {
    real_mmap = dlsym(RTLD_NEXT, "mmap");
    real_accept = dlsym(RTLD_NEXT, "accept");
    real_accept4 = dlsym(RTLD_NEXT, "accept4");
    real_pthread_create = dlsym(RTLD_NEXT, "pthread_create");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_getrandom = dlsym(RTLD_NEXT, "getrandom");
    real_epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
    real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    log_file = getenv("POWERCUT_FAULTS_LOG");
    const char *text = getenv("POWERCUT_FAULTS");
    if (!text || !*text) return;
    char *next_rule = strdup(text);
    for (char *one; (one = strsep(&next_rule, ";"));) {
        if (!*one) continue;
        if (rule_count == RULES_MAX) refuse("too many rules");
        struct rule *rule = &rules[rule_count++];
        rule->from = 1;
        int has_call = 0;
        for (char *field; (field = strsep(&one, ","));) {
            char *value = strchr(field, '=');
            if (!value) refuse(field);
            *value++ = '\0';
            has_call |= strcmp(field, "call") == 0;
            read_field(rule, field, value);
        }
        if (!has_call || (!rule->error && !rule->delay)) refuse("a rule has a call, and an errno, a delay or ahead");
    }
}

static void tell(enum fault_call call, int error, const char *thread, const char *path) {
    if (!log_file) return;
    int fd = open(log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) return;
    dprintf(fd, "%s %d %s %s\n", CALLS[call], error, thread, path);
    close(fd);
}

/* If `path` is NULL, the path is that of `fd`. */
static int fault(enum fault_call call, const char *path, int fd) {
    pthread_once(&once, start);
    /* The calls made here must not fail by rules themselves. */
    static __thread int is_asking;
    if (rule_count == 0 || is_asking) return 0;
    is_asking = 1;
    int before = errno, error = 0, delay = 0;
    char thread[THREAD_NAME_SIZE] = "", link[64], asked[PATH_MAX] = "";
    prctl(PR_GET_NAME, thread);
    for (int at = 0; at < rule_count && !error && !delay; at++) {
        struct rule *rule = &rules[at];
        if (rule->call != call || (rule->thread && fnmatch(rule->thread, thread, 0) != 0)) continue;
        if (rule->path && !path) {
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            ssize_t length = fd < 0 ? 0 : readlink(link, asked, sizeof asked - 1);
            asked[length < 0 ? 0 : length] = '\0';
            path = asked;
        }
        if (rule->path && fnmatch(rule->path, path, 0) != 0) continue;
        if (rule->only_while && access(rule->only_while, F_OK) != 0) continue;
        uint64_t number = atomic_fetch_add(&rule->seen, 1) + 1;
        if (number >= rule->from && (!rule->times || number - rule->from < rule->times)) {
            error = rule->error;
            delay = rule->delay;
        }
    }
    if ((error && call != FAULT_CLOCK) || delay) tell(call, error, thread, path ? path : "");
    struct timespec left = {.tv_sec = delay / 1000, .tv_nsec = delay % 1000 * 1000000L};
    while (delay && nanosleep(&left, &left) != 0 && errno == EINTR) {}
    is_asking = 0;
    errno = before;
    return error;
}

int fault_by_path(enum fault_call call, const char *path) { return fault(call, path ? path : "", -1); }

int fault_by_fd(enum fault_call call, int fd) { return fault(call, NULL, fd); }

/* ---- the C library's names of the calls ---- */

void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t offset) {
    int error = fault_by_fd(FAULT_MMAP, fd);
    if (error) {
        errno = error;
        return MAP_FAILED;
    }
    return real_mmap(address, length, protection, flags, fd, offset);
}

void *mmap64(void *address, size_t length, int protection, int flags, int fd, off64_t offset) {
    return mmap(address, length, protection, flags, fd, offset);
}

int accept(int fd, struct sockaddr *address, socklen_t *length) {
    int error = fault_by_fd(FAULT_ACCEPT, fd);
    if (error) {
        errno = error;
        return -1;
    }
    return real_accept(fd, address, length);
}

int accept4(int fd, struct sockaddr *address, socklen_t *length, int flags) {
    int error = fault_by_fd(FAULT_ACCEPT, fd);
    if (error) {
        errno = error;
        return -1;
    }
    return real_accept4(fd, address, length, flags);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    int error = fault_by_path(FAULT_THREAD, "");
    return error ? error : real_pthread_create(thread, attributes, run, argument);
}

int rename(const char *from, const char *to) {
    int error = fault_by_path(FAULT_RENAME, to);
    if (error) {
        errno = error;
        return -1;
    }
    return real_rename(from, to);
}

ssize_t getrandom(void *bytes, size_t length, unsigned flags) {
    int error = fault_by_path(FAULT_RANDOM, "");
    if (error) {
        errno = error;
        return -1;
    }
    return real_getrandom(bytes, length, flags);
}

/* Blocks while a rule matches. */
int epoll_wait(int fd, struct epoll_event *events, int events_max, int timeout) {
    int hung = 0;
    for (int error; (error = fault_by_path(FAULT_WAIT, "")); hung = error) usleep(HANG_MICROSECONDS);
    if (hung) {
        errno = hung;
        return -1;
    }
    return real_epoll_wait(fd, events, events_max, timeout);
}

/* Reading the monotonic clock never fails, but the clock may be ahead. */
int clock_gettime(clockid_t clock, struct timespec *time) {
    int ahead = clock == CLOCK_MONOTONIC ? fault_by_path(FAULT_CLOCK, "") : 0;
    if (!real_clock_gettime) real_clock_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real_clock_gettime(clock, time);
    if (result == 0) time->tv_sec += ahead;
    return result;
}
