/*
 * world.h - the store as the mount has it before it: its workflows held open, what
 * changed since, and lines about that.  All under the lock.
 */
#ifndef EPD_FS_WORLD_H
#define EPD_FS_WORLD_H

#include <pthread.h>

#include "fs/fs.h"
#include "fs/node.h"
#include "fs/workflow.h"

struct epd_fs {
	struct epd_fs_options o;
	pthread_mutex_t lock;
	struct epd_store *store;	/* opened to look */
	struct epd_fs_nodes nodes;
	struct epd_fs_workflow **workflow;	/* in natural order */
	size_t workflows, open, most;	/* open: of them, at most so many */
	size_t last;			/* asked for: where to look first */
	uint64_t stamp;			/* grows when any of them changes */
	uint64_t count;			/* of uses */
	uint64_t began_ms;
	uid_t uid;
	gid_t gid;
	int notify;			/* inotify, or -1: everything is looked at each time */
	int dir;			/* its number of the store's folder of workflows */
	int wake;			/* an eventfd: there is something to be told */
	int stale;			/* the list of workflows is */
	int heard;			/* some are dirty by what inotify said */
	uint64_t *stale_ino;		/* whose attributes are to be called back */
	size_t nstale, stales;
	uint64_t recalls;		/* how many were, ever */
	int listed;			/* the list was made once */
	struct epd_fs_stream events;
	pthread_mutex_t tongues;	/* of tongue; taken last */
	struct epd_fs_tongue *tongue;	/* tokenizers by model */
	struct epd_fs_hands *hands;	/* what writes; NULL: nobody */
	/* Of metrics (EPD_TIER_NONE), used and pages: how long they were last. */
	uint32_t looked_size[EPD_TIER_COUNT][2];
};

int epd_fs_world_open(struct epd_fs *fs, struct epd_why *why);
void epd_fs_world_close(struct epd_fs *fs);
/* Take in what has changed.  Every call from the kernel begins with it. */
void epd_fs_sync(struct epd_fs *fs);
/*
 * Whether what lies at the store's path is still what is looked at: verbs and
 * commands go by the path.  0, -ESTALE, -errno.
 */
int epd_fs_same_store(const struct epd_fs *fs);
/*
 * Another handle on the same store, to look only or to write.  -ESTALE: another one
 * lies at its path.  Under no lock.  Owns: the caller's.
 */
int epd_fs_another(const struct epd_fs *fs, int look, struct epd_store **out,
    struct epd_why *why);
/* A workflow as it is now; EPD_ENOTHING.  EPD_ECORRUPT, -errno: *out is it. */
int epd_fs_named(struct epd_fs *fs, const char *name,
    struct epd_fs_workflow **out, struct epd_why *why);
/* That in which at lies, and not one that has its name by now. */
int epd_fs_workflow(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_workflow **out, struct epd_why *why);
/* Its watch.  EPD_ENOSTATE: nothing was written to it yet. */
int epd_fs_watch(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_watch **out, struct epd_why *why);
/* It with all its log taken in. */
int epd_fs_followed(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_fs_workflow **out, struct epd_why *why);
/* A number that is another when at's workflow has changed; 0: nobody says when. */
uint64_t epd_fs_stamp(struct epd_fs *fs, const struct epd_fs_at *at);
/*
 * Take in what nobody says has changed as well.  1: some changes are not heard of,
 * and who waits for them must look again.
 */
int epd_fs_look_around(struct epd_fs *fs);
/* Why a state is there or as it is, as its log said; "". */
const char *epd_fs_reason(const struct epd_fs_workflow *w, uint32_t state);
/* All pages of the name, added up; the workflow has one that is in memory, if any is. */
int epd_fs_page(struct epd_fs *fs, const struct epd_name *name,
    struct epd_fs_page *out, struct epd_fs_workflow **in);
/* Names of all, ascending, each once.  Owns: the caller's. */
int epd_fs_page_names(struct epd_fs *fs, struct epd_name **out, size_t *n);
/*
 * Not under the lock, for a disk may take long; s is the caller's own (epd_fs_another).
 * How many pages lie in the tier, cpu or nvme; whether nvme has the run.
 */
int epd_fs_tier_pages(struct epd_fs *fs, struct epd_store *s,
    enum epd_tier tier, uint64_t *out);
int epd_fs_page_rests(struct epd_store *s, const char *workflow, uint64_t run);
/* There is something to be told.  Needs no lock. */
void epd_fs_wake(const struct epd_fs *fs);
/* A line for events, of a workflow too unless NULL. */
void epd_fs_say(struct epd_fs *fs, struct epd_fs_workflow *w,
    struct epd_span line);

#endif
