/*
 * hands.c - what is done in process: the handle that writes, workflows and
 * branches made by mkdir, states released by rmdir.
 *
 * Locks, in the order they are taken: a talk's own, `lock` (talk.c), the jobs'
 * (job.c), fs->lock.  So fs->lock is the last, held for a look or a line of
 * events and no more; none but a talk's own is held while a log is written or its
 * lock waited for, and none while a job is, or a reply given.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "fs/dir.h"
#include "fs/verb.h"

/* A branch that has a name. */
struct epd_fs_fork {
	struct epd_fs_fork *next;
	char name[EPD_WORKFLOW];
	struct epd_fs_at dir;		/* the parent's forks */
	uint32_t child;
};

int
epd_fs_hands_open(struct epd_fs_hands **out, struct epd_fs *fs,
    struct epd_why *why)
{
	struct epd_fs_hands *h = epd_calloc(1, sizeof *h);
	int rc;

	if (!h)
		return epd_why(why, -ENOMEM, "no memory");
	h->fs = fs;
	pthread_mutex_init(&h->lock, NULL);
	rc = epd_fs_jobs_open(&h->jobs, fs, epd_fs_talks_over, h, why);
	if (rc < 0)
		epd_fs_hands_close(h);
	else
		*out = h;
	return rc;
}

void
epd_fs_hands_end(struct epd_fs_hands *h)
{
	if (h)
		epd_fs_jobs_end(h->jobs);
}

void
epd_fs_hands_close(struct epd_fs_hands *h)
{
	struct epd_fs_grip *g;
	struct epd_fs_fork *f;

	if (!h)
		return;
	epd_fs_jobs_close(h->jobs);
	while (h->talk)
		epd_fs_talk_close(h->talk);
	while ((f = h->fork)) {
		h->fork = f->next;
		epd_free(f);
	}
	while ((g = h->grip)) {
		h->grip = g->next;
		epd_store_close(g->store);
		epd_free(g);
	}
	pthread_mutex_destroy(&h->lock);
	epd_free(h);
}

static int
new_grip(struct epd_fs_grip **out, const struct epd_fs *fs,
    struct epd_why *why)
{
	struct epd_fs_grip *g = epd_calloc(1, sizeof *g);
	int rc;

	if (!g)
		return epd_why(why, -ENOMEM, "no memory");
	if ((rc = epd_fs_another(fs, 0, &g->store, why)) < 0)
		epd_free(g);
	else
		*out = g;
	return rc;
}

int
epd_fs_grasp(struct epd_fs_hands *h, struct epd_fs_grip **out,
    struct epd_why *why)
{
	int rc = epd_fs_same_store(h->fs);

	if (rc < 0)
		return epd_why(why, rc, "%s: another store, or none, is there "
		    "by now", h->fs->o.store.path);
	pthread_mutex_lock(&h->lock);
	if ((*out = h->grip))
		h->grip = h->grip->next;
	pthread_mutex_unlock(&h->lock);
	return *out ? 0 : new_grip(out, h->fs, why);
}

void
epd_fs_let_go(struct epd_fs_hands *h, struct epd_fs_grip *g)
{
	pthread_mutex_lock(&h->lock);
	g->next = h->grip;
	h->grip = g;
	pthread_mutex_unlock(&h->lock);
}

/* Under fs->lock. */
static int
stands(struct epd_fs *fs, const struct epd_fs_at *at, uint32_t state)
{
	struct epd_watch *w;
	struct epd_state st;
	int rc = epd_fs_watch(fs, at, &w, NULL);

	return rc < 0 ? rc : epd_shard_state(epd_watch_shard(w), state, &st);
}

int
epd_fs_stands(struct epd_fs *fs, const struct epd_fs_at *at)
{
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = stands(fs, at, at->state);
	pthread_mutex_unlock(&fs->lock);
	return rc;
}

int
epd_fs_is_idle(struct epd_fs *fs, const struct epd_fs_at *at,
    struct epd_why *why)
{
	struct epd_fs_job job = {0};

	while (epd_fs_job_next(fs->hands->jobs, at, job.number, &job) == 0)
		if (!epd_fs_job_is_over(&job))
			return epd_why(why, -EBUSY, "j%llu is not over: wait "
			    "for it or cancel it",
			    (unsigned long long)job.number);
	return 0;
}

/* ---- names of branches ---- */

/* The next of dir's from f on that is still there. */
static struct epd_fs_fork *
live(struct epd_fs *fs, const struct epd_fs_at *dir, struct epd_fs_fork *f)
{
	while (f && (f->dir.state != dir->state || f->dir.life != dir->life ||
	    strcmp(f->dir.workflow, dir->workflow) ||
	    stands(fs, &f->dir, f->child) < 0))
		f = f->next;
	return f;
}

static struct epd_fs_at
fork_at(const struct epd_fs_at *dir, const struct epd_fs_fork *f)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_STATE);

	at.state = f->child;
	at.depth += 2;
	return at;
}

int
epd_fs_find_fork(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out)
{
	struct epd_fs_fork *f = fs->hands ? fs->hands->fork : NULL;

	while ((f = live(fs, dir, f)) && strcmp(f->name, name))
		f = f->next;
	if (!f)
		return -ENOENT;
	*out = fork_at(dir, f);
	return 0;
}

int
epd_fs_list_forks(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_fork *f = fs->hands ? fs->hands->fork : NULL;
	int rc = 0;

	for (; rc == 0 && (f = live(fs, dir, f)); f = f->next) {
		struct epd_fs_at at = fork_at(dir, f);

		rc = fn(arg, f->name, &at);
	}
	return rc;
}

