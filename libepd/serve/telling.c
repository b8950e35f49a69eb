/*
 * telling.c - what a node tells the directory.
 *
 * 1. A workflow is looked at again when its log has gone on: by its tip, and it is open
 *    no longer than the look takes.  What was told of it then and is there no more is
 *    taken back.
 * 2. All of it are hints: that one is late or missing costs a look elsewhere.
 * 3. A workflow whose log is another node's is left alone until the directory says
 *    that it is ours: then the log is told first, under the directory's term.
 * 4. What is new is told before anything is claimed, since a claim waits for the
 *    directory; and who claims looks again in between.  What is ours is not asked for
 *    again while the lease stands that it was claimed under, and the log says no other.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "base/thread.h"
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
	uint8_t uuid[16];
	uint64_t tip, lsn;		/* what its log's tip was, and its lsn, when it was told */
	uint64_t term, given;		/* that the log has; that we were given */
	uint64_t claim_ns;		/* when it is to be claimed again */
	uint64_t lease;			/* that it was claimed under; 0: by none */
	int named;			/* the log says that it is ours */
	int ours, seen;
	int known, begun;		/* it was looked at; and had a record */
	int rc;				/* of the last look, to say it once */
	struct keys told;		/* in order, each once */
};

struct epd_telling {
	struct epd_telling_options o;
	struct epd_store *s;
	struct epd_dir *d;
	struct subject *subject;
	size_t n, cap;
	pthread_t thread;
	pthread_mutex_t lock;		/* of wake */
	pthread_cond_t wake;
	_Atomic int stop;
	int rc;				/* of looking for workflows */
};

static int
is_stopping(void *arg)
{
	return ((struct epd_telling *)arg)->stop;
}

/* What goes wrong again and again is logged once. */
static void
say(struct epd_telling *t, const char *name, int *was, int rc,
    const struct epd_why *why)
{
	if (rc < 0 && rc != *was && !epd_is_stopped())
		epd_log(&t->s->log, "op=tell workflow=%s error=%s why=\"%s\"",
		    name, epd_errlabel(rc), why->text);
	*was = rc;
}

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

struct round {
	struct epd_telling *t;
	struct keys now;
};

