/*
 * telling.c - what a node tells the directory.
 *
 * 1. A workflow is looked at again when its log has gone on.  What was told of it then
 *    and is there no more is taken back.
 * 2. All of it are hints: that one is late or missing costs a look elsewhere.
 * 3. A workflow whose log is another node's is left alone until the directory says
 *    that it is ours: then the log is told first, under the directory's term.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "serve/telling.h"

#define MS UINT64_C(1000000)
enum { TICK_MS = 100, REST_MS = 1000, CLAIM_MS = 1000, WAIT_MS = 500 };

struct key {
	enum epd_hint_kind kind;
	char text[EPD_HINT_KEY];
};

struct keys {
	struct key *v;
	size_t n, cap;
};

struct subject {				/* a workflow that is told of */
	char name[EPD_WORKFLOW];
	struct epd_workflow w;		/* to look at */
	uint8_t uuid[16];
	uint64_t lsn;			/* that was told */
	uint64_t claim_ns;		/* when it is to be claimed again */
	int ours, seen;
	struct keys told;		/* in order, each once */
};

struct epd_telling {
	struct epd_telling_options o;
	struct epd_store *s;
	struct epd_dir *d;
	struct subject *subject;
	size_t n, cap;
	pthread_t thread;
	pthread_mutex_t lock;		/* of stop */
	pthread_cond_t wake;
	int stop;
};

static uint64_t
soon(void)
{
	return epd_clock_boot_ns() + WAIT_MS * MS;
}

/* ---- hints ---- */

static int
by_key(const void *a, const void *b)
{
	const struct key *x = a, *y = b;

	return x->kind != y->kind ? x->kind < y->kind ? -1 : 1 :
	    strcmp(x->text, y->text);
}

static int
note(struct keys *k, enum epd_hint_kind kind, const char *text)
{
	void *p = epd_grow(k->v, k->n, &k->cap, sizeof *k->v);

	if (!p)
		return -ENOMEM;
	k->v = p;
	k->v[k->n] = (struct key){ .kind = kind };
	snprintf(k->v[k->n++].text, EPD_HINT_KEY, "%s", text);
	return 0;
}

static void
sort(struct keys *k)
{
	size_t n = 0;

	if (k->n)
		qsort(k->v, k->n, sizeof *k->v, by_key);
	for (size_t i = 0; i < k->n; i++)
		if (!n || by_key(k->v + n - 1, k->v + i))
			k->v[n++] = k->v[i];
	k->n = n;
}

struct telling {
	struct epd_telling *t;
	struct keys now;
};

static int
tell_hint(void *arg, const struct epd_hint *h)
{
	struct telling *x = arg;
	int rc = note(&x->now, h->kind, h->key);

	return rc < 0 ? rc : epd_dir_put(x->t->d, h, soon(), NULL);
}

/* Workflows may share pages and features: what another still has stays told. */
static void
take_back(struct epd_telling *t, const struct subject *f, const struct key *k)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct keys *o = &t->subject[i].told;

		if (t->subject + i != f && o->n &&
		    bsearch(k, o->v, o->n, sizeof *o->v, by_key))
			return;
	}
	(void)epd_dir_remove(t->d, k->kind, k->text, soon(), NULL);
}

static void
tell(struct epd_telling *t, struct subject *f)
{
	struct telling x = { .t = t };
	int rc = epd_shard_catch_up(f->w.shard, NULL);
	const uint64_t lsn = rc < 0 ? 0 : epd_shard_lsn(f->w.shard);

	if (rc < 0 || lsn == f->lsn)
		return;
	rc = epd_flow_hints(t->s, &f->w, tell_hint, &x);
	sort(&x.now);
	for (size_t i = 0, at = 0, n = x.now.n; i < f->told.n; i++) {
		const struct key *k = f->told.v + i;

		while (at < n && by_key(x.now.v + at, k) < 0)
			at++;
		if (at < n && !by_key(x.now.v + at, k))
			continue;
		/* Of one that was not told to its end it is not known. */
		if (rc == 0)
			take_back(t, f, k);
		else
			(void)note(&x.now, k->kind, k->text);
	}
	if (rc < 0)
		sort(&x.now);
	epd_free(f->told.v);
	f->told = x.now;
	/* What could not be told is told at the next look. */
	if (rc == 0)
		f->lsn = lsn;
}

/* ---- owning ---- */

static int
take_over(struct epd_telling *t, struct subject *f, uint64_t term)
{
	struct epd_why why = { "" };
	struct epd_workflow w;
	int rc = epd_workflow_open(&w, t->s, f->name, 0, &why);

	if (rc < 0)
		return rc;
	rc = epd_shard_own(w.shard, t->s->node, term, &why);
	epd_workflow_close(&w);
	epd_log(&t->s->log, "op=own workflow=%s term=%llu rc=%d", f->name,
	    (unsigned long long)term, rc);
	return rc;
}

static void
claim(struct epd_telling *t, struct subject *f)
{
	struct epd_why why = { "" };
	uint64_t term = epd_shard_term(f->w.shard), given = 0;
	const int named = !strcmp(epd_shard_owner(f->w.shard), t->s->node);
	int rc;

	/* An empty one may be removed again by who makes it, unless it has a record. */
	if (epd_clock_boot_ns() < f->claim_ns || !epd_shard_lsn(f->w.shard))
		return;
	f->claim_ns = epd_clock_boot_ns() + CLAIM_MS * MS;
	rc = epd_dir_claim(t->d, f->uuid, named ? term : term + 1, &given,
	    soon(), &why);
	if (rc == 0 && (!named || given > term))
		rc = take_over(t, f, given);
	if (f->ours && rc == EPD_ELOCKED && t->o.say) {
		char text[300];

		snprintf(text, sizeof text, "%s: %.200s", f->name, why.text);
		t->o.say(t->o.arg, text);
	}
	f->ours = rc == 0;
}

