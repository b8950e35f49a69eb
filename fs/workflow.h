/*
 * workflow.h - one workflow as the mount has it; world.c has the list of them.  All
 * under the lock.
 */
#ifndef EPD_FS_WORKFLOW_H
#define EPD_FS_WORKFLOW_H

#include "fs/fs.h"
#include "fs/stream.h"

/* A page that live states of one workflow show. */
struct epd_fs_page {
	struct epd_name name;
	uint64_t node, run, sum, bytes, wall_ms;
	uint32_t k, rows, page_tokens;
	uint32_t states, leases;
	int in_memory;
	char kv_dtype[8];
};

struct epd_fs_reason {
	uint32_t first, count;		/* states */
	char *text;
};

struct epd_fs_workflow {
	char name[EPD_WORKFLOW];
	struct epd_watch *watch;	/* NULL: shut, or nothing was written yet */
	struct epd_follow *follow;
	uint64_t lsn;			/* of what was shown last */
	uint64_t told;			/* number of the last record in events */
	uint64_t logged;		/* and of that in log */
	int wants_log;			/* somebody reads it */
	uint64_t folder, life;		/* tell it from one that had its name */
	uint8_t uuid[16];		/* its log's; 0: none was seen yet */
	int suspect;			/* its name may be another folder's */
	uint64_t stamp;			/* grows with each change */
	uint64_t made_ms, changed_ms;
	uint64_t used;			/* when last, in sync's counting */
	int dir, runs;			/* inotify's numbers, or -1 */
	int dirty;
	int rc;				/* how it was read last */
	struct epd_fs_page *page;	/* ascending by name, each once */
	size_t pages;
	uint64_t paged;			/* stamp they are of; 0: of none */
	struct epd_fs_stream log, events;
	struct epd_fs_reason *reason;	/* as they were given */
	size_t reasons, reasons_cap;
};

struct epd_fs;

/* Why a workflow is dirty. */
enum {
	EPD_FS_UNSEEN = 1,	/* it was never looked at */
	EPD_FS_HEARD,		/* something was written there */
	EPD_FS_UNHEARD		/* nobody would say if something was */
};

/* NULL: no memory. */
struct epd_fs_workflow *epd_fs_workflow_new(const struct epd_fs *fs,
    const char *name, int dirty);
void epd_fs_workflow_free(struct epd_fs *fs, struct epd_fs_workflow *w);
/* Whether a folder took the name of another since w was made. */
int epd_fs_workflow_is_another(const struct epd_fs *fs,
    struct epd_fs_workflow *w);
/* Hear of it from now on.  Where that fails it is looked at each time. */
void epd_fs_workflow_hear(struct epd_fs *fs, struct epd_fs_workflow *w);
/* Bring it up to now, opening it if it is shut.  EPD_ENOTHING: it is gone. */
int epd_fs_workflow_on(struct epd_fs *fs, struct epd_fs_workflow *w,
    struct epd_why *why);
/* Of its log every line is kept from now on; others' make room for it. */
void epd_fs_workflow_log(struct epd_fs *fs, struct epd_fs_workflow *w);
/* Its log is taken in; one that is damaged as far as it goes. */
void epd_fs_workflow_follow(struct epd_fs *fs, struct epd_fs_workflow *w);

/* Sizes of events, w's and all's, that the kernel keeps are no more so. */
void epd_fs_call_back_events(struct epd_fs *fs,
    const struct epd_fs_workflow *w);

/* inotify's number for a folder, or -1. */
int epd_fs_notify_on(struct epd_fs *fs, int fd);

#endif