static int
tell_hint(void *arg, const struct epd_hint *h)
{
	struct round *x = arg;
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

static int
tell(struct epd_telling *t, struct subject *f, const struct epd_workflow *w)
{
	struct round x = { .t = t };
	const uint64_t lsn = epd_shard_lsn(w->shard);
	int rc;

	if (lsn == f->lsn)
		return 0;
	rc = epd_flow_hints(t->s, w, tell_hint, &x);
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
	return rc;
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
	if (rc == 0) {
		f->term = term;
		f->named = 1;
	}
	epd_log(&t->s->log, "op=own workflow=%s term=%llu rc=%d", f->name,
	    (unsigned long long)term, rc);
	return rc;
}

static void
claim(struct epd_telling *t, struct subject *f)
{
	const uint64_t lease = epd_dir_lease(t->d);
	struct epd_why why = { "" };
	uint64_t given = 0;
	int rc;

	f->claim_ns = epd_clock_boot_ns() + CLAIM_MS * MS;
	rc = epd_dir_claim(t->d, f->uuid, f->named ? f->term : f->term + 1,
	    &given, soon(), &why);
	if (rc == 0 && (!f->named || given > f->term))
		rc = take_over(t, f, given);
	if (f->ours && rc == EPD_ELOCKED && t->o.say) {
		char text[300];

		snprintf(text, sizeof text, "%s: %.200s", f->name, why.text);
		t->o.say(t->o.arg, text);
	}
	f->ours = rc == 0;
	f->given = given;
	f->lease = rc == 0 && epd_dir_lease(t->d) == lease ? lease : 0;
}

/*
 * It is to be claimed, or to be asked for again.  An empty one may be removed again by
 * who makes it, unless it has a record.
 */
static int
is_due(const struct subject *f, uint64_t lease)
{
	return f->begun && epd_clock_boot_ns() >= f->claim_ns &&
	    !(f->ours && f->named && f->term == f->given && f->lease &&
	    f->lease == lease);
}

/* Those that wait the longest first, till it is time to look again; one at least. */
static void
claim_some(struct epd_telling *t, uint64_t till_ns)
{
	struct subject *first;

	do {
		const uint64_t lease = epd_dir_lease(t->d);

		first = NULL;
		for (size_t i = 0; i < t->n; i++)
			if (is_due(t->subject + i, lease) && (!first ||
			    t->subject[i].claim_ns < first->claim_ns))
				first = t->subject + i;
		if (first)
			claim(t, first);
	} while (first && !t->stop && epd_clock_boot_ns() < till_ns);
}

/* ---- workflows ---- */

static void
forget(struct epd_telling *t, struct subject *f)
{
	for (size_t i = 0; i < f->told.n; i++)
		take_back(t, f, f->told.v + i);
	if (f->ours)
		(void)epd_dir_disclaim(t->d, f->uuid, soon(), NULL);
	epd_free(f->told.v);
	f->told = (struct keys){ NULL, 0, 0 };
}

/* What the tip of its log is (shard.h has the files); 0: it has none. */
static uint64_t
tip_of(const struct epd_telling *t, const char *name)
{
	char path[EPD_WORKFLOW + 8];
	uint8_t b[256];
	ssize_t n;
	int fd;

	snprintf(path, sizeof path, "%s/tip", name);
	fd = epd_file_open(t->s->workflows, path, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return 0;
	n = epd_file_pread(fd, b, sizeof b, 0);
	close(fd);
	return n > 0 ? epd_xxh3_64(b, (size_t)n) : 0;
}

static void
look(struct epd_telling *t, struct subject *f)
{
	const uint64_t tip = tip_of(t, f->name);
	struct epd_why why = { "" };
	struct epd_workflow w;
	uint8_t uuid[16];
	int rc;

	if (f->known && tip && tip == f->tip)
		return;
	rc = epd_workflow_open(&w, t->s, f->name, 1, &why);
	if (rc < 0) {
		/* One that has no record yet is nothing to speak of. */
		say(t, f->name, &f->rc, rc == EPD_ENOTHING ? 0 : rc, &why);
		return;
	}
	epd_shard_uuid(w.shard, uuid);
	/* One that was removed and begun anew has the name alone. */
	if (f->known && memcmp(uuid, f->uuid, sizeof uuid)) {
		forget(t, f);
		f->lsn = f->claim_ns = f->lease = 0;
		f->ours = 0;
	}
	memcpy(f->uuid, uuid, sizeof uuid);
	f->known = 1;
	f->begun = epd_shard_lsn(w.shard) != 0;
	f->term = epd_shard_term(w.shard);
	f->named = !strcmp(epd_shard_owner(w.shard), t->s->node);
	rc = tell(t, f, &w);
	epd_workflow_close(&w);
	f->tip = rc == 0 ? tip : 0;
	epd_why(&why, rc, "%s", epd_strerror(rc));
	say(t, f->name, &f->rc, rc, &why);
}

static int
see(void *arg, const char *name)
{
	struct epd_telling *t = arg;
	struct subject *f;
	void *p;

	for (size_t i = 0; i < t->n; i++)
		if (!strcmp(t->subject[i].name, name)) {
			t->subject[i].seen = 1;
			return 0;
		}
	if (!(p = epd_grow(t->subject, t->n, &t->cap, sizeof *t->subject)))
		return -ENOMEM;
	t->subject = p;
	f = t->subject + t->n++;
	*f = (struct subject){ .seen = 1 };
	snprintf(f->name, sizeof f->name, "%s", name);
	return 0;
}

static void
look_at_all(struct epd_telling *t)
{
	struct epd_why why = { "" };
	size_t n = 0;
	int rc;

	for (size_t i = 0; i < t->n; i++)
		t->subject[i].seen = 0;
	rc = epd_workflow_each(t->s, see, t);
	epd_why(&why, rc, "%s", epd_strerror(rc));
	say(t, "", &t->rc, rc, &why);
	if (rc < 0)
		return;
	/* What is there first: of what is gone the directory is asked. */
	for (size_t i = 0; i < t->n && !t->stop; i++)
		if (t->subject[i].seen)
			look(t, t->subject + i);
	for (size_t i = 0; i < t->n && !t->stop; i++)
		if (!t->subject[i].seen)
			forget(t, t->subject + i);
	for (size_t i = 0; i < t->n && !t->stop; i++)
		if (t->subject[i].seen)
			t->subject[n++] = t->subject[i];
	if (!t->stop)
		t->n = n;
}

/* A big store is looked at less often: that takes a tenth of the time, or a second. */
static uint64_t
next_look(uint64_t from_ns)
{
	const uint64_t now = epd_clock_boot_ns(), ns = 9 * (now - from_ns);

	return now + (ns < TICK_MS * MS ? TICK_MS * MS :
	    ns > REST_MS * MS ? REST_MS * MS : ns);
}

/* Till then, or till it is to stop. */
static void
rest(struct epd_telling *t, uint64_t till_ns)
{
	const uint64_t now = epd_clock_boot_ns();
	struct timespec till;
	uint64_t ns;

	if (now >= till_ns)
		return;
	clock_gettime(CLOCK_MONOTONIC, &till);
	ns = (uint64_t)till.tv_nsec + (till_ns - now);
	till.tv_sec += (time_t)(ns / (1000 * MS));
	till.tv_nsec = (long)(ns % (1000 * MS));
	pthread_mutex_lock(&t->lock);
	while (!t->stop && pthread_cond_timedwait(&t->wake, &t->lock,
	    &till) == 0)
		;
	pthread_mutex_unlock(&t->lock);
}

static void *
run(void *arg)
{
	struct epd_telling *t = arg;

	epd_stop_heed(is_stopping, t);
	while (!t->stop) {
		const uint64_t from = epd_clock_boot_ns();
		uint64_t till;

		look_at_all(t);
		till = next_look(from);
		if (!t->stop)
			claim_some(t, till);
		rest(t, till);
	}
	epd_stop_heed(NULL, NULL);
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
	if (rc == 0 && epd_thread_begin(&t->thread, run, t))
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
	for (size_t i = 0; i < t->n; i++)
		epd_free(t->subject[i].told.v);
	epd_free(t->subject);
	epd_dir_close(t->d);
	epd_store_close(t->s);
	pthread_cond_destroy(&t->wake);
	pthread_mutex_destroy(&t->lock);
	epd_free(t);
}
