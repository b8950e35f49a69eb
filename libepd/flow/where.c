/* where.c - nodes by name, and pages of other nodes. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/stop.h"
#include "flow/transfer.h"
#include "flow/where.h"
#include "page/page.h"

#define MS UINT64_C(1000000)
enum { HINTS = 8 };
/* A node that brings less in a millisecond is not waited for. */
enum { SLOW_BYTES_MS = 4096 };
/* A directory that was away is not asked for pages again so long: a command's while. */
static const uint64_t LEFT_NS = 10000 * MS;

struct epd_dir *
epd_store_dir(struct epd_store *s)
{
	struct epd_dir_options o = { .config = &s->config,
		.metrics = s->metrics, .log = &s->log,
		.say = s->listener.fn, .arg = s->listener.arg };
	struct epd_why why = { "" };
	int rc;

	if (s->dir || s->no_dir || !*s->node)
		return s->dir;
	memcpy(o.self.uuid, s->uuid, sizeof o.self.uuid);
	memcpy(o.self.name, s->node, sizeof o.self.name);
	rc = epd_dir_open(&s->dir, &o, &why);
	if (rc < 0) {
		s->dir = NULL;
		s->no_dir = rc;
		epd_log(&s->log, "op=directory error=%s why=\"%s\"",
		    epd_errlabel(rc), why.text);
	}
	return s->dir;
}

int
epd_where_is_left(const struct epd_store *s)
{
	return epd_clock_boot_ns() < s->dir_left_ns;
}

void
epd_where_leave(struct epd_store *s, struct epd_dir *d)
{
	if (epd_dir_is_away(d))
		s->dir_left_ns = epd_clock_boot_ns() + LEFT_NS;
}

uint64_t
epd_where_soon(const struct epd_store *s)
{
	return epd_clock_boot_ns() + MS *
	    (uint64_t)s->config.directory_timeout_ms;
}

uint64_t
epd_where_asked_by(const struct epd_store *s)
{
	return epd_where_soon(s) + MS * (uint64_t)s->config.directory_timeout_ms;
}

struct named {
	const char *name;
	struct epd_node_info found;
	int n;
};

static int
is_named(void *arg, const struct epd_node_info *node)
{
	struct named *x = arg;

	if (!strcmp(node->name, x->name)) {
		x->found = *node;
		x->n++;
	}
	return 0;
}

int
epd_where_node(struct epd_store *s, const char *text,
    char address[EPD_ADDRESS], struct epd_why *why)
{
	struct named x = { .name = text };
	struct epd_why said = { "" };
	struct epd_dir *d;
	int rc;

	if (epd_node_is_address(text)) {
		if (strlen(text) >= EPD_ADDRESS)
			return epd_why(why, EPD_EUSAGE, "%.40s...: too long an "
			    "address", text);
		strcpy(address, text);
		return 0;
	}
	if (!(d = epd_store_dir(s)))
		return epd_why(why, EPD_EUSAGE, "%.80s: no address, and no "
		    "directory knows of nodes (directory.backend)", text);
	rc = epd_dir_nodes(d, is_named, &x, epd_where_asked_by(s), &said);
	if (rc < 0)
		return epd_why(why, rc, "%.80s: the directory cannot be asked "
		    "for it: %.120s", text, said.text);
	if (!x.n || !*x.found.address)
		return epd_why(why, EPD_ENOTHING, "%.80s: no such node lives, as "
		    "far as the directory can tell", text);
	if (x.n > 1)
		return epd_why(why, EPD_EAMBIGUOUS, "%.80s: %d nodes call "
		    "themselves so", text, x.n);
	memcpy(address, x.found.address, EPD_ADDRESS);
	memcpy(s->named.address, address, EPD_ADDRESS);
	memcpy(s->named.uuid, x.found.uuid, sizeof s->named.uuid);
	return 0;
}

/* ---- pages ---- */

struct hunt {
	struct epd_store *s;
	const struct epd_workflow *w;
	const struct epd_lot *lot;
	void *const *out;
	uint8_t *had;
	long left, came;
	uint64_t end_ns;
	/* Whence the lot's state came, if it did. */
	char from[EPD_WORKFLOW];
	uint32_t state, version;
	uint8_t origin[16];
};

