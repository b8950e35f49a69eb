/*
 * wire_where.c - pages that are missing here and had from another node: each step of the
 * way of a stale location, and peers that lie.  The directory is a local one that was
 * told of the peer; the peer is a store in this process.
 */
#include "tests/check.h"
#include "flow/tiers.h"
#include "flow/where.h"
#include "tests/unit/depot_guest.h"
#include "tests/unit/loop.h"

enum { PAGES = 3 };
enum lie { HONEST, OTHER_STORE, GONE, ANSWERS_NOTHING, OTHER_SUM, OTHER_NAMES,
	OTHER_BYTES, TWIN };

static struct {
	struct manor far;
	struct depot here;
	struct loop loop;
	const struct epd_transport *table[1];
	struct epd_transports all;
	struct epd_workflow w;
	struct group x;
	struct epd_page_entry entry[PAGES];
	struct epd_lot lot;
	enum lie lie;
	int reads;
} t;

/*
 * A page that another one has the sum of: where a half of a word is the secret's it is
 * multiplied by nothing, so what is added to one word and taken from another of the same
 * lane is nowhere to be seen.  The sum finds accidents; it is no signature.
 */
static void
twin(uint64_t *p, int other)
{
	group_bytes(p, 1, 0);
	p[0] = UINT64_C(0xbe4ba423) << 32 | (other ? 1001 : 1000);
	p[8] = UINT64_C(0x1cad21f7) << 32 | (other ? 999 : 1000);
}

static void
page_bytes(void *out, uint32_t i)
{
	group_bytes(out, 1, i);
	if (t.lie == TWIN && i == 0)
		twin(out, 0);
}

static int
tamper(struct epd_buf *answer, size_t from)
{
	struct epd_cur c = epd_cur(epd_span((char *)answer->p + from,
	    answer->n - from));
	const struct group other = group(2, PAGES, NULL);
	struct epd_pages_ask a;

	if (epd_pages_ask_unpack(&c, &a) < 0)
		return -EINVAL;
	for (uint32_t i = 0; i < a.n; i++) {
		if (t.lie == OTHER_SUM)
			a.page[i].packed_sum = ++a.page[i].entry.sum;
		if (t.lie == OTHER_NAMES)
			a.page[i].entry.name = other.page[i].name;
		if (t.lie == TWIN)
			a.page[i].packed_sum = a.page[i].entry.sum =
			    t.entry[i].sum;
	}
	answer->n = from;
	epd_pages_ask_pack(answer, &a);
	epd_pages_ask_free(&a);
	return 0;
}

static int
call(struct loop *l, struct epd_guest *g, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why)
{
	const size_t from = answer->n;
	int rc;

	if (t.lie == GONE)
		return epd_why(why, EPD_EPEER, "nobody is there");
	rc = l->host->call(g, verb, ask, answer, opened, why);
	t.reads += verb == EPD_ASK_READ_PAGES;
	if (rc >= 0 && verb == EPD_ASK_READ_PAGES && t.lie >= OTHER_SUM)
		rc = tamper(answer, from);
	return rc;
}

/* The extents follow one another, page by page. */
static int
bring(struct loop *l, const struct epd_piece *p)
{
	static uint64_t page[DEPOT_PAGE / 8];
	uint64_t done = 0;

	(void)l;
	while (done < p->bytes) {
		const uint64_t at = p->offset + done, off = at % DEPOT_PAGE;
		uint64_t k = DEPOT_PAGE - off;

		if (k > p->bytes - done)
			k = p->bytes - done;
		if (t.lie == OTHER_BYTES)
			group_bytes(page, 2, (uint32_t)(at / DEPOT_PAGE));
		else if (t.lie == TWIN && at < DEPOT_PAGE)
			twin(page, 1);
		else
			group_bytes(page, 1, (uint32_t)(at / DEPOT_PAGE));
		memcpy((uint8_t *)p->local + done, (uint8_t *)page + off,
		    (size_t)k);
		done += k;
	}
	return 0;
}

