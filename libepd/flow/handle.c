/*
 * handle.c - a thread a transfer.
 *
 * over and cancelled are all that the two threads share while it runs; the rest is
 * the thread's until over is set, then the caller's.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "flow/handle.h"

struct epd_transfer {
	struct epd_store_options here;
	char *peer;
	enum epd_op op;
	struct epd_transfer_policy policy;
	struct epd_name feature;
	struct epd_name *page;		/* NULL: a feature */
	uint32_t n, state, version;
	char from[EPD_WORKFLOW], to[EPD_WORKFLOW];
	pthread_t thread;
	int joined;
	atomic_int over, cancelled;
	/* what it came to */
	struct epd_store *s;
	struct epd_node *node;
	struct epd_workflow w;		/* READ: whose folder is marked */
	int marked;
	struct epd_transfer_result result;
	uint64_t *run;
	int rc;
	struct epd_why why;
};

/* ---- in the thread ---- */

static int
is_cancelled(void *arg)
{
	struct epd_transfer *t = arg;

	return atomic_load(&t->cancelled);
}

static int
fetch(struct epd_transfer *t, struct epd_pages_ask *a, uint64_t deadline_ns)
{
	int rc = epd_workflow_open(&t->w, t->s, t->to, 0, &t->why);

	if (rc < 0)
		return rc;
	if (t->w.runs < 0)
		return epd_why(&t->why, -ENOENT, "%s has no folder in the "
		    "memory tier", t->to);
	/* A sweep that sees it leaves what no record names yet. */
	t->marked = epd_lock_share(t->w.runs, 0) == 0;
	memcpy(a->workflow, t->from, sizeof a->workflow);
	a->state = t->state;
	a->version = t->version;
	return epd_pages_fetch(t->node, &t->w, a, &t->policy, deadline_ns,
	    &t->run, &t->result.nruns, &t->result.moved, &t->why);
}

static int
send(struct epd_transfer *t, struct epd_pages_ask *a, uint64_t deadline_ns)
{
	struct epd_pages_ask of = { .state = t->state, .version = t->version };
	int rc;

	memcpy(of.workflow, t->from, sizeof of.workflow);
	rc = epd_node_make(t->node, t->to, a->workflow, a->uuid, deadline_ns,
	    &t->why);
	return rc < 0 ? rc : epd_pages_send(t->node, &of, a, &t->policy,
	    deadline_ns, &t->run, &t->result.nruns, &t->result.moved, &t->why);
}

static int
move_pages(struct epd_transfer *t, uint64_t deadline_ns)
{
	struct epd_pages_ask a = { .n = t->n };
	int rc;

	if (!(a.page = epd_calloc(t->n + 1u, sizeof *a.page)))
		return -ENOMEM;
	for (uint32_t i = 0; i < t->n; i++)
		a.page[i].entry.name = t->page[i];
	memcpy(a.codec, t->policy.compression, sizeof a.codec);
	/* With no name of its own what a codec leaves would pass for exact. */
	if (*a.codec && strcmp(a.codec, "none"))
		rc = epd_why(&t->why, EPD_EUSAGE, "pages by name go as they "
		    "are; a hand-off may compress");
	else
		rc = t->op == EPD_OP_READ ? fetch(t, &a, deadline_ns) :
		    send(t, &a, deadline_ns);
	epd_free(a.page);
	return rc;
}

static int
go(struct epd_transfer *t)
{
	const uint64_t deadline_ns = epd_clock_boot_ns() +
	    t->policy.timeout_ms * UINT64_C(1000000);
	int rc = epd_store_open(&t->s, &t->here, &t->why);

	if (rc == 0)
		rc = epd_node_open(&t->node, t->s, t->peer, deadline_ns,
		    &t->why);
	if (rc < 0)
		return rc;
	return t->page ? move_pages(t, deadline_ns) : epd_feature_move(t->node,
	    t->op, &t->feature, &t->policy, deadline_ns, &t->result.moved,
	    &t->why);
}

static void *
run(void *arg)
{
	struct epd_transfer *t = arg;

	epd_stop_heed(is_cancelled, t);
	t->rc = go(t);
	if (t->rc < 0 && atomic_load(&t->cancelled))
		t->rc = epd_why(&t->why, -ECANCELED, "called off");
	epd_stop_heed(NULL, NULL);
	atomic_store(&t->over, 1);
	return NULL;
}