/* f is known from now on; now and then those that are gone make room. */
static void
remember(struct epd_fs_hands *h, struct epd_fs_fork *f)
{
	struct epd_fs_fork **at = &h->fork, *old;
	int rc, sweep;

	pthread_mutex_lock(&h->fs->lock);
	epd_fs_sync(h->fs);
	sweep = !(h->forks & (h->forks + 1));
	h->forks++;
	while (sweep && (old = *at)) {
		rc = stands(h->fs, &old->dir, old->child);
		if (rc != EPD_ENOSTATE && rc != EPD_ENOTHING) {
			at = &old->next;
			continue;
		}
		*at = old->next;
		epd_free(old);
	}
	f->next = h->fork;
	h->fork = f;
	pthread_mutex_unlock(&h->fs->lock);
}

/* ---- mkdir ---- */

/* 0 if name is not yet there, and dir is. */
static int
is_free(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name)
{
	struct epd_fs_at at;
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = dir->state ? stands(fs, dir, dir->state) : 0;
	if (rc == 0 && epd_fs_find(fs, dir, name, &at) == 0)
		rc = -EEXIST;
	pthread_mutex_unlock(&fs->lock);
	return rc;
}

static int
make_branch(struct epd_fs_hands *h, struct epd_store *s,
    const struct epd_fs_at *dir, const char *name)
{
	struct epd_fs_fork *f = epd_calloc(1, sizeof *f);
	struct epd_fork_request ask = {
		.from = { .kind = EPD_REF_STATE, .state = dir->state },
		.branches = 1, .reason = "agent_branch",
	};
	struct epd_forked d;
	int rc;

	if (!f)
		return -ENOMEM;
	strcpy(ask.from.workflow, dir->workflow);
	if ((rc = epd_flow_fork(s, &ask, &d, NULL)) < 0) {
		epd_free(f);
		return rc;
	}
	f->dir = *dir;
	snprintf(f->name, sizeof f->name, "%s", name);
	f->child = d.first;
	remember(h, f);
	return 0;
}

int
epd_fs_mkdir(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name)
{
	const int forks = dir->kind == EPD_FS_FORKS;
	char made[EPD_WORKFLOW];
	struct epd_fs_grip *g;
	uint32_t n;
	int rc;

	if (!forks && dir->kind != EPD_FS_WORKFLOWS)
		return -EPERM;
	if (!epd_workflow_name_ok(name) ||
	    (forks && epd_fs_number(name, "s", &n) == 0))
		return -EINVAL;
	if ((rc = is_free(fs, dir, name)) < 0 ||
	    (rc = epd_fs_grasp(fs->hands, &g, NULL)) < 0)
		return rc;
	rc = forks ? make_branch(fs->hands, g->store, dir, name) :
	    epd_workflow_make(g->store, name, made, NULL);
	epd_fs_let_go(fs->hands, g);
	return rc;
}

/* ---- rmdir ---- */

/* What of a workflow is there: -ENOTEMPTY, -EPERM, or 0. */
static int
has_nothing(struct epd_fs *fs, const struct epd_fs_at *at)
{
	struct epd_watch *w;
	struct epd_state st;
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = epd_fs_watch(fs, at, &w, NULL);
	if (rc == 0)
		rc = epd_shard_next(epd_watch_shard(w), 0, &st) == 0 ?
		    -ENOTEMPTY : epd_shard_lsn(epd_watch_shard(w)) ?
		    -EPERM : 0;
	else if (rc == EPD_ENOSTATE)
		rc = 0;
	pthread_mutex_unlock(&fs->lock);
	return rc;
}

static int
unmake(struct epd_fs *fs, struct epd_store *s, const struct epd_fs_at *at)
{
	struct epd_workflow w = { .runs = -1 };
	int rc = has_nothing(fs, at);

	if (rc < 0)
		return rc;
	strcpy(w.name, at->workflow);
	w.dirfd = epd_file_open(s->workflows, w.name, O_RDONLY | O_DIRECTORY,
	    0);
	if (w.dirfd < 0)
		return w.dirfd;
	rc = epd_workflow_unmake(s, &w) ? 0 : -EBUSY;
	epd_workflow_close(&w);
	return rc;
}

static int
release(struct epd_fs *fs, struct epd_store *s, const struct epd_fs_at *at)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE, .state = at->state };
	int rc = epd_fs_is_idle(fs, at, NULL);

	strcpy(ref.workflow, at->workflow);
	return rc < 0 ? rc : epd_flow_release(s, &ref, "by rmdir", NULL);
}

int
epd_fs_rmdir(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name)
{
	struct epd_fs_grip *g;
	struct epd_fs_at at;
	int rc;

	pthread_mutex_lock(&fs->lock);
	epd_fs_sync(fs);
	rc = epd_fs_find(fs, dir, name, &at);
	pthread_mutex_unlock(&fs->lock);
	if (rc < 0)
		return rc;
	if (at.kind != EPD_FS_STATE && at.kind != EPD_FS_WORKFLOW)
		return -EPERM;
	if ((rc = epd_fs_grasp(fs->hands, &g, NULL)) < 0)
		return rc;
	rc = at.kind == EPD_FS_STATE ? release(fs, g->store, &at) :
	    unmake(fs, g->store, &at);
	epd_fs_let_go(fs->hands, g);
	return rc;
}
