/*
 * wire_guest.c - guests that lie: questions cut short, too long, at odds with themselves;
 * windows, runs and workflows that are not theirs; parcels of nonsense.  The store is as
 * it was, what they were granted is given back, and nothing of where things lie is told.
 */
#include <sys/resource.h>

#include "tests/check.h"
#include "tests/unit/depot_guest.h"
#include "serve/guest.h"

static const char *const verbs[EPD_ASKS] = {
	[EPD_ASK_NODE] = "node", [EPD_ASK_HAVE] = "have",
	[EPD_ASK_READ_PAGES] = "read pages",
	[EPD_ASK_WRITE_PAGES] = "write pages",
	[EPD_ASK_KEEP_PAGES] = "keep pages",
	[EPD_ASK_HAS_FEATURE] = "has feature",
	[EPD_ASK_READ_FEATURE] = "read feature",
	[EPD_ASK_WRITE_FEATURE] = "write feature",
	[EPD_ASK_KEEP_FEATURE] = "keep feature", [EPD_ASK_MAKE] = "make",
	[EPD_ASK_UNMAKE] = "unmake", [EPD_ASK_STATE] = "state",
	[EPD_ASK_REACH] = "reach", [EPD_ASK_LOOK] = "look",
	[EPD_ASK_PREPARE] = "prepare", [EPD_ASK_READY] = "ready",
	[EPD_ASK_SYNC] = "sync", [EPD_ASK_COMMIT] = "commit",
	[EPD_ASK_ROLLBACK] = "rollback", [EPD_ASK_FORGET] = "forget",
	[EPD_ASK_STATUS] = "status", [EPD_ASK_HAD] = "had",
	[EPD_ASK_ADOPT_PAGES] = "adopt", [EPD_ASK_OFFER] = "offer",
};

static struct manor m;
static struct group g0;

/* ---- questions that are good, but for what a test does to them ---- */

static void
good_pages(struct epd_buf *b, enum epd_ask verb)
{
	struct epd_pages_ask a;

	group_ask(&g0, &a);
	if (verb == EPD_ASK_READ_PAGES) {
		memcpy(a.workflow, "w1", 3);
		a.state = 1;
	} else {
		memcpy(a.workflow, "w2", 3);
		memcpy(a.uuid, m.w2, 16);
		for (uint32_t i = 0; i < a.n; i++) {
			a.page[i].there = 1;
			a.page[i].bytes = DEPOT_PAGE;
			a.page[i].packed_sum = a.page[i].entry.sum;
		}
	}
	epd_pages_ask_pack(b, &a);
	epd_free(a.page);
}

static struct epd_half_ask
good_half(void)
{
	struct epd_half_ask a = { .state = 1, .version = 1 };

	memcpy(a.workflow, "w1", 3);
	memcpy(a.uuid, m.w1, 16);
	memset(a.id, 9, 16);
	return a;
}

static void
good_offer(struct epd_half_ask *a)
{
	memcpy(a->store, "away:", 6);
	memcpy(a->peer, "w9", 3);
	memset(a->h.peer, 3, 16);
	memset(a->h.home, 4, 16);
	a->timeout_ms = 60000;
}

static void
pack_ready(struct epd_buf *b, const struct epd_half_ask *a, struct epd_span parcel,
    const struct epd_page_ref *page, uint32_t n, const uint64_t *run,
    uint32_t nruns)
{
	epd_half_ask_pack(b, a);
	epd_pack_span(b, parcel);
	epd_pack_u8(b, 0);
	epd_ask_refs_pack(b, page, n);
	epd_pack_u32(b, nruns);
	for (uint32_t i = 0; i < nruns; i++)
		epd_pack_u64(b, run[i]);
}

static struct epd_half_ask
good_target(void)
{
	struct epd_half_ask a = { .lsn = 0 };

	memcpy(a.workflow, "w2", 3);
	memcpy(a.uuid, m.w2, 16);
	memset(a.id, 5, 16);
	good_offer(&a);
	a.h.target = 1;
	return a;
}

static void
good_ready(struct epd_buf *b)
{
	const struct epd_half_ask a = good_target();
	const struct epd_version v = { .ids = g0.ids, .nids = g0.nids,
	    .next_pos = g0.nids };
	struct epd_buf parcel = {0};

	epd_parcel_pack(&parcel, &g0.traits, &v);
	pack_ready(b, &a, epd_span(parcel.p, parcel.n), g0.page, g0.n, NULL, 0);
	epd_buf_free(&parcel);
}

/* A question that would be answered. */
static void
good(struct epd_buf *b, enum epd_ask verb)
{
	struct epd_half_ask a = good_half();
	const struct epd_name fp = numbered(1).fp;
	struct epd_pages_ask p;

	b->n = 0;
	switch (verb) {
	case EPD_ASK_NODE: epd_ask_node_pack(b, "", (uint8_t[16]){0}); break;
	case EPD_ASK_HAVE:
		group_ask(&g0, &p);
		epd_ask_pages_pack(b, p.page, p.n);
		epd_free(p.page);
		break;
	case EPD_ASK_READ_PAGES: case EPD_ASK_WRITE_PAGES:
		good_pages(b, verb);
		break;
	case EPD_ASK_KEEP_PAGES: case EPD_ASK_KEEP_FEATURE:
		epd_pack_u64(b, 1);
		break;
	case EPD_ASK_HAS_FEATURE: case EPD_ASK_READ_FEATURE:
		epd_buf_put(b, fp.b, EPD_NAME);
		if (verb == EPD_ASK_READ_FEATURE)
			epd_pack_u8(b, 1);
		break;
	case EPD_ASK_WRITE_FEATURE:
		epd_buf_put(b, fp.b, EPD_NAME);
		for (int i = 0; i < EPD_PARTS; i++)
			epd_pack_u64(b, 100);
		break;
	case EPD_ASK_MAKE: epd_ask_str(b, "w7"); break;
	case EPD_ASK_ADOPT_PAGES:
		epd_ask_str(b, "w2");
		epd_buf_put(b, m.w2, 16);
		epd_pack_u32(b, 1);
		epd_pack_u32(b, 0);
		break;
	case EPD_ASK_READY: good_ready(b); break;
	case EPD_ASK_STANDING:
		epd_standing_ask_pack(b, (uint8_t[16]){4}, "w1");
		break;
	case EPD_ASK_OFFER: case EPD_ASK_PREPARE:
		good_offer(&a);
		epd_half_ask_pack(b, &a);
		break;
	default: epd_half_ask_pack(b, &a); break;
	}
}

