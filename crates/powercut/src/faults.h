/* Faults by rules: see faults.c. */

#ifndef POWERCUT_FAULTS_H
#define POWERCUT_FAULTS_H

enum fault_call { FAULT_OPEN, FAULT_WRITE, FAULT_SYNC, FAULT_RENAME, FAULT_MMAP, FAULT_ACCEPT, FAULT_THREAD, FAULT_RANDOM,
                  FAULT_WAIT, FAULT_CLOCK };

/* Returns the error number with which a call must fail without any effect; 0 for none. */
int fault_by_path(enum fault_call call, const char *path);

/* Does the same for a call on a descriptor. Its path in the rules is the one in /proc/self/fd. */
int fault_by_fd(enum fault_call call, int fd);

#endif
