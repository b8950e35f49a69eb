/*
 * talk.c - open says, ctls and tiers: what is written is taken apart, and answers are kept
 * until they are read.
 *
 * An answer that is a job's end has its place among the others, and those behind
 * it wait for it.  A read that finds it first is put aside, with no thread, and
 * answered when a job is over.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fs/thread.h"
#include "fs/verb.h"

enum {
	TURN = 1 << 20, LINE = 64 << 10,
	UNREAD = 8 << 20,	/* of answers nobody reads the oldest go beyond */
	ANSWERS = 16384		/* so many, or so many bytes */
};

struct answer {
	struct answer *next;
	uint64_t job;			/* its end is to come; or 0 */
	uint64_t of;			/* the job whose end it is; or 0 */
	struct epd_buf text;
};

/* A read that waits, or its answer on its way. */
struct reader {
	struct reader *next;
	size_t n;
	epd_fs_answer_fn *done;
	void *arg;
	int rc;
	struct epd_buf text;
};

struct epd_fs_talk {
	struct epd_fs *fs;
	struct epd_fs_at at;
	pid_t who, process;		/* the thread that opened it, and its */
	struct epd_fs_talk *next;
	pthread_mutex_t mine;		/* of what is written, all of a verb long */
	struct epd_buf text;		/* a turn, or a line, that has not ended */
	int too_big;			/* the turn is: it is not said */
	int refused;			/* the line is, whatever else comes of it */
	/* under the hands' lock: */
	struct answer *first, **last;
	size_t unread, answers;		/* bytes; how many */
	int lost;			/* one, for want of memory */
	struct reader *reader;
	int blocked;			/* the first answer is to come; atomic */
};

/* ---- answers; under the hands' lock ---- */

static void
drop_first(struct epd_fs_talk *t)
{
	struct answer *a = t->first;

	t->unread -= a->text.n;
	t->answers--;
	if (!(t->first = a->next))
		t->last = &t->first;
	epd_buf_free(&a->text);
	epd_free(a);
}

static int
is_full(const struct epd_fs_talk *t)
{
	return t->unread > UNREAD || t->answers > ANSWERS;
}

static void
put(struct epd_fs_talk *t, uint64_t job, const void *p, size_t n)
{
	struct answer *a = epd_calloc(1, sizeof *a);

	if (a)
		epd_buf_put(&a->text, p, n);
	if (!a || a->text.failed) {
		epd_free(a);
		t->lost = 1;
		return;
	}
	a->job = a->of = job;
	*t->last = a;
	t->last = &a->next;
	t->unread += a->text.n;
	t->answers++;
	/* Who reads and waits is given none that comes later. */
	while (is_full(t) && t->first != a && !t->reader)
		drop_first(t);
}

/* If the first answer is the end of a job that is over it is there now. */
static void
settle(struct epd_fs_talk *t)
{
	struct answer *a = t->first;
	struct epd_fs_job job;
	int rc;

	if (a && a->job) {
		rc = epd_fs_job_find(t->fs->hands->jobs, a->job, &job);
		if (rc < 0)
			epd_buf_fmt(&a->text, "j%llu is remembered no more\n",
			    (unsigned long long)a->job);
		else if (epd_fs_job_is_over(&job))
			epd_fs_job_line(&job, 0, &a->text);
		if (rc < 0 || epd_fs_job_is_over(&job))
			a->job = 0;
		t->unread += a->text.n;
	}
	__atomic_store_n(&t->blocked, t->first && t->first->job,
	    __ATOMIC_RELEASE);
}

static int
is_blocked(const struct epd_fs_talk *t)
{
	return t->first && t->first->job;
}

/* At most n bytes of what is there, without what was taken before. */
static void
take(struct epd_fs_talk *t, size_t n, struct epd_buf *out)
{
	for (settle(t); t->first && !is_blocked(t) && out->n < n; settle(t)) {
		struct epd_buf *b = &t->first->text;
		size_t k = n - out->n < b->n ? n - out->n : b->n;

		epd_buf_put(out, b->p, k);
		if (out->failed)
			return;
		if (k == b->n) {
			if (t->first->of)
				epd_fs_job_told(t->fs->hands->jobs,
				    t->first->of);
			drop_first(t);
			continue;
		}
		memmove(b->p, b->p + k, b->n - k);
		b->n -= k;
		t->unread -= k;
	}
}

/* What a reader is given: it is not blocked. */
static void
give(struct epd_fs_talk *t, struct reader *r)
{
	take(t, r->n, &r->text);
	r->rc = r->text.failed || (t->lost && !r->text.n) ? -ENOMEM : 0;
	if (r->rc < 0)
		t->lost = 0;
}

/* Those who waited and need not any more, taken off. */
static void
serve(struct epd_fs_talk *t, struct reader ***out)
{
	struct reader *r;

	while ((r = t->reader) && !is_blocked(t)) {
		give(t, r);
		t->reader = r->next;
		r->next = NULL;
		**out = r;
		*out = &r->next;
	}
}