static void
up(void)
{
	g0 = group(1, 3, NULL);
	manor_begin(&m);
}

/* All it was granted is back, and all is as it was, but for what the log tells. */
#define DOWN() do { \
	CHECK(manor_is_even(&m)); \
	manor_end(&m); \
} while (0)

/* ---- bodies ---- */

TEST(cut_short_or_too_long)
{
	struct epd_buf q = {0};
	struct guest g;
	uint64_t was;

	up();
	guest_begin(&g, &m, 1);
	was = manor_print(&m);
	for (int verb = 1; verb < EPD_ASKS; verb++) {
		size_t n;

		good(&q, (enum epd_ask)verb);
		n = q.n;
		for (size_t cut = 0; cut < n; cut++) {
			const int rc = guest_ask(&g, (enum epd_ask)verb,
			    epd_span(q.p, cut));

			if (rc >= 0)
				CHECK_FAIL("%s is answered cut to %zu of %zu",
				    verbs[verb], cut, n);
			CHECK(g.opened.id == 0);
			CHECK_INT(g.answer.n, 0);
		}
		for (int more = 1; more < 20; more++) {
			epd_pack_u8(&q, (uint8_t)(more * 37));
			if (guest_ask(&g, (enum epd_ask)verb,
			    epd_span(q.p, q.n)) >= 0)
				CHECK_FAIL("%s is answered with %d bytes more",
				    verbs[verb], more);
		}
	}
	/* And verbs that there are none of. */
	for (int i = 0; i < 3; i++)
		CHECK_INT(guest_ask(&g, (enum epd_ask)((int[]){ 0, EPD_ASKS,
		    65535 })[i], epd_span("", 0)), EPD_EUNSUPPORTED);
	CHECK(manor_print(&m) == was);
	guest_end(&g);
	epd_buf_free(&q);
	DOWN();
}

/* Any byte of a good question otherwise: whatever is answered, nothing breaks. */
TEST(a_byte_otherwise)
{
	struct epd_buf q = {0};
	unsigned seed = 7;

	up();
	for (int round = 0; round < 40; round++) {
		struct guest g;

		guest_begin(&g, &m, round % 2);
		for (int i = 0; i < 100; i++) {
			const int verb = 1 + rand_r(&seed) % (EPD_ASKS - 1);

			good(&q, (enum epd_ask)verb);
			for (int k = 1 + rand_r(&seed) % 3; k; k--)
				((uint8_t *)q.p)[(size_t)rand_r(&seed) % q.n] =
				    (uint8_t)(rand_r(&seed) >> 3);
			(void)guest_ask(&g, (enum epd_ask)verb,
			    epd_span(q.p, q.n));
		}
		guest_end(&g);
	}
	epd_buf_free(&q);
	CHECK_INT(depot_check(&m.d), 0);
	DOWN();
}

/* ---- pages that contradict themselves ---- */

static int
write_as(struct guest *g, void (*change)(struct epd_pages_ask *a))
{
	struct epd_pages_ask a;
	struct epd_buf q = {0};
	struct epd_cur c;
	int rc;

	good_pages(&q, EPD_ASK_WRITE_PAGES);
	c = epd_cur(epd_span(q.p, q.n));
	if (epd_pages_ask_unpack(&c, &a) < 0)
		depot_die("write", "no question");
	change(&a);
	q.n = 0;
	epd_pages_ask_pack(&q, &a);
	epd_pages_ask_free(&a);
	rc = guest_ask(g, EPD_ASK_WRITE_PAGES, epd_span(q.p, q.n));
	epd_buf_free(&q);
	return rc;
}

#define CHANGE(name, what) \
	static void name(struct epd_pages_ask *a) { what; }
CHANGE(none_there, for (uint32_t i = 0; i < a->n; i++) a->page[i].there = 0)
CHANGE(there_many, a->page[1].there = 255)
CHANGE(there_two, a->page[0].there = 2)
CHANGE(no_bytes, a->shape.bytes = 0; for (uint32_t i = 0; i < a->n; i++)
    a->page[i].bytes = 0)
CHANGE(a_page_of_no_bytes, a->page[1].bytes = 0)
CHANGE(bytes_that_overflow, a->shape.bytes = UINT64_MAX / 2 + 1)
CHANGE(bytes_and_more, a->page[2].bytes = UINT64_MAX; a->page[1].bytes = 2)
CHANGE(huge, a->shape.bytes = UINT64_C(1) << 40; for (uint32_t i = 0; i < a->n;
    i++) a->page[i].bytes = UINT64_C(1) << 40)
CHANGE(odd_bytes, a->shape.bytes = 8191; for (uint32_t i = 0; i < a->n; i++)
    a->page[i].bytes = 8191)
CHANGE(other_type, a->shape.type = 7)
CHANGE(other_kind, a->shape.kind = 2)
CHANGE(other_tokens, a->shape.tokens = 17)
CHANGE(no_tokens, a->shape.tokens = 0)
CHANGE(no_rows, a->page[0].entry.rows = 0)
CHANGE(many_rows, a->page[0].entry.rows = 17)
CHANGE(no_codec, memcpy(a->codec, "zip", 4))
CHANGE(packed_larger, memcpy(a->codec, "fp8", 4); a->page[0].bytes = 1 << 20)
CHANGE(no_workflow, *a->workflow = 0)
CHANGE(up_and_out, memcpy(a->workflow, "../w", 5))
CHANGE(another_uuid, a->uuid[3] ^= 1)
CHANGE(nobodys, memcpy(a->workflow, "w3", 3))