/* given: the state came from a peer, by its log. */
static void
begin(enum lie lie, int given, int trust)
{
	struct epd_dir_options o = { .stays = 1,
		.self = { .address = "tcp://loop:1", .name = "far" } };
	struct epd_store_options so;

	memset(&t, 0, sizeof t);
	t.lie = lie;
	manor_begin(&t.far);
	depot_begin(&t.here);
	depot_close(&t.here);
	loop_init(&t.loop, EPD_VIA_TCP, &t.far.host);
	t.loop.call = call;
	t.loop.move = bring;
	t.table[0] = &t.loop.ops;
	t.all = (struct epd_transports){ t.table, 1 };
	t.here.config.trust_peers = trust;
	t.here.config.directory_timeout_ms = 100;
	so = depot_options(&t.here);
	so.transports = &t.all;
	if (epd_store_open(&t.here.s, &so, depot_why(&t.here)) < 0)
		depot_die("store", t.here.why.text);
	strcpy(t.here.s->node, "here");
	memcpy(o.self.uuid, t.far.d.s->uuid, 16);
	if (lie == OTHER_STORE)
		o.self.uuid[0] ^= 1;
	o.config = &t.here.config;
	o.metrics = t.here.s->metrics;
	if (epd_dir_open(&t.here.s->dir, &o, depot_why(&t.here)) < 0)
		depot_die("directory", t.here.why.text);
	depot_workflow(&t.here, "w1", &t.w);
	t.x = group(1, PAGES, NULL);
	for (uint32_t i = 0; i < PAGES; i++) {
		static uint64_t page[DEPOT_PAGE / 8];

		page_bytes(page, i);
		t.entry[i] = (struct epd_page_entry){ t.x.page[i].name,
			DEPOT_T, epd_xxh3_64(page, DEPOT_PAGE) };
	}
	t.lot = (struct epd_lot){ .workflow = "w1", .run = 77,
		.shape = depot_shape, .entry = t.entry, .n = PAGES,
		.given = given };
}

static void
tell(void)
{
	struct epd_hint h = { .kind = EPD_HINT_PAGE };

	epd_hex_format(h.key, t.entry[PAGES - 1].name.b, EPD_NAME);
	CHECK_INT(epd_dir_put(t.here.s->dir, &h, in_ms(1000), NULL), 0);
}

static void
end(void)
{
	CHECK_INT(t.loop.links, 0);
	CHECK_INT(t.loop.windows, 0);
	CHECK_INT(depot_temporaries(t.here.dir), 0);
	epd_workflow_close(&t.w);
	depot_end(&t.here);
	manor_end(&t.far);
}

static uint64_t
stale(void)
{
	return epd_metrics_get(t.here.s->metrics, EPD_M_DIR_STALE);
}

static uint64_t
lookups(void)
{
	return epd_metrics_get(t.here.s->metrics, EPD_M_DIR_LOOKUPS);
}

static int
fill(struct epd_fill *f)
{
	*f = (struct epd_fill){ .runs = 0 };
	return epd_fill_run(t.here.s, &t.w, &t.lot, f, depot_why(&t.here));
}

/* All pages are here, in one run, which is known to have been given or not. */
static void
check_here(int given)
{
	static uint64_t want[DEPOT_PAGE / 8];
	struct epd_index_hit hit;
	struct epd_run *r = NULL;

	CHECK_INT(epd_run_open(&r, t.w.runs, 77, &depot_shape, t.entry, PAGES,
	    NULL), 0);
	for (uint32_t i = 0; r && i < PAGES; i++) {
		page_bytes(want, i);
		CHECK(!memcmp(epd_run_page(r, i), want, DEPOT_PAGE));
	}
	CHECK_INT(r ? epd_run_is_given(r) : -1, given);
	epd_run_close(r);
	/* What was given serves no other workflow. */
	CHECK_INT(epd_index_find(epd_store_index(t.here.s), &t.entry[0].name,
	    &hit) > 0, !given);
}

TEST(right)
{
	struct epd_fill f;

	for (int trust = 0; trust < 2; trust++) {
		begin(HONEST, !trust, trust);
		tell();
		CHECK_INT(fill(&f), 0);
		CHECK_INT(f.peers, PAGES);
		CHECK_INT(stale(), 0);
		check_here(!trust);
		end();
	}
}

/* Told of nobody, and then of one that does not hold. */
TEST(stale)
{
	static const enum lie lies[] = { OTHER_STORE, GONE, ANSWERS_NOTHING,
		OTHER_SUM, OTHER_NAMES, OTHER_BYTES };
	struct epd_fill f;
	uint64_t from;

	begin(HONEST, 1, 0);
	CHECK_INT(fill(&f), EPD_ENOTHING);
	CHECK_INT(f.missing, PAGES);
	/* Nobody was named: there is nothing to ask again for, and nothing stale. */
	CHECK_INT(lookups(), 1);
	CHECK_INT(stale(), 0);
	CHECK_INT(t.loop.calls, 0);
	end();
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		begin(lies[i], 1, 0);
		if (lies[i] == ANSWERS_NOTHING) {
			struct epd_workflow w;

			/* It had them; what it told of is not there any more. */
			depot_workflow(&t.far.d, "w1", &w);
			CHECK_INT(epd_run_free(w.runs, t.far.run), 0);
			epd_workflow_close(&w);
		}
		tell();
		from = epd_clock_boot_ns();
		CHECK_INT(fill(&f), EPD_ENOTHING);
		CHECK_INT(f.peers, 0);
		/* Two tries of a tenth of a second, not of a transfer's time-out. */
		CHECK(epd_clock_boot_ns() - from < 5000 * MS);
		CHECK_INT(depot_runs(&t.here, "w1"), 0);
		/* Asked again, and not of the cache; each time it was tried. */
		CHECK_INT(lookups(), 2);
		CHECK_INT(stale(), 2);
		if (lies[i] == OTHER_STORE || lies[i] == GONE)
			CHECK_INT(t.reads, 0);
		end();
	}
}

