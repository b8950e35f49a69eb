/* node.c - links to a peer, and what is known of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/key.h"
#include "flow/prospect.h"

#define MS UINT64_C(1000000)
/* An observation says little of a link that was not used for so long. */
static const uint64_t FRESH_NS = 60000 * MS;
/* Nobody minds a wait that is shorter. */
static const uint64_t TOLD_NS = 1000 * MS;

struct epd_node {
	struct epd_store *here;
	char address[EPD_NODE_ADDRESS];
	struct epd_buf key;
	uint8_t party[16];		/* of all our links: what one wrote another names */
	struct epd_link *link[EPD_VIA_COUNT];
	enum epd_backend control;
	struct epd_node_facts facts;
	struct epd_operations how;
	uint32_t failures[EPD_VIA_COUNT];	/* one after another */
	struct epd_ledger books;
	struct epd_scenario *rules;	/* NULL: none */
	struct epd_ways ways;		/* no planner: not made yet */
	int stale;			/* a link broke since they were */
	uint64_t plans;			/* the next one's id */
	uint64_t lost_ns;		/* since then it is tried again; 0: it is not */
	int told;			/* the listener was */
};

int
epd_node_is_address(const char *text)
{
	return !strncmp(text, "tcp://", 6) || !strncmp(text, "unix://", 7);
}

static int
is_unix(const struct epd_node *n)
{
	return !strncmp(n->address, "unix://", 7);
}

static uint64_t
deadline_or(const struct epd_node *n, uint64_t deadline_ns)
{
	return deadline_ns ? deadline_ns : epd_clock_boot_ns() +
	    (uint64_t)n->here->config.transfer_timeout_ms * MS;
}

/* The key's file without the line's end. */
static int
read_key(struct epd_node *n, struct epd_why *why)
{
	const char *path = n->here->config.transfer_key_file;

	return *path ? epd_key_read(&n->key, path, why) : 0;
}

/* ---- peers that hang ---- */

/* Who let this much of a wait run out is left alone so long: a command's while. */
static const uint64_t HANGS_NS = 500 * MS, LEFT_NS = 10000 * MS;

static int
is_hung(const struct epd_node *n)
{
	const struct epd_hung *h = n->here->hung;
	const uint64_t now = epd_clock_boot_ns();

	for (size_t i = 0; i < sizeof n->here->hung / sizeof *h; i++)
		if (now < h[i].till_ns && !strcmp(h[i].address, n->address))
			return 1;
	return 0;
}

/* A wait that began then ended so: in place of whom has been left alone longest. */
static void
note_hung(const struct epd_node *n, int rc, uint64_t began_ns)
{
	struct epd_hung *h = n->here->hung, *oldest = h;
	const uint64_t now = epd_clock_boot_ns();

	if (rc != EPD_ETIMEOUT || now - began_ns < HANGS_NS || is_hung(n))
		return;
	for (size_t i = 0; i < sizeof n->here->hung / sizeof *h; i++)
		if (h[i].till_ns < oldest->till_ns)
			oldest = h + i;
	oldest->till_ns = now + LEFT_NS;
	memcpy(oldest->address, n->address, sizeof oldest->address);
}

/* ---- links ---- */

/* Say who we are, and learn who it is: on each link, before anything else. */
static int
meet(struct epd_node *n, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why)
{
	static const uint8_t none[16];
	struct epd_buf ask = {0}, answer = {0};
	struct epd_node_facts facts;
	struct epd_cur c;
	int rc;

	epd_ask_node_pack(&ask, n->here->tenant, n->party);
	rc = ask.failed ? -ENOMEM : epd_link_ops(l)->call(l, EPD_ASK_NODE,
	    epd_span(ask.p, ask.n), &answer, deadline_ns, why);
	if (rc == 0) {
		c = epd_cur(epd_span(answer.p, answer.n));
		rc = epd_node_facts_unpack(&c, &facts);
		if (rc < 0)
			rc = epd_why(why, EPD_EPEER, "%s: it does not answer "
			    "as a store does", n->address);
	}
	epd_buf_free(&ask);
	epd_buf_free(&answer);
	if (rc < 0)
		return rc;
	if (memcmp(n->facts.uuid, none, 16) &&
	    memcmp(n->facts.uuid, facts.uuid, 16))
		return epd_why(why, EPD_EPEER, "%s: another store is there now",
		    n->address);
	if (!strcmp(n->here->named.address, n->address) &&
	    memcmp(n->here->named.uuid, facts.uuid, 16))
		return epd_why(why, EPD_EPEER, "%s: another store is there than "
		    "the directory says", n->address);
	n->facts = facts;
	epd_ledger_credit(&n->books, &facts.credits);
	return 0;
}