/* A reason is kept in the log, and read by whoever looks there. */
TEST(words_that_a_terminal_would_heed)
{
	struct epd_half_ask a = good_half(), got;
	struct epd_buf b = {0};
	struct epd_cur c;

	snprintf(a.reason, sizeof a.reason, "so\x1b[2Jit\nop=x \xc2\x9b/srv/k");
	epd_half_ask_pack(&b, &a);
	c = epd_cur(epd_span(b.p, b.n));
	CHECK_INT(epd_half_ask_unpack(&c, &got), 0);
	CHECK_STR(got.reason, "so?[2Jit?op=x ?(path)");
	epd_buf_free(&b);
}

TEST(pages_that_contradict_themselves)
{
	static const struct { void (*change)(struct epd_pages_ask *a); int rc; }
	    bad[] = {
		{ none_there, EPD_EFORMAT }, { there_many, EPD_EFORMAT },
		{ there_two, EPD_EFORMAT }, { no_bytes, EPD_EFORMAT },
		{ a_page_of_no_bytes, EPD_EFORMAT },
		{ bytes_that_overflow, EPD_ETOOBIG },
		{ bytes_and_more, EPD_ETOOBIG }, { huge, EPD_ETOOBIG },
		{ odd_bytes, EPD_EFORMAT }, { other_type, EPD_EFORMAT },
		{ other_kind, EPD_EFORMAT }, { other_tokens, EPD_EFORMAT },
		{ no_tokens, EPD_EFORMAT }, { no_rows, EPD_EFORMAT },
		{ many_rows, EPD_EFORMAT }, { no_codec, EPD_EUNSUPPORTED },
		{ packed_larger, EPD_EFORMAT }, { no_workflow, EPD_ENOTHING },
		{ up_and_out, EPD_ENOTHING }, { another_uuid, EPD_ENOTHING },
		{ nobodys, EPD_ENOTHING },
	};
	struct guest g;
	uint64_t was;

	up();
	guest_begin(&g, &m, 0);
	was = manor_print(&m);
	/* More often than there are slots: none may be lost. */
	for (int round = 0; round < 8; round++)
		for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
			CHECK_INT(write_as(&g, bad[i].change), bad[i].rc);
			CHECK(g.opened.id == 0);
			CHECK(manor_is_even(&m));
		}
	CHECK(manor_print(&m) == was);
	guest_end(&g);
	DOWN();
}

TEST(features_that_contradict_themselves)
{
	static const uint64_t size[][EPD_PARTS] = {
		{ 0, 0, 0 }, { UINT64_MAX, 1, 1 }, { 1, UINT64_MAX, 1 },
		{ EPD_FEATURE_PART + UINT64_C(1), 0, 0 },
		{ EPD_FEATURE_PART, EPD_FEATURE_PART, EPD_FEATURE_PART },
	};
	struct guest g;
	uint64_t was;

	up();
	guest_begin(&g, &m, 0);
	was = manor_print(&m);
	for (int round = 0; round < 10; round++)
		for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
			struct epd_buf q = {0};
			const struct epd_name fp = numbered(99).fp;

			epd_buf_put(&q, fp.b, EPD_NAME);
			for (int k = 0; k < EPD_PARTS; k++)
				epd_pack_u64(&q, size[i][k]);
			CHECK(guest_ask(&g, EPD_ASK_WRITE_FEATURE,
			    epd_span(q.p, q.n)) < 0);
			CHECK(g.opened.id == 0);
			epd_buf_free(&q);
			CHECK(manor_is_even(&m));
		}
	CHECK(manor_print(&m) == was);
	guest_end(&g);
	DOWN();
}

/* ---- windows ---- */

static int
ask_u64(struct guest *g, enum epd_ask verb, uint64_t v)
{
	struct epd_buf q = {0};
	int rc;

	epd_pack_u64(&q, v);
	rc = guest_ask(g, verb, epd_span(q.p, q.n));
	epd_buf_free(&q);
	return rc;
}

static uint64_t
open_window(struct guest *g, enum epd_ask verb)
{
	struct epd_buf q = {0};
	int rc;

	good(&q, verb);
	rc = guest_ask(g, verb, epd_span(q.p, q.n));
	epd_buf_free(&q);
	return rc < 0 ? 0 : g->opened.id;
}

/* The group's bytes into the window that was opened last. */
static void
fill_window(struct guest *g, uint32_t number)
{
	for (uint32_t i = 0; i < g->opened.n; i++)
		group_bytes(g->opened.extent[i].p, number, i);
}

TEST(a_window_of_another_kind_or_guest)
{
	static const enum epd_ask opens[] = { EPD_ASK_READ_PAGES,
		EPD_ASK_WRITE_PAGES, EPD_ASK_READ_FEATURE,
		EPD_ASK_WRITE_FEATURE };
	struct guest a, b;
	uint64_t was;

	up();
	guest_begin(&a, &m, 0);
	guest_begin(&b, &m, 0);
	was = manor_runs(&m);
	for (int i = 0; i < 4; i++) {
		const uint64_t id = open_window(&a, opens[i]);

		CHECK(id);
		for (int k = 0; k < 2; k++) {
			const enum epd_ask keep = k ? EPD_ASK_KEEP_FEATURE :
			    EPD_ASK_KEEP_PAGES;

			/* Another guest's numbers are not one's own. */
			CHECK_INT(ask_u64(&b, keep, id), EPD_EFORMAT);
			CHECK_INT(ask_u64(&a, keep, id + 1), EPD_EFORMAT);
			CHECK_INT(ask_u64(&a, keep, 0), EPD_EFORMAT);
			CHECK_INT(ask_u64(&a, keep, UINT64_MAX), EPD_EFORMAT);
			if (opens[i] != (k ? EPD_ASK_WRITE_FEATURE :
			    EPD_ASK_WRITE_PAGES))
				CHECK_INT(ask_u64(&a, keep, id), EPD_EFORMAT);
		}
	}
	/* Of its own kind, but not what was said of it. */
	CHECK_INT(ask_u64(&a, EPD_ASK_KEEP_PAGES, 2), EPD_ECORRUPT);
	CHECK_INT(ask_u64(&a, EPD_ASK_KEEP_FEATURE, 4), EPD_ECORRUPT);
	CHECK(manor_runs(&m) == was);
	guest_end(&a);
	guest_end(&b);
	DOWN();
}