/* Nobody's hint leads to it, but the one who owns the workflow that it came from. */
TEST(owner)
{
	static const char note[] = "{\"from\": \"w1/s1\", \"origin\": \"%s\", "
	    "\"version\": 1}";
	struct epd_version v = { .ids = NULL };
	struct epd_fill f;
	char hex[33], text[200];
	uint64_t term;
	uint32_t state;

	for (int owned = 0; owned < 2; owned++) {
		begin(HONEST, 1, 0);
		epd_hex_format(hex, t.far.w1, 16);
		snprintf(text, sizeof text, note, hex);
		v = (struct epd_version){ .ids = t.x.ids, .nids = t.x.nids,
			.pages = t.x.page, .npages = PAGES, .run = 77,
			.next_pos = t.x.nids, .given = 1,
			.note = epd_span_str(text) };
		CHECK_INT(epd_shard_create(t.w.shard, &t.x.traits, &v, &state,
		    NULL), 0);
		if (owned)
			CHECK_INT(epd_dir_claim(t.here.s->dir, t.far.w1, 0,
			    &term, in_ms(1000), NULL), 0);
		CHECK_INT(fill(&f), owned ? 0 : EPD_ENOTHING);
		CHECK_INT(t.reads, owned);
		if (owned)
			check_here(1);
		end();
	}
}

/*
 * Right names, right sums, and other bytes: by the sum nobody sees it.  So who is not
 * trusted is not asked for what was computed here: that is computed again.
 */
TEST(twin)
{
	static uint64_t one[DEPOT_PAGE / 8], other[DEPOT_PAGE / 8];
	struct epd_index_hit hit;
	struct epd_fill f;

	twin(one, 0);
	twin(other, 1);
	CHECK(memcmp(one, other, sizeof one) != 0);
	CHECK(epd_xxh3_64(one, DEPOT_PAGE) == epd_xxh3_64(other, DEPOT_PAGE));
	begin(TWIN, 0, 0);
	tell();
	CHECK_INT(fill(&f), EPD_ENOTHING);
	CHECK_INT(t.loop.calls, 0);
	CHECK_INT(depot_runs(&t.here, "w1"), 0);
	end();
	/* What is a stranger's anyway serves its own workflow alone. */
	begin(TWIN, 1, 0);
	tell();
	CHECK_INT(fill(&f), 0);
	CHECK_INT(epd_index_find(epd_store_index(t.here.s), &t.entry[0].name,
	    &hit) > 0, 0);
	end();
}

/* A feature: the same, and whoever asks for many has one end for them all. */
TEST(features)
{
	struct epd_hint h = { .kind = EPD_HINT_FEATURE };
	const struct epd_name fp = numbered(99).fp;

	begin(GONE, 1, 0);
	CHECK_INT(epd_where_feature(t.here.s, &fp, 0), EPD_ENOTHING);
	CHECK_INT(lookups(), 1);
	CHECK_INT(stale(), 0);
	epd_hex_format(h.key, fp.b, EPD_NAME);
	CHECK_INT(epd_dir_put(t.here.s->dir, &h, in_ms(1000), NULL), 0);
	CHECK_INT(epd_where_feature(t.here.s, &fp, in_ms(5000)), EPD_ENOTHING);
	CHECK_INT(lookups(), 3);
	CHECK_INT(stale(), 2);
	CHECK_INT(epd_where_feature(t.here.s, &fp, epd_clock_boot_ns()),
	    EPD_ENOTHING);
	CHECK_INT(lookups(), 3);
	CHECK_INT(stale(), 2);
	end();
}

/* A directory that is away is left alone for a command's while. */
TEST(away)
{
	struct epd_dir_options o = { .self = { .name = "here" } };
	struct epd_fill f;

	begin(HONEST, 1, 0);
	epd_dir_close(t.here.s->dir);
	strcpy(t.here.config.directory_backend, "etcd");
	strcpy(t.here.config.directory_endpoints, "http://127.0.0.1:1");
	o.config = &t.here.config;
	o.metrics = t.here.s->metrics;
	CHECK_INT(epd_dir_open(&t.here.s->dir, &o, depot_why(&t.here)), 0);
	for (int i = 0; i < 20; i++) {
		CHECK_INT(fill(&f), EPD_ENOTHING);
		epd_clock_sleep_ns(20 * MS);
	}
	CHECK_INT(lookups(), 1);
	CHECK_INT(epd_metrics_get(t.here.s->metrics, EPD_M_DIR_AWAY), 1);
	end();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
