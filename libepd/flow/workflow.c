/* workflow.c - workflows by name, and refs as people write them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "flow/store.h"

enum { LEFT_MS = 2000 };	/* from a writer's append to its flush at most */

int
epd_workflow_name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= EPD_WORKFLOW || name[0] == '.' || name[0] == '-')
		return 0;
	/* Letters whatever the locale. */
	return strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

/* Digits alone, no sign, no leading zero, at most a u32. */
static int
number(const char **p, uint32_t *out)
{
	uint64_t v = 0;
	const char *s = *p;

	if (*s < '1' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++)
		if ((v = v * 10 + (uint64_t)(*s - '0')) > UINT32_MAX)
			return -EINVAL;
	*p = s;
	*out = (uint32_t)v;
	return 0;
}

struct candidates {
	struct epd_name first;
	struct epd_buf text;
	int n;
};

static int
candidate(void *arg, const struct epd_name *fp)
{
	struct candidates *c = arg;
	char hex[2 * EPD_NAME + 1];

	epd_hex_format(hex, fp->b, EPD_NAME);
	if (c->n++ == 0)
		c->first = *fp;
	if (c->n <= 4)
		epd_buf_fmt(&c->text, " f:%.16s", hex);
	return 0;
}

static int
feature(struct epd_ref *r, struct epd_store *s, const char *text,
    struct epd_why *why)
{
	const char *hex = text + 2;
	size_t n = strlen(hex);
	struct candidates c = {0};
	int rc = 0;

	if (n < 4 || n > 2 * EPD_NAME || strspn(hex, "0123456789abcdef") != n)
		return epd_why(why, EPD_EUSAGE, "%.80s: a feature is f: and 4 "
		    "to 64 lower-case hexadecimal digits", text);
	if (n == 2 * EPD_NAME)
		return epd_hex_parse(r->feature.b, EPD_NAME, hex);
	rc = epd_feature_each(s->features, hex, candidate, &c);
	if (rc == 0 && c.n == 0)
		rc = epd_why(why, EPD_ENOTHING, "%s: no such feature", text);
	else if (rc == 0 && c.n > 1)
		rc = epd_why(why, EPD_EAMBIGUOUS, "%s: could be%s%s", text,
		    epd_buf_cstr(&c.text), c.n > 4 ? " ..." : "");
	else if (rc == 0)
		r->feature = c.first;
	epd_buf_free(&c.text);
	return rc;
}

int
epd_ref_parse(struct epd_ref *out, struct epd_store *s, const char *text,
    struct epd_why *why)
{
	struct epd_ref r = {0};
	const char *p = strchr(text, '/');
	size_t n = p ? (size_t)(p - text) : strlen(text);
	int rc;

	if (!strncmp(text, "f:", 2)) {
		r.kind = EPD_REF_FEATURE;
		if ((rc = feature(&r, s, text, why)) < 0)
			return rc;
		*out = r;
		return 0;
	}
	if (n < sizeof r.workflow) {
		memcpy(r.workflow, text, n);
		r.kind = EPD_REF_WORKFLOW;
		if (p) {
			r.kind = EPD_REF_STATE;
			p++;
			if (*p++ != 's' || number(&p, &r.state) < 0 ||
			    (*p == '@' && (p++, number(&p, &r.version) < 0)) ||
			    *p)
				n = 0;
		}
		if (n && epd_workflow_name_ok(r.workflow)) {
			*out = r;
			return 0;
		}
	}
	return epd_why(why, EPD_EUSAGE, "%.80s: not a state (w1/s3, w1/s3@2), "
	    "workflow (w1) or feature (f:HEX)", text);
}

const char *
epd_ref_format(char out[EPD_REF_TEXT], const char *workflow, uint32_t state,
    uint32_t version)
{
	if (version)
		snprintf(out, EPD_REF_TEXT, "%s/s%u@%u", workflow, state,
		    version);
	else
		snprintf(out, EPD_REF_TEXT, "%s/s%u", workflow, state);
	return out;
}

static int
highest(void *arg, const char *name)
{
	uint32_t *most = arg, v;
	const char *p = name + 1;

	if (name[0] == 'w' && number(&p, &v) == 0 && !*p && v > *most)
		*most = v;
	return 0;
}