/* Of a run that came, what is wanted: with the name, rows and sum that the log has. */
static void
take_run(struct hunt *h, uint64_t id)
{
	struct epd_run_shape shape;
	struct epd_run *table, *run;
	const struct epd_page_entry *e;

	if (epd_run_table(&table, h->w->runs, id, &shape, NULL) < 0)
		return;
	if (epd_run_open(&run, h->w->runs, id, &h->lot->shape,
	    epd_run_entries(table), epd_run_count(table), NULL) < 0) {
		epd_run_close(table);
		return;
	}
	e = epd_run_entries(run);
	for (long k = 0; k < epd_run_count(run); k++)
		for (long i = 0; i < h->lot->n; i++) {
			const struct epd_page_entry *want = h->lot->entry + i;

			if (h->had[i] || e[k].rows != want->rows ||
			    e[k].sum != want->sum ||
			    !epd_name_equal(&e[k].name, &want->name) ||
			    epd_run_verify(run, k) < 0)
				continue;
			memcpy(h->out[i], epd_run_page(run, k),
			    (size_t)h->lot->shape.bytes);
			h->had[i] = epd_run_is_given(run) ? EPD_HAD_GIVEN :
			    EPD_HAD;
			h->left--;
			h->came++;
		}
	epd_run_close(run);
	epd_run_close(table);
}

/*
 * One that breaks off or makes no sense is tried again as any peer is, but not for as
 * long: others may have the pages, and they can be computed.
 */
static uint64_t
fetched_by(const struct hunt *h)
{
	const uint64_t bytes = (uint64_t)h->left * h->lot->shape.bytes;
	const uint64_t end = epd_where_soon(h->s) + MS * (bytes / SLOW_BYTES_MS);

	return end < h->end_ns ? end : h->end_ns;
}

/* By name alone, or (of is set) of the state that it was at home. */
static int
ask_node(struct hunt *h, struct epd_node *n, int of)
{
	struct epd_pages_ask a = { .shape = h->lot->shape };
	struct epd_transfer_policy policy;
	struct epd_transferred moved;
	uint64_t *run = NULL;
	uint32_t nruns = 0;
	int rc;

	a.page = epd_calloc((size_t)h->lot->n + 1, sizeof *a.page);
	if (!a.page)
		return -ENOMEM;
	for (long i = 0; i < h->lot->n; i++)
		if (!h->had[i])
			a.page[a.n++].entry = h->lot->entry[i];
	if (of) {
		memcpy(a.workflow, h->from, sizeof a.workflow);
		a.state = h->state;
		a.version = h->version;
	}
	epd_transfer_policy_default(&policy, &h->s->config);
	policy.prefetch = EPD_PREFETCH_NEXT_STEP;
	strcpy(policy.compression, "none");
	rc = epd_pages_fetch(n, h->w, &a, &policy, fetched_by(h), &run, &nruns,
	    &moved, NULL);
	for (uint32_t i = 0; i < nruns; i++) {
		if (rc == 0)
			take_run(h, run[i]);
		(void)epd_run_free(h->w->runs, run[i]);
	}
	epd_free(run);
	epd_free(a.page);
	return rc;
}

/* A node at an address, if it is the one that was meant: 1 if it gave some. */
static int
try_node(struct hunt *h, const char *address, const uint8_t uuid[16], int of)
{
	const long had = h->came;
	struct epd_node *n;
	int rc;

	if (!memcmp(uuid, h->s->uuid, 16))
		return 0;
	/* One that is gone is not waited for as long as pages may take. */
	rc = epd_node_open(&n, h->s, address, epd_where_soon(h->s), NULL);
	if (rc == 0) {
		rc = memcmp(epd_node_facts(n)->uuid, uuid, 16) ? EPD_ESTALE :
		    ask_node(h, n, of);
		epd_node_close(n);
	}
	epd_log(&h->s->log, "op=locate node=%s run=%016llx pages=%ld rc=%d",
	    address, (unsigned long long)h->lot->run, h->came - had, rc);
	if (h->came == had)
		epd_count(h->s->metrics, EPD_M_DIR_STALE, 1);
	return h->came > had;
}

