/* verb.h - between the files of hands: who writes, and what a line of ctl does. */
#ifndef EPD_FS_VERB_H
#define EPD_FS_VERB_H

#include "fs/hands.h"
#include "fs/job.h"

struct epd_fs_fork;
struct epd_fs_grip;

struct epd_fs_hands {
	struct epd_fs *fs;
	struct epd_fs_fork *fork;	/* the newest first; under fs->lock */
	uint64_t forks;			/* that were made; under it too */
	pthread_mutex_t lock;		/* of talks, their answers, and grips */
	struct epd_fs_grip *grip;	/* that nobody has */
	struct epd_fs_talk *talk;
	struct epd_fs_jobs *jobs;
};

/* A handle on the store to write with, and nobody else's until it is let go. */
struct epd_fs_grip {
	struct epd_fs_grip *next;
	struct epd_store *store;
};
/* -ESTALE: another store lies at its path. */
int epd_fs_grasp(struct epd_fs_hands *h, struct epd_fs_grip **out,
    struct epd_why *why);
void epd_fs_let_go(struct epd_fs_hands *h, struct epd_fs_grip *g);

/*
 * 0 if the state at lies in is there, or EPD_ENOSTATE, EPD_ENOTHING, as reading its
 * workflow.  Not under the lock.
 */
int epd_fs_stands(struct epd_fs *fs, const struct epd_fs_at *at);
/* -EBUSY: a job of the state is not over.  Not under the lock. */
int epd_fs_is_idle(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_why *why);

struct epd_fs_call {
	struct epd_fs *fs;
	const struct epd_fs_at *at;
	struct epd_buf answer;		/* lines */
	struct epd_buf wait;		/* uint64_t: jobs whose ends are the answer too */
	struct epd_why why;		/* of what was refused */
};
/* Do what a line says, which is taken apart.  -EINVAL (no such verb), and as the verbs. */
int epd_fs_verb(struct epd_fs_call *c, char *line);
/* The same of a line of `tier`: offload to there, or restore. */
int epd_fs_rest(struct epd_fs_call *c, char *line);
/* Whether a line of n bytes is one that may wait for a log's lock. */
int epd_fs_verb_locks(const char *line, size_t n);
/* A user's turn, said and answered: a job. */
int epd_fs_turn(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_span text, struct epd_why *why);

/* Some job is over: whoever waits for it is answered.  arg: the hands. */
void epd_fs_talks_over(void *arg);

#endif