TEST(kept_twice_or_written_after)
{
	struct epd_opened o;
	struct guest g;
	uint64_t id;

	up();
	guest_begin(&g, &m, 0);
	CHECK((id = open_window(&g, EPD_ASK_WRITE_PAGES)));
	o = g.opened;
	fill_window(&g, 1);
	CHECK_INT(ask_u64(&g, EPD_ASK_KEEP_PAGES, id), 0);
	CHECK_INT(depot_runs(&m.d, "w2"), 1);
	/* What a run has been made of is no memory of the window's any more. */
	for (uint32_t i = 0; i < o.n; i++)
		CHECK(o.extent[i].p == NULL && o.extent[i].fd < 0);
	CHECK_INT(ask_u64(&g, EPD_ASK_KEEP_PAGES, id), EPD_EFORMAT);
	CHECK_INT(depot_runs(&m.d, "w2"), 1);
	guest_gone(&g, id);
	CHECK_INT(ask_u64(&g, EPD_ASK_KEEP_PAGES, id), EPD_EFORMAT);
	guest_end(&g);
	CHECK_INT(depot_runs(&m.d, "w2"), 0);
	DOWN();
}

/* ---- ready ---- */

struct parcel {
	struct epd_state traits;
	struct epd_version v;
	struct epd_page_ref page[DEPOT_MOST];
	uint32_t npages;
};

static struct parcel
good_parcel(void)
{
	struct parcel p = { .traits = g0.traits, .npages = g0.n,
	    .v = { .ids = g0.ids, .nids = g0.nids, .next_pos = g0.nids } };

	memcpy(p.page, g0.page, sizeof p.page);
	return p;
}

static int
ask_ready(struct guest *g, const struct parcel *p, const uint64_t *run,
    uint32_t nruns)
{
	const struct epd_half_ask a = good_target();
	struct epd_buf parcel = {0}, q = {0};
	int rc;

	epd_parcel_pack(&parcel, &p->traits, &p->v);
	pack_ready(&q, &a, epd_span(parcel.p, parcel.n), p->page, p->npages,
	    run, nruns);
	rc = guest_ask(g, EPD_ASK_READY, epd_span(q.p, q.n));
	epd_buf_free(&parcel);
	epd_buf_free(&q);
	return rc;
}

/* Its number where it went. */
static uint64_t
keep_good(struct guest *g)
{
	const uint64_t id = open_window(g, EPD_ASK_WRITE_PAGES);
	struct epd_cur c;

	fill_window(g, 1);
	if (!id || ask_u64(g, EPD_ASK_KEEP_PAGES, id) < 0)
		return 0;
	c = epd_cur(epd_span(g->answer.p, g->answer.n));
	guest_gone(g, id);
	return epd_unpack_u64(&c);
}

/* Who says that he will write takes nothing from anybody before he has written. */
TEST(nothing_goes_for_what_has_not_come)
{
	struct epd_serving_options o = { .slots = MANOR_SLOTS,
	    .bytes = 64 << 20 };
	struct guest g;
	uint64_t id;

	up();
	epd_serving_free(m.serving);
	/* Room for w1's run and a little. */
	m.d.config.memory_cap = 56 << 10;
	o.store = m.o;
	CHECK_INT(epd_serving_new(&m.serving, &m.host, &o, NULL), 0);
	epd_serving_credits(m.serving, &m.full);
	guest_begin(&g, &m, 0);
	CHECK_INT(depot_runs(&m.d, "w1"), 1);
	for (int i = 0; i < 3; i++) {
		CHECK((id = open_window(&g, EPD_ASK_WRITE_PAGES)));
		CHECK_INT(depot_runs(&m.d, "w1"), 1);
		/* Nor for what came damaged. */
		if (i == 1)
			CHECK_INT(ask_u64(&g, EPD_ASK_KEEP_PAGES, id),
			    EPD_ECORRUPT);
		guest_gone(&g, id);
		CHECK_INT(depot_runs(&m.d, "w1"), 1);
	}
	CHECK(keep_good(&g));
	CHECK_INT(depot_runs(&m.d, "w1"), 0);
	CHECK_INT(depot_runs(&m.d, "w2"), 1);
	guest_end(&g);
	DOWN();
}

/* Its windows are shut and their credit is back; what they became takes room still. */
TEST(runs_that_nobody_names_are_bounded)
{
	enum { CAP = 1 << 20, WINDOW = 3 * DEPOT_PAGE };
	const int share = (CAP - CAP / 4) / WINDOW, all = CAP / WINDOW;
	struct epd_serving_options o = { .slots = MANOR_SLOTS,
	    .bytes = 4 * WINDOW };
	struct guest a, b, c;

	up();
	epd_serving_free(m.serving);
	/* The tier itself has room for more, so that it is not what refuses. */
	m.d.config.memory_cap = CAP;
	o.store = m.o;
	CHECK_INT(epd_serving_new(&m.serving, &m.host, &o, NULL), 0);
	m.d.config.memory_cap = 64 << 20;
	epd_serving_credits(m.serving, &m.full);
	guest_begin(&a, &m, 0);
	guest_begin(&b, &m, 0);
	for (int i = 0; i < share; i++)
		CHECK(keep_good(&a));
	/* Told before a byte was sent, and there is nothing to wait for. */
	for (int i = 0; i < 3; i++) {
		CHECK(!open_window(&a, EPD_ASK_WRITE_PAGES));
		CHECK(strstr(a.why.text, "that no hand-off names") != NULL);
	}
	CHECK(manor_is_even(&m));
	CHECK_INT(depot_runs(&m.d, "w2"), share);
	/* Nor by another link of its own. */
	guest_come(&c, &m, 0);
	{
		struct epd_buf q = {0};

		epd_ask_node_pack(&q, "", a.g->party);
		CHECK_INT(guest_ask(&c, EPD_ASK_NODE, epd_span(q.p, q.n)), 0);
		epd_buf_free(&q);
	}
	CHECK(!open_window(&c, EPD_ASK_WRITE_PAGES));
	guest_end(&c);
	/* Another has what is left, and no more; a window that is open counts. */
	for (int i = share; i < all; i++)
		CHECK(keep_good(&b));
	CHECK(!open_window(&b, EPD_ASK_WRITE_PAGES));
	CHECK(strstr(b.why.text, "together") != NULL);
	CHECK_INT(depot_runs(&m.d, "w2"), all);
	/* Who ends gives all back. */
	guest_end(&a);
	CHECK_INT(depot_runs(&m.d, "w2"), all - share);
	for (int i = all - share; i < share; i++) {
		const uint64_t id = open_window(&b, EPD_ASK_WRITE_PAGES);

		/* One that came to nothing is not counted. */
		CHECK(id);
		guest_gone(&b, id);
		CHECK(keep_good(&b));
	}
	CHECK(!open_window(&b, EPD_ASK_WRITE_PAGES));
	guest_end(&b);
	CHECK_INT(depot_runs(&m.d, "w2"), 0);
	DOWN();
}