static int
open_link(struct epd_node *n, enum epd_backend b, uint64_t deadline_ns,
    struct epd_why *why)
{
	const struct epd_transport *t = epd_transport_of(n->here->transports, b);
	const struct epd_peer peer = {
		.address = n->address, .key = { n->key.p, n->key.n },
		/*
		 * Pages and features have sums of their own, which who gets
		 * them compares before he keeps them, wherever the sums came
		 * from: of a page in words, of a feature that is brought among
		 * its bytes.  Summing blocks on the wire too would only cost.
		 */
		.checksum = 0,
		.deadline_ns = deadline_or(n, deadline_ns),
	};
	int rc;

	if (!t)
		return epd_why(why, EPD_EUNSUPPORTED, "%s: this program has no "
		    "%s", n->address, epd_backend_name(b));
	if (is_hung(n))
		return epd_why(why, EPD_ETIMEOUT, "%s: it gave no answer a "
		    "moment ago", n->address);
	rc = t->open(t, &n->link[b], &peer, why);
	if (rc == 0 && (rc = meet(n, n->link[b], peer.deadline_ns, why)) < 0)
		epd_node_drop_link(n, b);
	return rc;
}

int
epd_node_link(struct epd_node *n, enum epd_backend b, struct epd_link **out,
    uint64_t deadline_ns, struct epd_why *why)
{
	int rc = n->link[b] ? 0 : open_link(n, b, deadline_ns, why);

	if (rc == 0)
		*out = n->link[b];
	return rc;
}

void
epd_node_drop_link(struct epd_node *n, enum epd_backend b)
{
	if (!n->link[b])
		return;
	epd_link_ops(n->link[b])->close(n->link[b]);
	n->link[b] = NULL;
	n->stale = 1;
}

void
epd_node_leave(struct epd_node *n, enum epd_backend b, struct epd_link *l,
    uint64_t window, int broken)
{
	if (broken)
		epd_node_drop_link(n, b);
	else if (window)
		(void)epd_link_ops(l)->shut(l, window,
		    epd_clock_boot_ns() + UINT64_C(1000000000), NULL);
}

/* What is the peer's answer leaves a link whole; what is the link's does not. */
static int
is_links(int rc)
{
	return rc == EPD_EPEER || rc == EPD_ETIMEOUT || rc == EPD_EAUTH ||
	    rc == -EPIPE || rc == -ECONNRESET || rc == -ECANCELED;
}

void
epd_node_failed(struct epd_node *n, enum epd_backend b, int rc)
{
	if (is_links(rc))
		epd_node_drop_link(n, b);
}

/* Who waits is told once what for. */
static void
tell_waiting(struct epd_node *n, const struct epd_why *why, uint64_t now,
    uint64_t deadline_ns)
{
	const struct epd_listener *l = &n->here->listener;
	char text[sizeof why->text + EPD_NODE_ADDRESS + 64];

	if (!n->lost_ns)
		n->lost_ns = now;
	if (n->told || !l->fn || now - n->lost_ns < TOLD_NS ||
	    now >= deadline_ns)
		return;
	n->told = 1;
	snprintf(text, sizeof text, "%s: %s; it is tried again for %llu s",
	    n->address, *why->text ? why->text : "it is lost",
	    (unsigned long long)((deadline_ns - now) / (1000 * MS)));
	l->fn(l->arg, text);
}

void
epd_node_waits(struct epd_node *n, int rc, uint64_t deadline_ns)
{
	const struct epd_why lost = { "the connection is lost" };

	if (rc == EPD_EPEER) {
		tell_waiting(n, &lost, epd_clock_boot_ns(), deadline_ns);
	} else if (rc >= 0) {
		n->lost_ns = 0;
		n->told = 0;
	}
}

/* 1 if it may go otherwise when it is tried again, after a moment's sleep. */
static int
again(struct epd_node *n, enum epd_backend b, int rc, uint64_t *wait_ns,
    uint64_t deadline_ns, const struct epd_why *why)
{
	epd_node_failed(n, b, rc);
	if (rc != EPD_EPEER)
		return 0;
	tell_waiting(n, why, epd_clock_boot_ns(), deadline_ns);
	if (!epd_back_off(wait_ns, deadline_ns))
		return 0;
	epd_count(n->here->metrics, EPD_M_TRANSFER_RETRIES, 1);
	return 1;
}