/* ---- the caller's ---- */

static int
begin(struct epd_transfer **out, struct epd_transfer *t,
    const struct epd_store_options *here, const char *src, const char *dst,
    const struct epd_transfer_policy *policy, struct epd_why *why)
{
	int rc;

	t->here = *here;
	t->policy = *policy;
	t->op = *src ? EPD_OP_READ : EPD_OP_WRITE;
	t->w = (struct epd_workflow){ .dirfd = -1, .runs = -1 };
	t->joined = 1;
	if (!*src == !*dst)
		rc = epd_why(why, EPD_EUSAGE, "one of the two workers is here, "
		    "the other a peer");
	else if (!(t->peer = epd_strdup(*src ? src : dst)))
		rc = epd_why(why, -ENOMEM, "no memory");
	else if ((rc = -pthread_create(&t->thread, NULL, run, t)) < 0)
		epd_why(why, rc, "no thread to be had");
	if (rc < 0) {
		epd_transfer_free(t);
		return rc;
	}
	t->joined = 0;
	*out = t;
	return 0;
}

int
epd_transfer_feature_bundle(struct epd_transfer **out,
    const struct epd_store_options *here, const struct epd_name *feature,
    const char *src_worker, const char *dst_worker,
    const struct epd_transfer_policy *policy, struct epd_why *why)
{
	struct epd_transfer *t = epd_calloc(1, sizeof *t);

	if (!t)
		return epd_why(why, -ENOMEM, "no memory");
	t->feature = *feature;
	return begin(out, t, here, src_worker, dst_worker, policy, why);
}

static int
keep_name(char out[EPD_WORKFLOW], const char *name)
{
	if (*name && !epd_workflow_name_ok(name))
		return EPD_EUSAGE;
	memcpy(out, name, strlen(name) + 1);
	return 0;
}

int
epd_transfer_kv_pages(struct epd_transfer **out,
    const struct epd_store_options *here, const struct epd_pages_way *way,
    const char *src_worker, const char *dst_worker,
    const struct epd_transfer_policy *policy, struct epd_why *why)
{
	struct epd_transfer *t = epd_calloc(1, sizeof *t);

	if (!t || !(t->page = epd_calloc(way->n + 1u, sizeof *t->page))) {
		epd_free(t);
		return epd_why(why, -ENOMEM, "no memory");
	}
	memcpy(t->page, way->page, way->n * sizeof *t->page);
	t->n = way->n;
	t->state = way->state;
	t->version = way->version;
	if (keep_name(t->from, way->from_workflow) < 0 ||
	    keep_name(t->to, way->to_workflow) < 0 || !*t->to) {
		epd_free(t->page);
		epd_free(t);
		return epd_why(why, EPD_EUSAGE, "no name of a workflow");
	}
	return begin(out, t, here, src_worker, dst_worker, policy, why);
}

int
epd_transfer_wait(struct epd_transfer *t, uint64_t deadline_ns,
    struct epd_transfer_result *result, struct epd_why *why)
{
	uint64_t ns = UINT64_C(50000);

	while (!atomic_load(&t->over)) {
		const uint64_t now = epd_clock_boot_ns();

		if (now >= deadline_ns)
			return epd_why(why, EPD_ETIMEOUT, "it goes on");
		epd_clock_sleep_ns(ns < deadline_ns - now ? ns :
		    deadline_ns - now);
		if (ns < UINT64_C(5000000))
			ns *= 2;
	}
	if (!t->joined)
		pthread_join(t->thread, NULL);
	t->joined = 1;
	if (t->rc < 0)
		return epd_why(why, t->rc, "%s", *t->why.text ? t->why.text :
		    epd_strerror(t->rc));
	t->result.run = t->run;
	*result = t->result;
	return 0;
}

void
epd_transfer_cancel(struct epd_transfer *t)
{
	atomic_store(&t->cancelled, 1);
}

void
epd_transfer_free(struct epd_transfer *t)
{
	if (!t)
		return;
	if (!t->joined) {
		epd_transfer_cancel(t);
		pthread_join(t->thread, NULL);
	}
	epd_node_close(t->node);
	if (t->marked)
		epd_lock_drop(t->w.runs);
	if (t->w.shard)
		epd_workflow_close(&t->w);
	if (t->s)
		epd_store_close(t->s);
	epd_free(t->run);
	epd_free(t->page);
	epd_free(t->peer);
	epd_free(t);
}