TEST(runs_that_it_did_not_write)
{
	const struct parcel p = good_parcel();
	struct guest a, b;
	uint64_t run, was;

	up();
	guest_begin(&a, &m, 0);
	guest_begin(&b, &m, 0);
	CHECK((run = keep_good(&b)));
	was = manor_print(&m);
	/* Another guest's, a state's of the workflow beside, nobody's. */
	CHECK_INT(ask_ready(&a, &p, &run, 1), EPD_ESTALE);
	CHECK_INT(ask_ready(&a, &p, &m.run, 1), EPD_ESTALE);
	CHECK_INT(ask_ready(&a, &p, &(uint64_t){ 12345 }, 1), EPD_ESTALE);
	CHECK_INT(ask_ready(&a, &p, &(uint64_t){ 0 }, 1), EPD_ESTALE);
	CHECK(manor_print(&m) == was);
	/* One of two. */
	CHECK((run = keep_good(&a)));
	was = manor_print(&m);
	CHECK_INT(ask_ready(&a, &p, (uint64_t[]){ run, 5 }, 2), EPD_ESTALE);
	CHECK(manor_print(&m) == was);
	/* Its own alone is; asked again it is the same half, and nothing more. */
	CHECK_INT(ask_ready(&a, &p, &run, 1), 0);
	was = manor_print(&m);
	CHECK_INT(ask_ready(&a, &p, &run, 1), 0);
	CHECK(manor_print(&m) == was);
	guest_end(&a);
	guest_end(&b);
	CHECK_INT(depot_runs(&m.d, "w2"), 1);
	CHECK_INT(depot_check(&m.d), 0);
	DOWN();
}

/* What follows is refused without a trace, and what was kept is as it was. */
static int
is_refused(struct guest *g, const struct parcel *p, const char *what)
{
	const uint64_t was = manor_print(&m);
	const int rc = ask_ready(g, p, NULL, 0);

	if (rc < 0 && manor_print(&m) == was)
		return 1;
	printf("# %s: %d %s\n", what, rc, g->why.text);
	return 0;
}