int
epd_workflow_make(struct epd_store *s, const char *name,
    char out[EPD_WORKFLOW], struct epd_why *why)
{
	char made[EPD_WORKFLOW];
	uint32_t n = 0;
	int rc;

	if (*name && !epd_workflow_name_ok(name))
		return epd_why(why, EPD_EUSAGE, "%.80s: a workflow's name is 1 "
		    "to 63 letters, digits, '.', '_', '-', and begins with "
		    "neither '.' nor '-'", name);
	if (!*name && (rc = epd_dir_each(s->workflows, highest, &n)) < 0)
		return epd_why(why, rc, "%s/w: %s", s->path, epd_strerror(rc));
	do {
		if (*name)
			snprintf(made, sizeof made, "%s", name);
		else
			snprintf(made, sizeof made, "w%u", ++n);
		rc = mkdirat(s->workflows, made, 0700) < 0 ? -errno : 0;
	} while (rc == -EEXIST && !*name);
	if (rc < 0 && rc != -EEXIST)
		return epd_why(why, rc, "%s/w/%s: %s", s->path, made,
		    epd_strerror(rc));
	/* One that was there may be of a maker that died before this. */
	if (s->config.state_sync && (rc = epd_dir_sync(s->workflows)) < 0)
		return epd_why(why, rc, "%s/w: %s", s->path, epd_strerror(rc));
	memcpy(out, made, sizeof made);
	return 0;
}

/* A writer comes and goes: what a crash left in the log it settles. */
static int
settle(const struct epd_workflow *w, const struct epd_shard_options *how,
    uint64_t lock_timeout_ms, struct epd_why *why)
{
	struct epd_shard_options o = *how;
	struct epd_shard *writer;
	int rc;

	o.read_only = 0;
	o.lock_timeout_ms = lock_timeout_ms;
	if ((rc = epd_shard_open(&writer, w->dirfd, &o, why)) == 0)
		epd_shard_close(writer);
	return rc;
}

struct newest {
	int dirfd;
	uint64_t wall_ms;		/* when a segment was last written to */
	int unsure;			/* a flush failed */
};