/* ---- workflows ---- */

static void
forget(struct epd_telling *t, struct subject *f)
{
	for (size_t i = 0; i < f->told.n; i++)
		take_back(t, f, f->told.v + i);
	if (f->ours)
		(void)epd_dir_disclaim(t->d, f->uuid, soon(), NULL);
	epd_workflow_close(&f->w);
	epd_free(f->told.v);
	f->told = (struct keys){ NULL, 0, 0 };
}

/* One that was removed and begun anew has the name alone. */
static int
is_same(const struct epd_telling *t, const struct subject *f)
{
	struct stat was, is;

	return fstat(f->w.dirfd, &was) == 0 && fstatat(t->s->workflows,
	    f->name, &is, AT_SYMLINK_NOFOLLOW) == 0 &&
	    was.st_ino == is.st_ino && was.st_dev == is.st_dev;
}

static int
look(void *arg, const char *name)
{
	struct epd_telling *t = arg;
	struct subject *f = NULL;
	struct epd_workflow w;
	void *p;

	for (size_t i = 0; i < t->n && !f; i++)
		if (!strcmp(t->subject[i].name, name))
			f = t->subject + i;
	if (f) {
		f->seen = is_same(t, f);
		return 0;
	}
	if (epd_workflow_open(&w, t->s, name, 1, NULL) < 0)
		return 0;
	if (!(p = epd_grow(t->subject, t->n, &t->cap, sizeof *t->subject))) {
		epd_workflow_close(&w);
		return 0;
	}
	t->subject = p;
	f = t->subject + t->n++;
	*f = (struct subject){ .w = w, .seen = 1 };
	snprintf(f->name, sizeof f->name, "%s", name);
	epd_shard_uuid(w.shard, f->uuid);
	return 0;
}

static void
pass(struct epd_telling *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		t->subject[i].seen = 0;
	if (epd_workflow_each(t->s, look, t) < 0)
		return;
	for (size_t i = 0; i < t->n; i++)
		if (!t->subject[i].seen)
			forget(t, t->subject + i);
	for (size_t i = 0; i < t->n; i++)
		if (t->subject[i].seen)
			t->subject[n++] = t->subject[i];
	t->n = n;
	for (size_t i = 0; i < t->n; i++) {
		tell(t, t->subject + i);
		claim(t, t->subject + i);
	}
}

/* A big store is looked at less often: that takes a tenth of the time, or a second. */
static uint64_t
rest_ms(uint64_t from_ns)
{
	const uint64_t ms = 9 * ((epd_clock_boot_ns() - from_ns) / MS);

	return ms < TICK_MS ? TICK_MS : ms > REST_MS ? REST_MS : ms;
}

static void *
run(void *arg)
{
	struct epd_telling *t = arg;
	struct timespec till;
	uint64_t from, ms;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		pthread_mutex_unlock(&t->lock);
		from = epd_clock_boot_ns();
		pass(t);
		ms = rest_ms(from);
		pthread_mutex_lock(&t->lock);
		clock_gettime(CLOCK_MONOTONIC, &till);
		till.tv_nsec += (long)(ms * MS);
		till.tv_sec += till.tv_nsec / 1000000000;
		till.tv_nsec %= 1000000000;
		while (!t->stop && pthread_cond_timedwait(&t->wake, &t->lock,
		    &till) == 0)
			;
	}
	pthread_mutex_unlock(&t->lock);
	return NULL;
}

static int
open_dir(struct epd_telling *t, struct epd_why *why)
{
	struct epd_dir_options o = { .config = &t->s->config, .stays = 1,
		.metrics = t->s->metrics, .log = &t->s->log, .say = t->o.say,
		.arg = t->o.arg };

	memcpy(o.self.uuid, t->s->uuid, sizeof o.self.uuid);
	memcpy(o.self.name, t->s->node, sizeof o.self.name);
	snprintf(o.self.address, sizeof o.self.address, "%s", t->o.address);
	return epd_dir_open(&t->d, &o, why);
}

int
epd_telling_start(struct epd_telling **out, const struct epd_telling_options *o,
    struct epd_why *why)
{
	struct epd_telling *t = epd_calloc(1, sizeof *t);
	pthread_condattr_t attr;
	int rc;

	if (!t)
		return epd_why(why, -ENOMEM, "no memory");
	t->o = *o;
	pthread_mutex_init(&t->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&t->wake, &attr);
	pthread_condattr_destroy(&attr);
	rc = epd_store_open(&t->s, &o->store, why);
	if (rc == 0)
		rc = open_dir(t, why);
	if (rc == 0 && pthread_create(&t->thread, NULL, run, t))
		rc = epd_why(why, -EAGAIN, "no thread to be had");
	if (rc == 0) {
		*out = t;
		return 0;
	}
	epd_dir_close(t->d);
	epd_store_close(t->s);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	epd_free(t);
	return rc;
}

void
epd_telling_stop(struct epd_telling *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->lock);
	t->stop = 1;
	pthread_cond_signal(&t->wake);
	pthread_mutex_unlock(&t->lock);
	pthread_join(t->thread, NULL);
	for (size_t i = 0; i < t->n; i++) {
		epd_workflow_close(&t->subject[i].w);
		epd_free(t->subject[i].told.v);
	}
	epd_free(t->subject);
	epd_dir_close(t->d);
	epd_store_close(t->s);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	epd_free(t);
}
