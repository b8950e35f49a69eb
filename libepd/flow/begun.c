/* begun.c - what was begun and came to nothing: temporaries, workflows without a record. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "flow/litter.h"
#include "flow/sweep.h"

enum {
	BEGINNING_MS = 60000,	/* from a workflow's folder to its log, */
	COMPUTING_MS = 3600000	/* and to its first record */
};

struct leavings {
	struct epd_swept *out;
	int dir;
	uint64_t grace_ms;	/* that younger ones have there */
};

static int
leftover(void *arg, const char *name)
{
	const struct leavings *g = arg;
	struct stat st;

	if (!epd_is_temp(name) ||
	    fstatat(g->dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	/* One linked into place has done its work, and may be written on. */
	if (st.st_nlink < 2 && g->grace_ms && (uint64_t)st.st_mtim.tv_sec *
	    1000 + g->grace_ms > epd_clock_wall_ms())
		return 0;
	if (unlinkat(g->dir, name, 0) == 0) {
		g->out->temporaries++;
		g->out->temporary_bytes += epd_bytes_back(&st);
	}
	return 0;
}

int
epd_sweep_leftovers(struct epd_sweep *g, int dirfd, uint64_t grace_ms)
{
	struct leavings l = { g->out, dirfd, grace_ms };

	return epd_dir_each(dirfd, leftover, &l);
}

struct waiting {
	struct epd_store *s;
	const char *name;		/* of the workflow waited for */
	int found;
};

/* Whether a workflow has something prepared for the one of that name. */
static int
waits_for(void *arg, const char *name)
{
	struct waiting *x = arg;
	struct epd_handoff h;
	struct epd_workflow w;
	uint64_t lsn = 0;
	int rc;

	if (x->found || !strcmp(name, x->name))
		return 0;
	/* One that cannot be read may have. */
	if ((rc = epd_workflow_open(&w, x->s, name, 1, NULL)) < 0) {
		x->found = rc != EPD_ENOTHING;
		return 0;
	}
	for (; epd_shard_handoff_next(w.shard, lsn, &h) == 0; lsn = h.lsn)
		x->found |= !h.target && !*h.store &&
		    !strcmp(h.workflow, x->name);
	epd_workflow_close(&w);
	return 0;
}

static int
is_waited_for(struct epd_store *s, const char *name)
{
	struct waiting x = { .s = s, .name = name };

	return epd_workflow_each(s, waits_for, &x) < 0 || x.found;
}

int
epd_sweep_bury(struct epd_sweep *g, const char *name)
{
	struct epd_workflow w;
	struct stat st;
	uint64_t now = epd_clock_wall_ms(), grace;
	int rc, gone, empty;

	if (fstatat(g->s->workflows, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	rc = epd_workflow_open(&w, g->s, name, 1, NULL);
	empty = rc == EPD_ENOTHING || (rc == 0 && epd_shard_lsn(w.shard) == 0);
	grace = rc == 0 ? COMPUTING_MS : BEGINNING_MS;
	if (rc == 0)
		epd_workflow_close(&w);
	if (!empty || (uint64_t)st.st_mtim.tv_sec * 1000 + grace > now ||
	    is_waited_for(g->s, name))
		return 0;
	w = (struct epd_workflow){ .runs = -1 };
	snprintf(w.name, sizeof w.name, "%s", name);
	w.dirfd = epd_file_open(g->s->workflows, name, O_RDONLY | O_DIRECTORY,
	    0);
	gone = epd_workflow_unmake(g->s, &w);
	epd_workflow_close(&w);
	g->out->temporaries += (uint64_t)gone;
	return gone;
}

int
epd_sweep_log_leftovers(struct epd_sweep *g, int dirfd)
{
	int lock = epd_file_open(dirfd, "lock", O_RDWR | O_NONBLOCK, 0), rc = 0;

	if (lock < 0)
		return 0;
	if (epd_lock_try(lock) == 0)
		rc = epd_sweep_leftovers(g, dirfd, 0);
	close(lock);
	return rc;
}

int
epd_sweep_begun(struct epd_sweep *g, const char *name)
{
	int fd = epd_file_open(g->s->workflows, name, O_RDONLY | O_DIRECTORY,
	    0), rc;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	rc = epd_sweep_log_leftovers(g, fd);
	close(fd);
	return rc;
}
