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
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "serve/telling.h"

#define MS UINT64_C(1000000)
enum { TICK_MS = 100, CLAIM_MS = 1000, WAIT_MS = 500 };

struct key {
	enum epd_hint_kind kind;
	int old;
	char text[EPD_HINT_KEY];
};

struct flock {				/* a workflow that is told of */
	char name[EPD_WORKFLOW];
	struct epd_workflow w;		/* to look at */
	uint8_t uuid[16];
	uint64_t lsn;			/* that was told */
	uint64_t claim_ns;		/* when it is to be claimed again */
	int ours, seen;
	struct key *key;
	size_t n, cap;
};

struct epd_telling {
	struct epd_telling_options o;
	struct epd_store *s;
	struct epd_dir *d;
	struct flock *flock;
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
note(struct flock *f, enum epd_hint_kind kind, const char *text)
{
	void *p;

	for (size_t i = 0; i < f->n; i++)
		if (f->key[i].kind == kind && !strcmp(f->key[i].text, text)) {
			f->key[i].old = 0;
			return 0;
		}
	if (!(p = epd_grow(f->key, f->n, &f->cap, sizeof *f->key)))
		return -ENOMEM;
	f->key = p;
	f->key[f->n] = (struct key){ .kind = kind };
	snprintf(f->key[f->n++].text, EPD_HINT_KEY, "%s", text);
	return 0;
}

static int
put(struct epd_telling *t, struct flock *f, const struct epd_hint *h)
{
	int rc = note(f, h->kind, h->key);

	return rc < 0 ? rc : epd_dir_put(t->d, h, soon(), NULL);
}

struct telling {
	struct epd_telling *t;
	struct flock *f;
};

static int
tell_hint(void *arg, const struct epd_hint *h)
{
	struct telling *x = arg;

	return put(x->t, x->f, h);
}

static void
take_back(struct epd_telling *t, struct flock *f)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n; i++) {
		if (f->key[i].old)
			(void)epd_dir_remove(t->d, f->key[i].kind,
			    f->key[i].text, soon(), NULL);
		else
			f->key[n++] = f->key[i];
	}
	f->n = n;
}

static void
tell(struct epd_telling *t, struct flock *f)
{
	struct telling x = { t, f };
	int rc = epd_shard_catch_up(f->w.shard, NULL);
	const uint64_t lsn = rc < 0 ? 0 : epd_shard_lsn(f->w.shard);

	if (rc < 0 || lsn == f->lsn)
		return;
	for (size_t i = 0; i < f->n; i++)
		f->key[i].old = 1;
	rc = epd_flow_hints(t->s, &f->w, tell_hint, &x);
	take_back(t, f);
	/* What could not be told is told at the next look. */
	if (rc == 0)
		f->lsn = lsn;
}

/* ---- owning ---- */

static int
take_over(struct epd_telling *t, struct flock *f, uint64_t term)
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
claim(struct epd_telling *t, struct flock *f)
{
	struct epd_why why = { "" };
	uint64_t term = epd_shard_term(f->w.shard), given = 0;
	const int named = !strcmp(epd_shard_owner(f->w.shard), t->s->node);
	int rc;

	if (epd_clock_boot_ns() < f->claim_ns)
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
forget(struct epd_telling *t, struct flock *f)
{
	for (size_t i = 0; i < f->n; i++)
		f->key[i].old = 1;
	take_back(t, f);
	if (f->ours)
		(void)epd_dir_disclaim(t->d, f->uuid, soon(), NULL);
	epd_workflow_close(&f->w);
	epd_free(f->key);
}

static int
look(void *arg, const char *name)
{
	struct epd_telling *t = arg;
	struct flock *f = NULL;
	struct epd_workflow w;
	void *p;

	for (size_t i = 0; i < t->n && !f; i++)
		if (!strcmp(t->flock[i].name, name))
			f = t->flock + i;
	if (f) {
		f->seen = 1;
		return 0;
	}
	if (epd_workflow_open(&w, t->s, name, 1, NULL) < 0)
		return 0;
	if (!(p = epd_grow(t->flock, t->n, &t->cap, sizeof *t->flock))) {
		epd_workflow_close(&w);
		return 0;
	}
	t->flock = p;
	f = t->flock + t->n++;
	*f = (struct flock){ .w = w, .seen = 1 };
	snprintf(f->name, sizeof f->name, "%s", name);
	epd_shard_uuid(w.shard, f->uuid);
	return 0;
}

static void
pass(struct epd_telling *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++)
		t->flock[i].seen = 0;
	if (epd_workflow_each(t->s, look, t) < 0)
		return;
	for (size_t i = 0; i < t->n; i++) {
		struct flock *f = t->flock + i;

		if (f->seen) {
			tell(t, f);
			claim(t, f);
			t->flock[n++] = *f;
		} else {
			forget(t, f);
		}
	}
	t->n = n;
}

static void *
run(void *arg)
{
	struct epd_telling *t = arg;
	struct timespec till;

	pthread_mutex_lock(&t->lock);
	while (!t->stop) {
		pthread_mutex_unlock(&t->lock);
		pass(t);
		pthread_mutex_lock(&t->lock);
		clock_gettime(CLOCK_MONOTONIC, &till);
		till.tv_nsec += TICK_MS * (long)MS;
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
		epd_workflow_close(&t->flock[i].w);
		epd_free(t->flock[i].key);
	}
	epd_free(t->flock);
	epd_dir_close(t->d);
	epd_store_close(t->s);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	epd_free(t);
}
