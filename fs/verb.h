/* verb.h - between the files of hands: who writes, and what a line of ctl does. */
#ifndef EPD_FS_VERB_H
#define EPD_FS_VERB_H

#include "fs/hands.h"
#include "fs/job.h"

struct epd_fs_fork;

struct epd_fs_hands {
	struct epd_fs *fs;
	pthread_mutex_t busy;		/* of store: one verb at a time */
	struct epd_store *store;	/* to write; opened by the first verb */
	struct epd_fs_fork *fork;	/* the newest first; under fs->lock */
	uint64_t forks;			/* that were made */
	pthread_mutex_t lock;		/* of talks and their answers */
	struct epd_fs_talk *talk;
	struct epd_fs_jobs *jobs;
};

/* The store to write to, and nobody else's until it is let go. */
int epd_fs_grasp(struct epd_fs_hands *h, struct epd_store **out,
    struct epd_why *why);
void epd_fs_let_go(struct epd_fs_hands *h);

/*
 * at is a state, and its salt here its workflow's, so that a talk never comes to
 * one that took the name of its own.  0 if the state is there, or EPD_ENOSTATE,
 * EPD_ENOTHING, as reading its workflow.  Not under the lock.
 */
int epd_fs_stands(struct epd_fs *fs, const struct epd_fs_at *at);

struct epd_fs_call {
	struct epd_fs *fs;
	const struct epd_fs_at *at;
	struct epd_buf answer;		/* lines */
	struct epd_buf wait;		/* uint64_t: jobs whose ends are the answer too */
	struct epd_why why;		/* of what was refused */
};
/* Do what a line says, which is taken apart.  -EINVAL (no such verb), and as the verbs. */
int epd_fs_verb(struct epd_fs_call *c, char *line);
/* A user's turn, said and answered: a job. */
int epd_fs_turn(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_span text, struct epd_why *why);

/* Some job is over: whoever waits for it is answered.  arg: the hands. */
void epd_fs_talks_over(void *arg);

#endif
