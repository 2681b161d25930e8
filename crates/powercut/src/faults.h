/* Faults by rules: see faults.c. */

#ifndef POWERCUT_FAULTS_H
#define POWERCUT_FAULTS_H

enum fault_call { FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_MMAP, FAULT_ACCEPT, FAULT_THREAD, FAULT_RANDOM,
                  FAULT_WAIT };

/* The error number that a call must give instead of doing anything, 0 for none. */
int fault_by_path(enum fault_call call, const char *path);

/* The same for a call on a descriptor, whose path in the rules is what /proc/self/fd says. */
int fault_by_fd(enum fault_call call, int fd);

#endif