/* Under no lock. */
static void
reply(struct reader *r)
{
	for (struct reader *next; r; r = next) {
		next = r->next;
		r->done(r->arg, r->rc, epd_span(r->text.p, r->text.n));
		epd_buf_free(&r->text);
		epd_free(r);
	}
}

void
epd_fs_talks_over(void *arg)
{
	struct epd_fs_hands *h = arg;
	struct reader *first = NULL, **last = &first;

	pthread_mutex_lock(&h->lock);
	for (struct epd_fs_talk *t = h->talk; t; t = t->next) {
		settle(t);
		serve(t, &last);
	}
	pthread_mutex_unlock(&h->lock);
	reply(first);
	epd_fs_wake(h->fs);	/* who polls is to look again */
}

static void
answer(struct epd_fs_talk *t, const struct epd_fs_call *c)
{
	struct epd_fs_hands *h = t->fs->hands;
	struct reader *first = NULL, **last = &first;
	const uint64_t *job = (const void *)c->wait.p;

	pthread_mutex_lock(&h->lock);
	if (c->answer.n)
		put(t, 0, c->answer.p, c->answer.n);
	for (size_t i = 0; i < c->wait.n / sizeof *job; i++)
		put(t, job[i], NULL, 0);
	settle(t);
	serve(t, &last);
	pthread_mutex_unlock(&h->lock);
	reply(first);
	epd_fs_wake(t->fs);
}

/* ---- reading ---- */

void
epd_fs_talk_read(struct epd_fs_talk *t, size_t n, epd_fs_answer_fn *done,
    int (*is_over)(void *arg), void *arg)
{
	struct epd_fs_hands *h = t->fs->hands;
	struct reader *r = epd_calloc(1, sizeof *r), **at = &t->reader;

	if (!r) {
		done(arg, -ENOMEM, epd_span(NULL, 0));
		return;
	}
	*r = (struct reader){ .n = n, .done = done, .arg = arg };
	pthread_mutex_lock(&h->lock);
	if (is_blocked(t) && !is_over(arg)) {
		while (*at)
			at = &(*at)->next;
		*at = r;
		r = NULL;
	} else if (is_blocked(t)) {
		r->rc = -EINTR;
	} else {
		give(t, r);
	}
	pthread_mutex_unlock(&h->lock);
	reply(r);
}

void
epd_fs_talk_cancel(struct epd_fs_talk *t, void *arg)
{
	struct epd_fs_hands *h = t->fs->hands;
	struct reader **at = &t->reader, *r;

	pthread_mutex_lock(&h->lock);
	while ((r = *at) && r->arg != arg)
		at = &r->next;
	if (r) {
		*at = r->next;
		r->next = NULL;
		r->rc = -EINTR;
	}
	pthread_mutex_unlock(&h->lock);
	reply(r);
}

int
epd_fs_talk_ready(struct epd_fs_talk *t)
{
	return !__atomic_load_n(&t->blocked, __ATOMIC_ACQUIRE);
}

/* ---- writing ---- */

static int
gather(struct epd_fs_talk *t, struct epd_span part, struct epd_why *why)
{
	if (memchr(part.p, '\0', part.n))
		return epd_why(why, -EINVAL, "a line with a NUL in it");
	if (part.n > LINE - t->text.n)
		return epd_why(why, -EMSGSIZE, "a line of more than %d bytes",
		    LINE);
	epd_buf_put(&t->text, part.p, part.n);
	return t->text.failed ? -ENOMEM : 0;
}

/* Somebody reads, but more slowly than is written. */
static int
has_enough(struct epd_fs_talk *t)
{
	int rc;

	pthread_mutex_lock(&t->fs->hands->lock);
	rc = t->reader && is_full(t);
	pthread_mutex_unlock(&t->fs->hands->lock);
	return rc;
}

/*
 * A part of a line, and if it ends there the line.  The sentence of one refused is
 * kept unless it will be written again.
 */
static int
line(struct epd_fs_talk *t, struct epd_span part, int ends, int again)
{
	struct epd_fs_call c = { .fs = t->fs, .at = &t->at };
	int rc;

	if (t->refused) {
		t->refused = !ends;
		return 0;
	}
	rc = gather(t, part, &c.why);
	if (rc == 0 && !ends)
		return 0;
	if (rc == 0 && has_enough(t))
		rc = epd_why(&c.why, -ENOBUFS, "too many answers wait to be "
		    "read");
	t->refused = rc < 0 && !ends && !again;
	epd_buf_put(&t->text, "", 1);
	if (rc == 0)
		rc = t->text.failed ? -ENOMEM :
		    (t->at.kind == EPD_FS_REST ? epd_fs_rest :
		    epd_fs_verb)(&c, (char *)t->text.p);
	epd_buf_free(&t->text);
	if (rc < 0) {
		c.answer.n = c.wait.n = 0;
		if (!again)
			epd_buf_fmt(&c.answer, "%s\n", *c.why.text ?
			    c.why.text : epd_strerror(rc));
	}
	answer(t, &c);
	epd_buf_free(&c.answer);
	epd_buf_free(&c.wait);
	return rc;
}