static int
newest(void *arg, const char *name)
{
	struct newest *x = arg;
	struct stat st;
	uint64_t ms;

	x->unsure |= !strcmp(name, "unsure");
	if (strncmp(name, "log.", 4) ||
	    fstatat(x->dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	ms = (uint64_t)st.st_mtim.tv_sec * 1000 +
	    (uint64_t)st.st_mtim.tv_nsec / 1000000;
	if (ms > x->wall_ms)
		x->wall_ms = ms;
	return 0;
}

/* Whether another process has the store open to write to it (see base/lock.h). */
static int
is_anyone_there(const struct epd_store *s)
{
	const off_t self = getpid();
	int fd = epd_file_open(s->dirfd, "procs", O_RDONLY, 0), is;

	if (fd < 0)
		return fd != -ENOENT;
	is = epd_lock_is_held(fd, 0, self) ||
	    epd_lock_is_held(fd, self + 1, 0);
	close(fd);
	return is;
}

/*
 * Whether more is in the log than is published because its writer failed or
 * died.  One that is about to flush needs no reader to do that, nor may he wait
 * for it; it lives, and appended a moment ago.
 */
static int
is_left(const struct epd_workflow *w, const struct epd_store *s)
{
	struct newest x = { .dirfd = w->dirfd };
	const uint64_t now = epd_clock_wall_ms();

	return epd_shard_unsettled(w->shard) &&
	    epd_dir_each(w->dirfd, newest, &x) == 0 &&
	    (x.unsure || x.wall_ms + LEFT_MS <= now ||
	    x.wall_ms > now + LEFT_MS || !is_anyone_there(s));
}

/*
 * A damaged tip keeps readers out until a writer comes, who finds in the log
 * what it said; of other damage a writer changes nothing.  Where what a crash
 * left cannot be settled, what is published must do.
 */
static int
open_shard(struct epd_workflow *w, const struct epd_store *s,
    const struct epd_shard_options *o, struct epd_why *why)
{
	int rc = epd_shard_open(&w->shard, w->dirfd, o, why), busy;
	struct epd_why held = {{0}};

	if (!o->read_only || s->read_only)
		return rc;
	if (rc == EPD_ECORRUPT) {
		busy = settle(w, o, o->lock_timeout_ms, &held);
		/* Who has the lock may be mending it, or removed it all. */
		if (busy == EPD_ELOCKED || busy == EPD_ESTALE)
			return epd_why(why, busy, "%s", held.text);
		if (busy < 0)
			return rc;
		epd_log(&s->log, "op=mend workflow=%s why=\"%s\"", w->name,
		    why ? why->text : "");
		if (why)
			*why->text = '\0';
		return epd_shard_open(&w->shard, w->dirfd, o, why);
	}
	if (rc == 0 && is_left(w, s) && settle(w, o, 0, NULL) == 0)
		rc = epd_shard_catch_up(w->shard, why);
	return rc;
}

/* No folder there, or something else in its place. */
static int
is_absent(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -ELOOP;
}

/* How often somebody's lock was waited for in vain; of one workflow it is kept. */
static void
waited(struct epd_store *s, const char *name, unsigned vain)
{
	if (vain || !strcmp(s->vain.workflow, name)) {
		snprintf(s->vain.workflow, sizeof s->vain.workflow, "%s", name);
		s->vain.n = vain;
	}
}

int
epd_workflow_open(struct epd_workflow *out, struct epd_store *s,
    const char *name, int read_only, struct epd_why *why)
{
	struct epd_shard_options o = {
		.metrics = s->metrics,
		.log = &s->log,
		.procs = s->procs,
		.lock_timeout_ms = (uint64_t)s->config.lock_timeout_ms,
		.vain = strcmp(s->vain.workflow, name) ? 0 : s->vain.n,
		.checkpoint_bytes = (uint64_t)s->config.checkpoint_bytes,
		.log_keep = s->config.log_keep,
		.sync = s->config.state_sync,
		.read_only = read_only,
		.owner = s->node,
	};
	struct epd_workflow w = { .runs = -1 };
	int rc;

	if (!epd_workflow_name_ok(name))
		return epd_why(why, EPD_EUSAGE, "%.80s: not a workflow's name",
		    name);
	snprintf(w.name, sizeof w.name, "%s", name);
	w.dirfd = epd_file_open(s->workflows, name, O_RDONLY | O_DIRECTORY, 0);
	if (w.dirfd < 0) {
		rc = w.dirfd == -ENOENT ? EPD_ENOTHING : w.dirfd;
		return epd_why(why, rc, "%s: %s", name, rc == EPD_ENOTHING ?
		    "no such workflow" : epd_strerror(rc));
	}
	if ((rc = open_shard(&w, s, &o, why)) < 0) {
		if (rc == EPD_ELOCKED)
			waited(s, name, o.vain + (o.vain < UINT_MAX));
		/* A workflow whose maker died before its first record. */
		if (rc == -ENOENT)
			rc = epd_why(why, EPD_ENOTHING, "%s: empty workflow",
			    name);
		else if (why)
			epd_why(why, rc, "%s: %s", name, *why->text ?
			    why->text : epd_strerror(rc));
		goto fail;
	}
	w.runs = read_only ? epd_memory_find(s->memory, name) :
	    epd_memory_dir(s->memory, name);
	if (read_only && is_absent(w.runs)) {
		w.runs = -1;
	} else if (w.runs < 0) {
		rc = epd_why(why, w.runs, "memory tier: %s",
		    epd_strerror(w.runs));
		goto fail;
	}
	w.store = read_only ? NULL : s;
	*out = w;
	return 0;
fail:
	epd_workflow_close(&w);
	return rc;
}

void
epd_workflow_close(struct epd_workflow *w)
{
	if (w->store && w->shard)
		waited(w->store, w->name, epd_shard_vain(w->shard));
	epd_shard_close(w->shard);
	if (w->runs >= 0)
		close(w->runs);
	if (w->dirfd >= 0)
		close(w->dirfd);
	*w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
}

struct unmaking {
	struct epd_store *s;
	const char *name;
};

static void
unmake_memory(void *arg)
{
	const struct unmaking *u = arg;

	(void)epd_memory_remove(u->s->memory, u->name);
}

int
epd_workflow_unmake(struct epd_store *s, const struct epd_workflow *w)
{
	struct unmaking u = { s, w->name };

	/* One begun anew in it meanwhile keeps the folder. */
	return w->dirfd >= 0 &&
	    epd_shard_unmake(w->dirfd, unmake_memory, &u, NULL) == 0 &&
	    unlinkat(s->workflows, w->name, AT_REMOVEDIR) == 0;
}

struct names {
	int dirfd;
	char (*v)[EPD_WORKFLOW];
	size_t n, cap;
};

static int
collect(void *arg, const char *name)
{
	struct names *l = arg;
	struct stat st;
	void *v;

	/* What is no folder is no workflow: check tells of it. */
	if (!epd_workflow_name_ok(name) || (fstatat(l->dirfd, name, &st,
	    AT_SYMLINK_NOFOLLOW) == 0 && !S_ISDIR(st.st_mode)))
		return 0;
	if (!(v = epd_grow(l->v, l->n, &l->cap, sizeof *l->v)))
		return -ENOMEM;
	l->v = v;
	snprintf(l->v[l->n++], EPD_WORKFLOW, "%s", name);
	return 0;
}

static int
natural(const void *a, const void *b)
{
	return strverscmp(a, b);
}

int
epd_workflow_each(struct epd_store *s,
    int (*fn)(void *arg, const char *name), void *arg)
{
	struct names l = { .dirfd = s->workflows };
	int rc = epd_dir_each(s->workflows, collect, &l);

	if (rc == 0 && l.n)
		qsort(l.v, l.n, sizeof *l.v, natural);
	for (size_t i = 0; rc == 0 && i < l.n; i++)
		rc = fn(arg, l.v[i]);
	epd_free(l.v);
	return rc;
}

int
epd_workflow_serves(const struct epd_workflow *w, const struct epd_store *s,
    uint32_t state)
{
	struct epd_state st;

	return epd_shard_state(w->shard, state, &st) < 0 ||
	    !strcmp(st.tenant, s->tenant);
}