TEST(states_that_cannot_be)
{
	const struct epd_image_ref images[] = {
		{ .at = 10, .grid = { 1, 2, 2 } },
		{ .at = 5, .grid = { 1, 2, 2 } },
	};
	struct parcel p;
	struct guest g;

	up();
	guest_begin(&g, &m, 0);
#define REFUSED(what) do { p = good_parcel(); what; \
	CHECK(is_refused(&g, &p, #what)); } while (0)
	REFUSED(p.page[1].rows = 0);
	REFUSED(p.page[1].rows = 15);
	REFUSED(p.page[2].rows = 17);
	REFUSED(p.page[2].rows = UINT32_MAX);
	REFUSED(p.v.nids = 48);		/* pages of all tokens, the last too */
	REFUSED(p.v.nids = 1);
	REFUSED(p.v.nids = 0);
	REFUSED(p.traits.page_tokens = 0);
	REFUSED(p.traits.page_tokens = 15);
	REFUSED(p.traits.page_tokens = UINT32_MAX);
	REFUSED(p.traits.page_bytes = 0);
	REFUSED(p.traits.tenant = "another");
	REFUSED(p.v.pages = g0.page; p.v.npages = 3; p.v.run = 7);
	REFUSED(p.v.pages = g0.page; p.v.npages = 3; p.v.nlinks = 1;
	    p.v.links = (&(struct epd_run_link){ 7, 3 }));
	REFUSED(p.v.images = images; p.v.nimages = 2);
#undef REFUSED
	CHECK_INT(ask_ready(&g, &(struct parcel){ .traits = g0.traits, .v = {
	    .ids = g0.ids, .nids = g0.nids, .next_pos = g0.nids } }, NULL, 0),
	    0);
	guest_end(&g);
	CHECK_INT(depot_check(&m.d), 0);
	DOWN();
}

TEST(parcels_of_nonsense)
{
	const struct epd_half_ask a = good_target();
	unsigned seed = 11;
	struct guest g;
	uint64_t was;

	up();
	guest_begin(&g, &m, 0);
	was = manor_print(&m);
	for (int i = 0; i < 3000; i++) {
		uint8_t bytes[200];
		struct epd_buf q = {0};
		const size_t n = (size_t)rand_r(&seed) % sizeof bytes;

		for (size_t k = 0; k < n; k++)
			bytes[k] = (uint8_t)(rand_r(&seed) >> 5);
		pack_ready(&q, &a, epd_span(bytes, n), g0.page, g0.n, NULL, 0);
		CHECK(guest_ask(&g, EPD_ASK_READY, epd_span(q.p, q.n)) < 0);
		epd_buf_free(&q);
	}
	CHECK(manor_print(&m) == was);
	guest_end(&g);
	DOWN();
}

/* Our own commands would open what a half tells of as its store. */
TEST(a_half_names_no_path_here)
{
	static const char *const store[] = { "/etc", "/tmp/x", "", "x",
		"tcp:/x", "file:///tmp" };
	struct guest g;
	uint64_t was;

	up();
	guest_begin(&g, &m, 1);
	was = manor_print(&m);
	for (size_t i = 0; i < sizeof store / sizeof *store; i++) {
		const struct parcel p = good_parcel();
		struct epd_half_ask a = good_target();
		struct epd_buf parcel = {0}, q = {0};

		snprintf(a.store, sizeof a.store, "%s", store[i]);
		epd_parcel_pack(&parcel, &p.traits, &p.v);
		pack_ready(&q, &a, epd_span(parcel.p, parcel.n), p.page,
		    p.npages, NULL, 0);
		CHECK_INT(guest_ask(&g, EPD_ASK_READY, epd_span(q.p, q.n)),
		    EPD_EFORMAT);
		a = good_half();
		good_offer(&a);
		snprintf(a.store, sizeof a.store, "%s", store[i]);
		q.n = 0;
		epd_half_ask_pack(&q, &a);
		CHECK_INT(guest_ask(&g, EPD_ASK_PREPARE, epd_span(q.p, q.n)),
		    EPD_EFORMAT);
		CHECK_INT(guest_ask(&g, EPD_ASK_OFFER, epd_span(q.p, q.n)),
		    EPD_EFORMAT);
		epd_buf_free(&parcel);
		epd_buf_free(&q);
	}
	CHECK(manor_print(&m) == was);
	guest_end(&g);
	DOWN();
}

/* A state is not pinned for ever, or not at all, by what a guest says of time. */
TEST(a_guests_time_is_bounded)
{
	static const uint64_t ms[] = { UINT64_MAX, UINT64_MAX / 2,
		UINT64_C(1) << 40, 0 };
	struct epd_handoff h;
	struct epd_workflow w;
	struct guest g;

	up();
	guest_begin(&g, &m, 1);
	for (size_t i = 0; i < 4; i++) {
		struct epd_half_ask a = good_half();
		struct epd_buf q = {0};
		const uint64_t now = epd_clock_boot_ns() / MS;
		struct epd_cur c;

		good_offer(&a);
		a.timeout_ms = ms[i];
		epd_half_ask_pack(&q, &a);
		CHECK_INT(guest_ask(&g, EPD_ASK_OFFER, epd_span(q.p, q.n)), 0);
		c = epd_cur(epd_span(g.answer.p, g.answer.n));
		CHECK_INT(epd_half_ask_unpack(&c, &a), 0);
		CHECK_INT(epd_workflow_open(&w, m.d.s, "w1", 0, NULL), 0);
		CHECK_INT(epd_shard_handoff(w.shard, a.id, &h), 0);
		CHECK(h.deadline_ms >= now + 1000);
		CHECK(h.deadline_ms <= now + 86400000 + 60000);
		CHECK_INT(epd_shard_rollback_at(w.shard, a.id, 0, "test",
		    NULL), 0);
		epd_workflow_close(&w);
		epd_buf_free(&q);
	}
	guest_end(&g);
	CHECK_INT(depot_check(&m.d), 0);
	DOWN();
}

/* ---- who comes, and who goes ---- */

TEST(of_another_tenant)
{
	struct parcel p = good_parcel();
	struct epd_buf q = {0};
	struct guest g;

	up();
	guest_begin(&g, &m, 0);
	epd_ask_node_pack(&q, "another", (uint8_t[16]){0});
	CHECK_INT(guest_ask(&g, EPD_ASK_NODE, epd_span(q.p, q.n)), EPD_EMODEL);
	p.traits.tenant = "another";
	CHECK_INT(ask_ready(&g, &p, NULL, 0), EPD_EMODEL);
	guest_end(&g);
	epd_buf_free(&q);
	DOWN();
}

/* Of a state of whom the server does not serve nothing is told, and nothing is done. */
TEST(a_state_of_another_tenant)
{
	static const enum epd_ask about[] = { EPD_ASK_OFFER, EPD_ASK_STATE,
		EPD_ASK_STATUS, EPD_ASK_PREPARE, EPD_ASK_LOOK, EPD_ASK_HAD,
		EPD_ASK_SYNC, EPD_ASK_ROLLBACK, EPD_ASK_COMMIT,
		EPD_ASK_FORGET };
	struct epd_offer o = { .state = { .kind = EPD_REF_STATE,
	    .workflow = "w3", .state = 1, .version = 1 },
	    .timeout_ms = 60000 };
	struct epd_half to = { .near = 0 };
	struct epd_half_ask a = good_half();
	struct epd_buf q = {0};
	struct epd_handoff h, now;
	struct epd_workflow w;
	struct guest g;

	up();
	m.d.tenant = "another";
	group_state(&m.d, "w3", 5, 2);
	m.d.tenant = NULL;
	/* Its own tenant's hand-off is under way. */
	snprintf(m.d.s->tenant, sizeof m.d.s->tenant, "another");
	epd_half_place(&to, "away:", "w9");
	memset(to.uuid, 3, 16);
	memset(to.home, 4, 16);
	CHECK_INT(epd_flow_handoff_offer(m.d.s, &o, &to, &h, a.uuid, NULL), 0);
	guest_begin(&g, &m, 1);
	good_offer(&a);
	memcpy(a.workflow, "w3", 3);
	memcpy(a.id, h.id, 16);
	a.lsn = h.lsn;
	a.h.state = a.h.version = 1;
	epd_half_ask_pack(&q, &a);
	for (size_t i = 0; i < sizeof about / sizeof *about; i++)
		CHECK_INT(guest_ask(&g, about[i], epd_span(q.p, q.n)),
		    EPD_ENOSTATE);
	epd_buf_free(&q);
	CHECK_INT(epd_workflow_open(&w, m.d.s, "w3", 0, NULL), 0);
	CHECK_INT(epd_shard_handoff(w.shard, h.id, &now), 0);
	CHECK(now.phase == h.phase && now.lsn == h.lsn);
	CHECK_INT(epd_shard_rollback_at(w.shard, h.id, 0, "test", NULL), 0);
	epd_workflow_close(&w);
	guest_end(&g);
	*m.d.s->tenant = 0;
	DOWN();
}

/* What a guest is to write it may read: nothing of others is there. */
TEST(a_window_to_be_written_holds_nothing)
{
	const struct epd_name fp = numbered(99).fp;
	struct epd_buf q = {0};
	struct guest g;

	up();
	/* What memory there is to be had was somebody's. */
	for (size_t n = 64; n < 1 << 16; n *= 2) {
		void *p[8];

		for (int i = 0; i < 8; i++)
			if ((p[i] = malloc(n)))
				memset(p[i], 0x5a, n);
		for (int i = 0; i < 8; i++)
			free(p[i]);
	}
	guest_begin(&g, &m, 0);
	epd_buf_put(&q, fp.b, EPD_NAME);
	for (int k = 0; k < EPD_PARTS; k++)
		epd_pack_u64(&q, 3000u + (unsigned)k);
	CHECK_INT(guest_ask(&g, EPD_ASK_WRITE_FEATURE, epd_span(q.p, q.n)), 0);
	CHECK(g.opened.id && g.opened.n == EPD_PARTS);
	for (uint32_t i = 0; i < g.opened.n; i++)
		for (uint64_t at = 0; at < g.opened.extent[i].bytes; at++)
			CHECK(!((uint8_t *)g.opened.extent[i].p)[at]);
	epd_buf_free(&q);
	guest_end(&g);
	DOWN();
}

/* Who has not said whose he is has no answer, whatever he asks. */
TEST(nothing_before_who_asks)
{
	struct epd_buf q = {0};
	struct guest g;

	up();
	guest_come(&g, &m, 1);
	for (int verb = EPD_ASK_NODE + 1; verb < EPD_ASKS; verb++)
		CHECK_INT(guest_ask(&g, (enum epd_ask)verb, epd_span("", 0)),
		    EPD_EUSAGE);
	epd_ask_node_pack(&q, "another", (uint8_t[16]){0});
	CHECK_INT(guest_ask(&g, EPD_ASK_NODE, epd_span(q.p, q.n)), EPD_EMODEL);
	CHECK_INT(guest_ask(&g, EPD_ASK_HAVE, epd_span("\0\0\0\0", 4)),
	    EPD_EUSAGE);
	epd_buf_free(&q);
	epd_ask_node_pack(&q, "", (uint8_t[16]){0});
	CHECK_INT(guest_ask(&g, EPD_ASK_NODE, epd_span(q.p, q.n)), 0);
	CHECK_INT(guest_ask(&g, EPD_ASK_HAVE, epd_span("\0\0\0\0", 4)), 0);
	guest_end(&g);
	epd_buf_free(&q);
	DOWN();
}

/* What is granted is granted to a party: who has met is of that one till he goes. */
TEST(whose_he_is_stays)
{
	struct epd_buf q = {0}, other = {0};
	uint8_t party[16];
	struct guest g;

	up();
	guest_begin(&g, &m, 1);
	memcpy(party, g.g->party, sizeof party);
	epd_ask_node_pack(&q, "", party);
	CHECK_INT(guest_ask(&g, EPD_ASK_NODE, epd_span(q.p, q.n)), 0);
	party[15] ^= 1;
	epd_ask_node_pack(&other, "", party);
	CHECK_INT(guest_ask(&g, EPD_ASK_NODE, epd_span(other.p, other.n)),
	    EPD_EUSAGE);
	party[15] ^= 1;
	CHECK(!memcmp(party, g.g->party, sizeof party));
	CHECK_INT(guest_ask(&g, EPD_ASK_HAVE, epd_span("\0\0\0\0", 4)), 0);
	guest_end(&g);
	epd_buf_free(&q);
	epd_buf_free(&other);
	DOWN();
}

/* At whatever point it vanishes, all it had is given back. */
TEST(one_that_vanishes)
{
	static const enum epd_ask opens[] = { EPD_ASK_READ_PAGES,
		EPD_ASK_WRITE_PAGES, EPD_ASK_READ_FEATURE,
		EPD_ASK_WRITE_FEATURE };
	const struct parcel p = good_parcel();
	struct guest g;
	uint64_t id, run;

	up();
	for (int at = 0; at < 8; at++) {
		guest_begin(&g, &m, 1);
		if (at < 4)
			CHECK(open_window(&g, opens[at]));
		if (at == 4) {
			CHECK(open_window(&g, EPD_ASK_WRITE_PAGES));
			group_bytes(g.opened.extent[0].p, 1, 0);
		}
		if (at == 5) {
			CHECK((id = open_window(&g, EPD_ASK_WRITE_PAGES)));
			fill_window(&g, 1);
			CHECK_INT(ask_u64(&g, EPD_ASK_KEEP_PAGES, id), 0);
			CHECK_INT(depot_runs(&m.d, "w2"), 1);
		}
		if (at == 6)
			CHECK(keep_good(&g));
		if (at == 7) {
			CHECK((run = keep_good(&g)));
			CHECK_INT(ask_ready(&g, &p, &run, 1), 0);
		}
		guest_end(&g);
		CHECK(manor_is_even(&m));
		CHECK_INT(manor_leases(&m), 0);
		CHECK_INT(depot_runs(&m.d, "w2"), at == 7);
	}
	CHECK_INT(depot_temporaries(m.d.dir), 0);
	CHECK_INT(depot_check(&m.d), 0);
	DOWN();
}

TEST(credits_that_are_exceeded)
{
	struct guest g[MANOR_SLOTS + 1];
	uint64_t id[MANOR_SLOTS];

	up();
	for (int i = 0; i < MANOR_SLOTS; i++) {
		guest_begin(g + i, &m, 0);
		CHECK((id[i] = open_window(g + i, EPD_ASK_WRITE_PAGES)));
	}
	guest_begin(g + MANOR_SLOTS, &m, 0);
	CHECK(!open_window(g + MANOR_SLOTS, EPD_ASK_WRITE_PAGES));
	CHECK(!open_window(g + MANOR_SLOTS, EPD_ASK_WRITE_FEATURE));
	/* To read takes none. */
	CHECK(open_window(g + MANOR_SLOTS, EPD_ASK_READ_PAGES));
	guest_gone(g, id[0]);
	CHECK(open_window(g + MANOR_SLOTS, EPD_ASK_WRITE_PAGES));
	for (int i = 0; i <= MANOR_SLOTS; i++)
		guest_end(g + i);
	DOWN();
}

/* ---- open files ---- */

/* READ_PAGES of a state's three pages: how many are there, or what it failed by. */
static int
ask_read(struct guest *g)
{
	struct epd_buf q = {0}, answer = {0};
	struct epd_pages_ask a;
	struct epd_opened opened;
	struct epd_cur c;
	int rc, n = 0;

	good_pages(&q, EPD_ASK_READ_PAGES);
	rc = m.host.call(g->g, EPD_ASK_READ_PAGES, epd_span(q.p, q.n), &answer,
	    &opened, &g->why);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0 && epd_pages_ask_unpack(&c, &a) == 0) {
		for (uint32_t i = 0; i < a.n; i++)
			n += a.page[i].there;
		epd_pages_ask_free(&a);
	}
	if (rc == 0)
		g->opened = opened;
	epd_buf_free(&q);
	epd_buf_free(&answer);
	return rc < 0 ? rc : n;
}

/* Who is told that pages are not there computes them: nobody is for want of a file. */
TEST(no_file_to_be_had_is_no_lack_of_pages)
{
	struct rlimit all, few;
	struct guest g;
	int refused = 0, given = 0, rc = 0, first;

	up();
	guest_begin(&g, &m, 0);
	CHECK_INT(ask_read(&g), 3);
	m.host.gone(g.g, g.opened.id);
	CHECK_INT(getrlimit(RLIMIT_NOFILE, &all), 0);
	first = dup(0);
	close(first);
	for (int more = 0; more < 24; more++) {
		few = (struct rlimit){ (rlim_t)(first + more), all.rlim_max };
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &few), 0);
		rc = ask_read(&g);
		CHECK_INT(setrlimit(RLIMIT_NOFILE, &all), 0);
		CHECK(rc == 3 || rc == -EMFILE);
		refused += rc == -EMFILE;
		given += rc == 3;
		if (rc == 3)
			m.host.gone(g.g, g.opened.id);
	}
	CHECK(refused && given);
	guest_end(&g);
	DOWN();
}