static ssize_t
write_lines(struct epd_fs_talk *t, const char *p, size_t n)
{
	size_t at = 0;

	while (at < n) {
		const char *nl = memchr(p + at, '\n', n - at);
		size_t len = nl ? (size_t)(nl - p) - at : n - at;
		int rc = line(t, epd_span(p + at, len), nl != NULL, at > 0);

		if (rc < 0)
			return at ? (ssize_t)at : rc;
		at += len + (nl != NULL);
	}
	return (ssize_t)n;
}

static ssize_t
write_turn(struct epd_fs_talk *t, const char *p, size_t n)
{
	int rc = t->text.n ? 0 : epd_fs_stands(t->fs, &t->at);

	if (rc < 0)
		return rc;
	if (t->too_big || n > TURN - t->text.n) {
		epd_buf_free(&t->text);
		t->too_big = 1;
		return -EFBIG;
	}
	epd_buf_put(&t->text, p, n);
	return t->text.failed ? -ENOMEM : (ssize_t)n;
}

/* Whether each line is of a verb that waits for no lock. */
static int
is_quick(const struct epd_fs_talk *t, const char *p, size_t n)
{
	const char *nl;

	if (t->at.kind == EPD_FS_SAY)
		return 1;
	if (t->text.n)
		return 0;
	for (; n && (nl = memchr(p, '\n', n)); n -= (size_t)(nl + 1 - p),
	    p = nl + 1)
		if (epd_fs_verb_locks(p, (size_t)(nl - p)))
			return 0;
	return 1;
}

/* What is written to t is one's own from now on.  0: that, or a verb, may wait. */
static int
begin(struct epd_fs_talk *t, const char *p, size_t n, int may_wait)
{
	if (may_wait)
		return !pthread_mutex_lock(&t->mine);
	if (pthread_mutex_trylock(&t->mine))
		return 0;
	if (is_quick(t, p, n))
		return 1;
	pthread_mutex_unlock(&t->mine);
	return 0;
}

ssize_t
epd_fs_talk_write(struct epd_fs_talk *t, const char *p, size_t n,
    int may_wait)
{
	ssize_t rc;

	if (!begin(t, p, n, may_wait))
		return -EINPROGRESS;
	rc = (t->at.kind == EPD_FS_SAY ? write_turn : write_lines)(t, p, n);
	pthread_mutex_unlock(&t->mine);
	return rc;
}

/* Blanks alone are no turn. */
static int
says(const struct epd_fs_talk *t)
{
	size_t i = 0;

	while (i < t->text.n && strchr(" \t\r\n", (char)t->text.p[i]) &&
	    t->text.p[i])
		i++;
	return i < t->text.n;
}

static int
end_turn(struct epd_fs_talk *t)
{
	int rc = t->too_big ? -EFBIG : t->text.failed ? -ENOMEM : says(t) ?
	    epd_fs_turn(t->fs, &t->at, epd_span(t->text.p, t->text.n), NULL) :
	    0;

	t->too_big = 0;
	epd_buf_free(&t->text);
	return rc;
}

void
epd_fs_talk_opened(struct epd_fs_talk *t, pid_t who)
{
	if (!t)
		return;
	t->who = who;
	t->process = epd_fs_thread_process(who);
}

int
epd_fs_talk_flush(struct epd_fs_talk *t, pid_t who, int may_wait)
{
	int rc;

	if (who && who != t->who && epd_fs_thread_process(who) != t->process)
		return 0;
	if (!begin(t, "", 0, may_wait))
		return -EINPROGRESS;
	rc = t->at.kind == EPD_FS_SAY ? end_turn(t) : t->text.n ?
	    line(t, epd_span("", 0), 1, 0) : 0;
	pthread_mutex_unlock(&t->mine);
	return rc;
}

/* ---- opening ---- */

int
epd_fs_talk_open(struct epd_fs_talk **out, struct epd_fs *fs,
    const struct epd_fs_at *at)
{
	struct epd_fs_talk *t = epd_calloc(1, sizeof *t);
	int rc;

	if (!t)
		return -ENOMEM;
	t->fs = fs;
	t->at = *at;
	t->last = &t->first;
	if ((rc = epd_fs_stands(fs, at)) < 0) {
		epd_free(t);
		return rc;
	}
	pthread_mutex_init(&t->mine, NULL);
	pthread_mutex_lock(&fs->hands->lock);
	t->next = fs->hands->talk;
	fs->hands->talk = t;
	pthread_mutex_unlock(&fs->hands->lock);
	*out = t;
	return 0;
}

void
epd_fs_talk_close(struct epd_fs_talk *t)
{
	struct epd_fs_talk **at;

	if (!t)
		return;
	at = &t->fs->hands->talk;
	pthread_mutex_lock(&t->fs->hands->lock);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	pthread_mutex_unlock(&t->fs->hands->lock);
	while (t->first)
		drop_first(t);
	epd_buf_free(&t->text);
	pthread_mutex_destroy(&t->mine);
	epd_free(t);
}
