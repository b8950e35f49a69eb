/*
 * hands.h - what the mount does to the store: the commands' verbs.  What is quick is
 * done in process, on a handle of its own; what computes is a command that
 * runs as a job, so that the daemon never loads a model.
 *
 * None of these is called under fs->lock, but find and list of forks, and ready.
 * What a verb did is seen by the next epd_fs_sync as anybody's would be.
 */
#ifndef EPD_FS_HANDS_H
#define EPD_FS_HANDS_H

#include <sys/types.h>

#include "fs/world.h"

struct epd_fs_hands;

/* Not called for a mount that is read-only.  Owns: the caller owns *out. */
int epd_fs_hands_open(struct epd_fs_hands **out, struct epd_fs *fs,
    struct epd_why *why);
/* Ask jobs to end, and take none from now on. */
void epd_fs_hands_end(struct epd_fs_hands *h);
/*
 * Jobs that run are ended (SIGINT: what was drawn is kept) and waited for, 5 s
 * at most; reads that wait for them are answered, so the session is still there.
 * No talk is used after it.
 */
void epd_fs_hands_close(struct epd_fs_hands *h);

/*
 * forks/NAME: branches that were made here by mkdir, while the mount lasts.  Under
 * the lock.
 */
int epd_fs_find_fork(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out);
int epd_fs_list_forks(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg);

/*
 * mkdir in workflows (a new workflow) and in forks (a branch of that state, by a
 * name that would do for a workflow and is not like s3).
 * Fails: -EEXIST, -EINVAL (a name that cannot be), as the verbs; -EPERM
 * everywhere else.
 */
int epd_fs_mkdir(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name);
/*
 * rmdir of a state, by either of its names (released), or of a workflow to which
 * nothing was ever written.  Fails: -ENOENT, as the verbs; of a workflow
 * -ENOTEMPTY (it has states), -EPERM (it had: its log stays); of both -EBUSY
 * (somebody, or a job, is at it); -EPERM everywhere else.
 */
int epd_fs_rmdir(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name);

/*
 * An open say, ctl or tier, which outlives the state it was opened on.
 *
 * say: what is written until close is one user turn, 1 MiB at most (-EFBIG: then
 * none of it is said).  It reads as empty.
 * ctl: each line written is a verb, 64 KiB at most; its answer is there to be read
 * on the same descriptor, once, and answers come in order.  A verb that is refused
 * makes the write fail, and the answer is the sentence.
 * tier: as ctl, but a line is a tier: the state is to be there.
 */
struct epd_fs_talk;
int epd_fs_talk_open(struct epd_fs_talk **out, struct epd_fs *fs,
    const struct epd_fs_at *at);
/*
 * How many bytes were taken, or an error: none were.  Behind lines that were done
 * one that is refused is not taken, and refused when it is written again.
 * -EINPROGRESS, of a flush too: it might wait for a log's lock, and was not begun,
 * since it may not.
 */
ssize_t epd_fs_talk_write(struct epd_fs_talk *t, const char *p, size_t n,
    int may_wait);
/* It was opened by that thread, as /dev/fuse names it.  t may be NULL. */
void epd_fs_talk_opened(struct epd_fs_talk *t, pid_t who);
/*
 * The thread that closes a copy of the descriptor; 0: the last was closed.  If it is
 * of the process that opened it, or the last: a say with text begins its job, and what is written later is the
 * next turn; a line of ctl need not have ended.  A child that inherited it ends none.
 */
int epd_fs_talk_flush(struct epd_fs_talk *t, pid_t who, int may_wait);
/*
 * Answers not yet read, at most n bytes: handed to done, now or, if a `wait` is
 * under way, when that is over.  Nothing to answer: n is 0.  done may be called from
 * any thread, under no lock, and exactly once.  Before it waits it asks is_over,
 * under a lock: whether cancel was called already.  cancel ends it (-EINTR).
 */
typedef void epd_fs_answer_fn(void *arg, int rc, struct epd_span text);
void epd_fs_talk_read(struct epd_fs_talk *t, size_t n, epd_fs_answer_fn *done,
    int (*is_over)(void *arg), void *arg);
void epd_fs_talk_cancel(struct epd_fs_talk *t, void *arg);
/* 1: a read would be answered at once.  Takes no lock. */
int epd_fs_talk_ready(struct epd_fs_talk *t);
void epd_fs_talk_close(struct epd_fs_talk *t);

#endif
