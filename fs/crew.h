/*
 * crew.h - threads for what takes long, so that those that answer the kernel are
 * free.  Of one workflow one thing at a time, in order; others go on meanwhile,
 * 64 at once.
 */
#ifndef EPD_FS_CREW_H
#define EPD_FS_CREW_H

#include <sys/types.h>

#include "epd.h"

struct epd_fs_crew;

/*
 * Something to do, the first part of what it takes, made by epd_calloc.  Once it is
 * done the crew frees it.
 */
struct epd_fs_errand {
	/* Called once; late: it is to do nothing but answer. */
	void (*fn)(struct epd_fs_errand *e, int late);
	pid_t who;			/* for whom: it is called off if he dies */
	char workflow[EPD_WORKFLOW];	/* "": in no order */
	/* the crew's: */
	struct epd_fs_crew *crew;
	struct epd_fs_errand *next;
	int begun, asked, dying;
};

/* -ENOMEM.  Owns: the caller owns *out. */
int epd_fs_crew_open(struct epd_fs_crew **out);
/*
 * What is under way is called off; what waits is told it is late.  It is waited for, 2 s
 * at most: who waits for a file system that is away cannot be called off.
 */
void epd_fs_crew_end(struct epd_fs_crew *c);
/* The same, however long it takes. */
void epd_fs_crew_close(struct epd_fs_crew *c);
/* Have it done by another thread, or by this one if there can be none. */
void epd_fs_crew_do(struct epd_fs_crew *c, struct epd_fs_errand *e);
/* A signal came to him for whom it is done: look whether he dies of it. */
void epd_fs_crew_ask(struct epd_fs_errand *e);

#endif