int
epd_node_try(struct epd_node *n, enum epd_backend b,
    int (*fn)(void *arg, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why), void *arg, uint64_t deadline_ns, struct epd_why *why)
{
	const uint64_t deadline = deadline_or(n, deadline_ns);
	const uint64_t began = epd_clock_boot_ns();
	struct epd_why own = {{0}};
	uint64_t wait_ns = 0;
	struct epd_link *l;
	int rc;

	do {
		rc = epd_node_link(n, b, &l, deadline, &own);
		if (rc == 0)
			rc = fn(arg, l, deadline, &own);
	} while (rc < 0 && again(n, b, rc, &wait_ns, deadline, &own));
	if (b == n->control)
		note_hung(n, rc, began);
	if (rc < 0 && *own.text)
		return epd_why(why, rc, "%s", own.text);
	if (rc >= 0)
		epd_node_waits(n, rc, deadline);
	return rc;
}

enum epd_backend
epd_node_control(const struct epd_node *n)
{
	return n->control;
}

int
epd_node_ask_by(struct epd_node *n, enum epd_backend b, enum epd_ask verb,
    struct epd_span ask, struct epd_buf *answer, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_link *l;
	int rc = epd_node_link(n, b, &l, deadline_ns, why);

	return rc < 0 ? rc : epd_link_ops(l)->call(l, (uint16_t)verb, ask,
	    answer, deadline_ns, why);
}

int
epd_node_ask_once(struct epd_node *n, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	const uint64_t began = epd_clock_boot_ns();
	const int rc = epd_node_ask_by(n, n->control, verb, ask, answer,
	    deadline_or(n, deadline_ns), why);

	epd_node_failed(n, n->control, rc);
	note_hung(n, rc, began);
	return rc;
}

struct question {
	enum epd_ask verb;
	struct epd_span ask;
	struct epd_buf *answer;
};

static int
call(void *arg, struct epd_link *l, uint64_t deadline_ns, struct epd_why *why)
{
	const struct question *q = arg;

	return epd_link_ops(l)->call(l, (uint16_t)q->verb, q->ask, q->answer,
	    deadline_ns, why);
}

int
epd_node_ask(struct epd_node *n, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why)
{
	struct question q = { verb, ask, answer };

	/* Each verb may be asked twice: what was done is done. */
	return epd_node_try(n, n->control, call, &q, deadline_ns, why);
}

int
epd_node_make(struct epd_node *n, const char *name, char out[EPD_WORKFLOW],
    uint8_t uuid[16], uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf b = {0}, answer = {0};
	char made[EPD_WORKFLOW];
	struct epd_span id;
	struct epd_cur c;
	int rc;

	epd_ask_str(&b, name);
	rc = b.failed ? -ENOMEM : (*name ? epd_node_ask : epd_node_ask_once)(n,
	    EPD_ASK_MAKE, epd_span(b.p, b.n), &answer, deadline_ns, why);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0) {
		(void)epd_ask_take_str(&c, made, sizeof made);
		id = epd_unpack_bytes(&c, 16);
		if (c.failed || !epd_workflow_name_ok(made)) {
			rc = epd_ask_no_answer(why);
		} else {
			memcpy(out, made, sizeof made);
			memcpy(uuid, id.p, 16);
		}
	}
	epd_buf_free(&b);
	epd_buf_free(&answer);
	return rc;
}

/* ---- nodes ---- */

int
epd_node_refresh(struct epd_node *n, uint64_t deadline_ns, struct epd_why *why)
{
	const uint64_t deadline = deadline_or(n, deadline_ns);
	struct epd_link *l;
	int rc = epd_node_link(n, n->control, &l, deadline, why);

	/* Who comes anew is told as he comes. */
	if (rc == 0)
		rc = meet(n, l, deadline, why);
	if (is_links(rc))
		epd_node_drop_link(n, n->control);
	return rc;
}