/*
 * Who is said to have the last of those wanted, and so all before it: 1 if it is
 * somebody else.
 */
static int
by_hints(struct hunt *h, struct epd_dir *d, int again)
{
	struct epd_hint hint[HINTS];
	char key[2 * EPD_NAME + 1];
	long last = h->lot->n - 1;
	int n, others = 0;

	while (last > 0 && (h->had[last] ||
	    h->lot->entry[last].rows < h->lot->shape.tokens))
		last--;
	epd_hex_format(key, h->lot->entry[last].name.b, EPD_NAME);
	n = epd_dir_find(d, EPD_HINT_PAGE, key, again, hint, HINTS,
	    epd_where_asked_by(h->s), NULL);
	for (int i = 0; i < n && h->left; i++) {
		others |= memcmp(hint[i].owner, h->s->uuid, 16) != 0;
		(void)try_node(h, hint[i].address, hint[i].owner, 0);
	}
	return others;
}

/* What the root's note says of where the state was before, if it was elsewhere. */
static void
whence(struct hunt *h, struct epd_span note)
{
	struct epd_json *j = NULL;
	const char *from, *origin;
	struct epd_ref ref;

	if (!note.n || epd_json_parse(&j, note, "note", NULL) < 0)
		return;
	from = epd_json_str(epd_json_get(j, "from"), NULL);
	origin = epd_json_str(epd_json_get(j, "origin"), NULL);
	if (from && origin && epd_ref_parse(&ref, h->s, from, NULL) == 0 &&
	    ref.kind == EPD_REF_STATE &&
	    epd_hex_parse(h->origin, 16, origin) == 0) {
		memcpy(h->from, ref.workflow, sizeof h->from);
		h->state = ref.state;
		h->version = (uint32_t)epd_json_int(epd_json_get(j, "version"),
		    0);
	}
	epd_json_free(j);
}

struct root {
	struct hunt *h;
	int found;
};

/* The root whose pages the lot's are: it names the run, or links it. */
static int
is_root(void *arg, const struct epd_version *v)
{
	struct root *x = arg;
	int has = v->run == x->h->lot->run;

	for (uint32_t i = 0; i < v->nlinks; i++)
		has |= v->links[i].run == x->h->lot->run;
	if (!has || v->parent)
		return 0;
	whence(x->h, v->note);
	return x->found = 1;
}

static void
by_owner(struct hunt *h, struct epd_dir *d)
{
	struct epd_node_info node;
	uint64_t term;

	if (*h->from && epd_dir_owner(d, h->origin, &node, &term,
	    epd_where_asked_by(h->s), NULL) == 1)
		(void)try_node(h, node.address, node.uuid, 1);
}

/*
 * A sum is no signature: of what was computed here it would not do, so who is not
 * trusted is asked only for what is a peer's anyway.
 */
static int
is_peers(struct hunt *h)
{
	struct root x = { .h = h };

	(void)epd_shard_runs(h->w->shard, is_root, &x);
	return h->lot->given || *h->from || h->s->config.trust_peers;
}

static int
goes_on(const struct hunt *h, struct epd_dir *d)
{
	return h->left && !epd_dir_is_away(d) && !epd_is_stopped();
}

long
epd_where_pages(struct epd_store *s, const struct epd_workflow *w,
    const struct epd_lot *lot, void *const *out, uint8_t *had)
{
	struct hunt h = { .s = s, .w = w, .lot = lot, .out = out, .had = had,
		.end_ns = epd_clock_boot_ns() + MS *
		    (uint64_t)s->config.transfer_timeout_ms };
	struct epd_dir *d = s->transports ? epd_store_dir(s) : NULL;

	if (!d || w->runs < 0 || !w->shard ||
	    epd_where_is_left(s) || !is_peers(&h))
		return 0;
	for (long i = 0; i < lot->n; i++)
		h.left += !had[i];
	/* Where nobody was named there is nothing that did not hold. */
	if (by_hints(&h, d, 0) && goes_on(&h, d))
		(void)by_hints(&h, d, 1);
	if (goes_on(&h, d))
		by_owner(&h, d);
	epd_where_leave(s, d);
	return h.came;
}
