/*
 * host.h - what a data server has to give: filled in by libepd, served by
 * transport/.  One guest is one connection that has shown who it is; its calls
 * come one after another, from one thread.  base/transport.h is the other side.
 */
#ifndef EPD_BASE_HOST_H
#define EPD_BASE_HOST_H

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/span.h"

/*
 * A stretch of a window: file and memory are the same bytes.  fd -1: memory
 * alone; p NULL: a file alone.  They stay while the window does.
 */
struct epd_extent {
	int fd;
	uint64_t at;			/* in the file */
	void *p;
	uint64_t bytes;
};

/* A window that a call's answer opens; id is the host's, and in its answer. */
struct epd_opened {
	uint64_t id;			/* 0: none was opened */
	int writable;
	const struct epd_extent *extent;	/* the host's, until gone */
	uint32_t n;
};

/* How much the receiver grants a guest; numbers go up again as windows are shut. */
struct epd_credits {
	uint64_t generation;		/* another whenever the others are */
	uint64_t bytes;			/* that it has room for */
	uint32_t slots;			/* windows to be written */
	uint32_t staging;		/* slots of memory there that it stages a write in */
};

struct epd_guest;

struct epd_host {
	void *arg;
	/*
	 * near: the process that connected, if it is of this user's and on this machine,
	 * as the kernel has it; else 0.
	 * Fails: any; the peer is told and let go.
	 */
	int (*begin)(void *arg, pid_t near, struct epd_guest **out,
	    struct epd_why *why);
	void (*end)(struct epd_guest *g);	/* all its windows are gone too */
	/*
	 * Answer one call.  A failure is told the peer with its sentence, which must
	 * name no path or address of ours; answer is then what it was.
	 */
	int (*call)(struct epd_guest *g, uint16_t verb, struct epd_span ask,
	    struct epd_buf *answer, struct epd_opened *opened,
	    struct epd_why *why);
	/* The window is needed no more, and nothing reads or writes it. */
	void (*gone)(struct epd_guest *g, uint64_t id);
};

#endif
