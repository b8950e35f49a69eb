/*
 * wire_ask.c - a guest asks a store: verb u8, length u16, the question, and so on; the
 * first byte says what kind of guest it is (bit 0: near).  A question that means w1 or w2
 * gets their uuid, and one that names run 1 the run that was kept last, so that a fuzzer
 * comes further than the first door.  Whatever is asked, what was granted comes back, and
 * no answer tells of a path.
 */
#include "tests/unit/depot_guest.h"

enum { ANEW = 500, QUESTIONS = 40 };

static struct manor m;
static int inputs;

static void
end(void)
{
	if (m.serving)
		manor_end(&m);
}

/* The same store for a while: it grows by what guests do. */
static void
begin(void)
{
	if (!inputs)
		atexit(end);
	if (inputs++ % ANEW)
		return;
	end();
	manor_begin(&m);
}

static void
set_uuid(const char *workflow, uint8_t uuid[16])
{
	if (!strcmp(workflow, "w1"))
		memcpy(uuid, m.w1, 16);
	if (!strcmp(workflow, "w2"))
		memcpy(uuid, m.w2, 16);
}

static void
put_rest(struct epd_buf *b, const struct epd_cur *c)
{
	epd_buf_put(b, c->p, epd_cur_left(c));
}

/* READY: what follows the half, with the run that there is. */
static void
put_runs(struct epd_buf *b, struct epd_cur *c, uint64_t run)
{
	const struct epd_span parcel = epd_unpack_span(c);
	const uint8_t given = epd_unpack_u8(c);
	struct epd_page_ref *page = NULL;
	uint32_t n = 0, runs;

	if (epd_ask_refs_unpack(c, &page, &n) < 0)
		return;
	runs = epd_unpack_u32(c);
	epd_pack_span(b, parcel);
	epd_pack_u8(b, given);
	epd_ask_refs_pack(b, page, n);
	epd_pack_u32(b, runs);
	while (epd_cur_left(c) >= 8) {
		const uint64_t v = epd_unpack_u64(c);

		epd_pack_u64(b, v == 1 ? run : v);
	}
	put_rest(b, c);
	epd_free(page);
}

/* The question as it is asked; b is empty if it is asked as it came. */
static void
put_right(struct epd_buf *b, enum epd_ask verb, struct epd_span ask, uint64_t run)
{
	struct epd_cur c = epd_cur(ask);
	struct epd_half_ask half;
	struct epd_pages_ask a;

	switch (verb) {
	case EPD_ASK_READ_PAGES: case EPD_ASK_WRITE_PAGES:
		if (epd_pages_ask_unpack(&c, &a) < 0)
			return;
		set_uuid(a.workflow, a.uuid);
		epd_pages_ask_pack(b, &a);
		epd_pages_ask_free(&a);
		put_rest(b, &c);
		return;
	case EPD_ASK_NODE: case EPD_ASK_HAVE: case EPD_ASK_KEEP_PAGES:
	case EPD_ASK_HAS_FEATURE: case EPD_ASK_READ_FEATURE:
	case EPD_ASK_WRITE_FEATURE: case EPD_ASK_KEEP_FEATURE:
	case EPD_ASK_MAKE: case EPD_ASK_ADOPT_PAGES:
		return;
	default:
		if (epd_half_ask_unpack(&c, &half) < 0)
			return;
		set_uuid(half.workflow, half.uuid);
		epd_half_ask_pack(b, &half);
		if (verb == EPD_ASK_READY)
			put_runs(b, &c, run);
		else
			put_rest(b, &c);
	}
}

/* What comes into a window that can be written: group 1's pages. */
static void
fill(const struct guest *g)
{
	for (uint32_t i = 0; g->opened.writable && i < g->opened.n; i++)
		if (g->opened.extent[i].bytes == DEPOT_PAGE)
			group_bytes(g->opened.extent[i].p, 1, i);
}

static void
ask(struct guest *g, enum epd_ask verb, struct epd_span ask_, uint64_t *run)
{
	struct epd_buf b = {0};
	struct epd_cur c;

	put_right(&b, verb, ask_, *run);
	if (guest_ask(g, verb, b.n ? epd_span(b.p, b.n) : ask_) == 0) {
		c = epd_cur(epd_span(g->answer.p, g->answer.n));
		if (verb == EPD_ASK_KEEP_PAGES)
			*run = epd_unpack_u64(&c);
		fill(g);
	}
	epd_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_cur c = epd_cur(epd_span(p, n));
	struct guest g;
	uint64_t run = 0;

	begin();
	guest_begin(&g, &m, epd_unpack_u8(&c) & 1);
	for (int i = 0; i < QUESTIONS && epd_cur_left(&c) >= 3; i++) {
		const enum epd_ask verb = epd_unpack_u8(&c);
		size_t most = epd_unpack_u8(&c);

		most |= (size_t)epd_unpack_u8(&c) << 8;
		if (most > epd_cur_left(&c))
			most = epd_cur_left(&c);
		ask(&g, verb, epd_unpack_bytes(&c, most), &run);
	}
	guest_end(&g);
	if (!manor_is_even(&m))
		abort();
	return 0;
}