int
epd_node_open(struct epd_node **out, struct epd_store *here,
    const char *address, uint64_t deadline_ns, struct epd_why *why)
{
	const uint64_t began = epd_clock_boot_ns();
	struct epd_link *l;
	struct epd_node *n;
	int rc;

	if (!epd_node_is_address(address) ||
	    strlen(address) >= EPD_NODE_ADDRESS)
		return epd_why(why, EPD_EUSAGE, "%.80s: a peer is "
		    "tcp://HOST:PORT or unix:///PATH", address);
	if (!(n = epd_calloc(1, sizeof *n)))
		return epd_why(why, -ENOMEM, "no memory");
	n->here = here;
	memcpy(n->address, address, strlen(address) + 1);
	n->control = is_unix(n) ? EPD_VIA_SHM : EPD_VIA_TCP;
	/* No other one's, of this store or of a peer's. */
	memcpy(&n->plans, here->uuid, sizeof n->plans);
	n->plans ^= epd_clock_boot_ns();
	epd_ledger_default(&n->books);
	rc = getrandom(n->party, sizeof n->party, 0) ==
	    (ssize_t)sizeof n->party ? read_key(n, why) :
	    epd_why(why, -EIO, "no randomness to be had");
	if (rc == 0)
		rc = epd_prospect_rules(&n->rules, &here->config, why);
	if (rc == 0)
		rc = epd_node_link(n, n->control, &l, deadline_or(n,
		    deadline_ns), why);
	note_hung(n, rc, began);
	if (rc < 0) {
		epd_node_close(n);
		return rc;
	}
	*out = n;
	return 0;
}

void
epd_node_close(struct epd_node *n)
{
	if (!n)
		return;
	for (int b = 0; b < EPD_VIA_COUNT; b++)
		epd_node_drop_link(n, (enum epd_backend)b);
	if (n->key.p)
		explicit_bzero(n->key.p, n->key.cap);
	epd_buf_free(&n->key);
	epd_planner_free(n->ways.planner);
	epd_free(n->rules);
	epd_free(n);
}

struct epd_store *
epd_node_here(const struct epd_node *n)
{
	return n->here;
}

const char *
epd_node_address(const struct epd_node *n)
{
	return n->address;
}

const struct epd_node_facts *
epd_node_facts(const struct epd_node *n)
{
	return &n->facts;
}

int
epd_node_is_near(const struct epd_node *n)
{
	return is_unix(n);
}

/* ---- for plans ---- */

int
epd_node_ways(struct epd_node *n, const struct epd_ways **out,
    struct epd_why *why)
{
	struct epd_ways w;
	int rc;

	if (!n->ways.planner || n->stale) {
		rc = epd_ways_make(&w, n->here, n->address, n->rules, NULL,
		    why);
		if (rc < 0)
			return rc;
		epd_planner_free(n->ways.planner);
		n->ways = w;
		n->stale = 0;
	}
	*out = &n->ways;
	return 0;
}

uint64_t
epd_node_plan_id(struct epd_node *n)
{
	const uint64_t id = n->plans;

	/* A selector that has failed some times counts on from there. */
	n->plans += EPD_PLAN_CANDIDATES + EPD_LEGACY_ATTEMPTS + 1;
	return id;
}

struct epd_operations *
epd_node_operations(struct epd_node *n)
{
	return &n->how;
}

/* What a peer answers tells nothing of the way that its answer came. */
static int
is_ways(int rc)
{
	return is_links(rc) || rc == EPD_ECORRUPT || rc == EPD_EUNSUPPORTED ||
	    (rc > -1000 && rc != -ENOMEM && rc != -ENOSPC && rc != -ENOENT);
}

/* A failure makes a backend degraded, and the third in a row says that it is down. */
void
epd_node_observe(struct epd_node *n, enum epd_backend b, int rc, uint64_t bytes,
    uint64_t ns)
{
	struct epd_operational *o;
	uint8_t was;

	if (b <= EPD_VIA_NONE || b >= EPD_VIA_COUNT || rc == -ECANCELED ||
	    !is_ways(rc))
		return;
	o = &n->how.of[b];
	was = o->health;
	o->schema_version = EPD_PLAN_SCHEMA;
	o->backend = (uint8_t)b;
	o->observed_at_ns = epd_clock_boot_ns();
	o->valid_for_ns = FRESH_NS;
	o->confidence = 1;
	n->failures[b] = rc == 0 ? 0 : n->failures[b] + 1;
	if (rc == 0) {
		o->health = EPD_HEALTHY;
		if (bytes >= UINT64_C(1) << 20 && ns) {
			o->has_bandwidth = 1;
			o->bandwidth_bps = (double)bytes * 1e9 / (double)ns;
		}
	} else {
		o->health = n->failures[b] < 3 ? EPD_DEGRADED : EPD_DOWN;
	}
	if (o->health != was)
		o->generation++;
}

struct epd_ledger *
epd_node_books(struct epd_node *n)
{
	return &n->books;
}
