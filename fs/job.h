/*
 * job.h - commands that are run for a state, in order and one at a time; over all
 * states two at once.  Each has a name, j1, j2, ..., for as long as the mount
 * lasts, and says in events when it is queued, begins and ends.
 */
#ifndef EPD_FS_JOB_H
#define EPD_FS_JOB_H

#include "fs/world.h"

enum epd_fs_job_status {
	EPD_FS_QUEUED, EPD_FS_RUNNING, EPD_FS_DONE, EPD_FS_FAILED,
	EPD_FS_CANCELLED
};
struct epd_fs_job {
	uint64_t number;
	struct epd_fs_at at;		/* the state */
	const char *verb;		/* what it was asked by */
	enum epd_fs_job_status status;
	int exit;			/* of the last command, when it failed */
	char result[EPD_REF_TEXT];	/* "w1/s1@4", or "" */
	char error[240];		/* of a failure a sentence, or "" */
	int told;			/* some wait was told its end */
};

/* What is to be run: epd-prefill if there is a text, then the command if any. */
struct epd_fs_task {
	const char *verb;		/* a constant */
	const struct epd_fs_at *at;
	struct epd_span text;		/* p NULL: none */
	const char *command;		/* a constant, or NULL */
	struct epd_span words;		/* its operands and options, each with its NUL */
};

struct epd_fs_jobs;
/* over is called behind the end of each job, under no lock.  Owns: the caller's. */
int epd_fs_jobs_open(struct epd_fs_jobs **out, struct epd_fs *fs,
    void (*over)(void *arg), void *arg, struct epd_why *why);
/* What is queued is cancelled, what runs is asked to end; none are taken any more. */
void epd_fs_jobs_end(struct epd_fs_jobs *j);
/* The same, and it is waited for, 5 s at most. */
void epd_fs_jobs_close(struct epd_fs_jobs *j);

/* -EAGAIN: too much waits already. */
int epd_fs_job_put(struct epd_fs_jobs *j, const struct epd_fs_task *t,
    uint64_t *number, struct epd_why *why);
/*
 * One that runs is asked to end, which takes it a moment; asked again, it is
 * killed.  -ENOENT, -ESRCH (it is over).
 */
int epd_fs_job_cancel(struct epd_fs_jobs *j, uint64_t number);
/* Of those that are over the last 1000 are remembered.  -ENOENT. */
int epd_fs_job_find(struct epd_fs_jobs *j, uint64_t number,
    struct epd_fs_job *out);
/* Its end has been told. */
void epd_fs_job_told(struct epd_fs_jobs *j, uint64_t number);
/* The state's first above `after`, which may be 0.  -ENOENT. */
int epd_fs_job_next(struct epd_fs_jobs *j, const struct epd_fs_at *at,
    uint64_t after, struct epd_fs_job *out);
static inline int
epd_fs_job_is_over(const struct epd_fs_job *job)
{
	return job->status > EPD_FS_RUNNING;
}
/* "j3 done w1/s1@4\n", "j3 failed 5: sentence\n"; with its verb behind the name. */
void epd_fs_job_line(const struct epd_fs_job *job, int verb,
    struct epd_buf *out);

#endif