TEST(a_guests_open_files_are_bounded)
{
	struct guest g, other;
	int n = 0, rc, fds;

	up();
	guest_begin(&g, &m, 0);
	guest_begin(&other, &m, 0);
	fds = scratch_have("fd");
	while ((rc = ask_read(&g)) == 3 && n < 2000)
		n++;
	CHECK_INT(rc, EPD_ECREDIT);
	CHECK(n > 32);
	CHECK(scratch_have("fd") - fds <= 1024 + 8);
	/* Others have theirs, and one that is shut is had again. */
	CHECK_INT(ask_read(&other), 3);
	m.host.gone(g.g, g.opened.id);
	CHECK_INT(ask_read(&g), 3);
	guest_end(&g);
	guest_end(&other);
	DOWN();
}

/* ---- files of processes ---- */

/* The run that a file became here; 0: it did not. */
static uint64_t
ask_adopt(struct guest *g, int fd)
{
	struct epd_buf q = {0};
	struct epd_cur c;

	epd_ask_str(&q, "w2");
	epd_buf_put(&q, m.w2, 16);
	epd_pack_u32(&q, 1);
	epd_pack_u32(&q, (uint32_t)fd);
	if (guest_ask(g, EPD_ASK_ADOPT_PAGES, epd_span(q.p, q.n)) < 0)
		g->answer.n = 0;
	epd_buf_free(&q);
	if (!g->answer.n)
		return UINT64_MAX;
	c = epd_cur(epd_span(g->answer.p, g->answer.n));
	return epd_unpack_u64(&c);
}

