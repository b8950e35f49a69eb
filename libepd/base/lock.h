/*
 * lock.h - locks that the kernel drops when their holder dies (OFD locks), and
 * the `procs` file by which one process tells whether another is alive.
 */
#ifndef EPD_BASE_LOCK_H
#define EPD_BASE_LOCK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/*
 * Lock the file open at fd (for writing), polling until timeout_ms of the boot
 * clock have passed.  The holder writes its pid into the file, which is for the
 * lock alone, so that whoever gives up can name it.  The lock belongs to the
 * open file: another open of it conflicts, in the same process too; a child of
 * fork shares it, and it lasts until all copies of fd are closed.
 * Fails: EPD_ELOCKED with the holder in why; -errno.
 */
int epd_lock_take(int fd, uint64_t timeout_ms, struct epd_why *why);
/* The same, once or to a time-out, with the file's bytes left alone. */
int epd_lock_try(int fd);
int epd_lock_wait(int fd, uint64_t timeout_ms);
/* Shared with others who share it; whoever takes it alone waits for all. */
int epd_lock_share(int fd, uint64_t timeout_ms);
void epd_lock_drop(int fd);
/*
 * 1: another open of the file has a lock, shared or not, on some of the n bytes
 * from `at` on (0, 0: on any); or that cannot be told.  fd may be for reading.
 */
int epd_lock_is_held(int fd, off_t at, off_t n);

/* One process's registration in a store's procs file. */
struct epd_procs;

/* A process for ever: pid and start time, in a boot. */
struct epd_proc {
	uint8_t boot[16];	/* the kernel's boot_id */
	/* Clock ticks after boot, from /proc/PID/stat; top 16 bits: a hash of
	   its namespaces.  To others a number that is equal or not. */
	uint64_t start;
	int32_t pid;
};

/*
 * Open (or make) the procs file in dirfd and hold the byte at this process's
 * pid.  A process may open it more than once; a child of fork opens its own.
 * Fails: -errno.  Owns: the caller owns *out; close drops the byte.
 */
int epd_procs_open(struct epd_procs **out, int dirfd);
void epd_procs_close(struct epd_procs *p);
const struct epd_proc *epd_procs_self(const struct epd_procs *p);
/* 1 alive, 0 dead or of another boot, -errno when it cannot be told. */
int epd_procs_alive(struct epd_procs *p, const struct epd_proc *who);

#endif