/* Whose they are is what the kernel says of who connected, and no word of his. */
TEST(files_of_another_process)
{
	enum { THERE = 77 };
	char name[EPD_RUN_NAME];
	struct guest a, b;
	int p[2], dir;
	pid_t pid;
	char c;

	up();
	guest_begin(&a, &m, 1);
	dir = epd_memory_find(m.d.s->memory, "w1");
	epd_run_format(name, m.run);
	CHECK(!pipe(p));
	if ((pid = fork()) == 0) {
		const int fd = openat(dir, name, O_RDONLY);

		_exit(dup2(fd, THERE) != THERE || write(p[1], "x", 1) != 1 ||
		    pause());
	}
	close(dir);
	CHECK(read(p[0], &c, 1) == 1);
	CHECK(!ask_adopt(&a, THERE));
	/* The child is the one that has connected. */
	b = a;
	CHECK_INT(m.host.begin(m.host.arg, pid, &b.g, NULL), 0);
	b.g->met = 1;
	CHECK(ask_adopt(&b, THERE) - 1 < UINT64_MAX - 1);
	CHECK_INT(depot_runs(&m.d, "w2"), 1);
	a.answer = b.answer;
	m.host.end(b.g);
	CHECK_INT(depot_runs(&m.d, "w2"), 0);
	kill(pid, SIGKILL);
	scratch_wait(pid);
	close(p[0]);
	close(p[1]);
	guest_end(&a);
	DOWN();
}

TEST(files_that_are_no_runs)
{
	struct epd_buf q = {0};
	struct guest far, near;
	int pipes[2], plain, folder;
	uint64_t was;

	up();
	guest_begin(&far, &m, 0);
	guest_begin(&near, &m, 1);
	good(&q, EPD_ASK_ADOPT_PAGES);
	CHECK_INT(guest_ask(&far, EPD_ASK_ADOPT_PAGES, epd_span(q.p, q.n)),
	    EPD_EUNSUPPORTED);
	CHECK(!pipe2(pipes, O_CLOEXEC));
	plain = openat(m.d.dir, "plain", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(plain >= 0 && folder >= 0);
	was = manor_runs(&m);
	{
		const int file[] = { pipes[0], pipes[1], plain, folder, 9999, 0,
			-1, m.d.dir };

		for (size_t i = 0; i < sizeof file / sizeof *file; i++)
			CHECK(!ask_adopt(&near, file[i]));
	}
	CHECK(manor_runs(&m) == was);
	close(pipes[0]);
	close(pipes[1]);
	close(plain);
	close(folder);
	guest_end(&far);
	guest_end(&near);
	epd_buf_free(&q);
	DOWN();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
