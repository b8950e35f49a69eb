/*
 * body.c - what a version adds, as bytes:
 *
 *	turn u8, finish u8, flags u16 (1: logprobs, 2: links, 4: given,
 *	8: lengths), first_page u32,
 *	nids u32, nimages u32, npages u32, run u64, next_pos u64,
 *	temp f32, top_p f32, penalty f32, top_k u32, seed u64, salt u64;
 *	with links: nlinks u32, links run u64, pages u32 each;
 *	with lengths: text_bytes u64, messages_bytes u64;
 *	ids u32 each; images at u64, grid 3 u32, fp 32 each;
 *	pages name 32, rows u32, sum u64 each; logprobs f32 each;
 *	the rest is the note.
 *
 * node, parent, start and wall_ms are the log's and the tree's to tell.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "shard/body.h"
#include "shard/word.h"

/* Readers subtract a number of tokens from next_pos. */
static const int64_t POSITION = (int64_t)1 << 53;

enum {
	LOGPROBS = 1, LINKS = 2, GIVEN = 4, LENGTHS = 8,
	HEAD = 68, IMAGE = 52, PAGE = 44, LINK = 12, TWO = 16,	/* bytes */
	SALT = 60,				/* in the head */
	ROWS = EPD_NAME				/* of a page, behind its name */
};

const char *
epd_turn_name(unsigned turn)
{
	static const char *const names[] = {
		[EPD_TURN_IS_PROMPT] = "prompt", [EPD_TURN_IS_OPEN] = "open",
		[EPD_TURN_IS_CLOSED] = "closed", [EPD_TURN_IS_RAW] = "raw",
	};

	return turn < sizeof names / sizeof *names ? names[turn] : NULL;
}

const char *
epd_finish_name(unsigned finish)
{
	static const char *const names[] = {
		[EPD_FINISH_NONE] = "none", [EPD_FINISH_EOS] = "eos",
		[EPD_FINISH_STOP] = "stop", [EPD_FINISH_LENGTH] = "length",
		[EPD_FINISH_INTERRUPT] = "interrupt",
	};

	return finish < sizeof names / sizeof *names ? names[finish] : NULL;
}

static void
pack_words(struct epd_buf *b, const void *words, uint32_t n)
{
	uint8_t *to = epd_buf_add(b, (size_t)n * 4);

	if (!to || !n)
		return;
	memcpy(to, words, (size_t)n * 4);
	if (BYTE_ORDER == LITTLE_ENDIAN)
		return;
	for (uint32_t i = 0, w; i < n; i++) {
		memcpy(&w, to + i * 4, 4);
		w = htole32(w);
		memcpy(to + i * 4, &w, 4);
	}
}

static void
unpack_words(void *to, const uint8_t *p, uint32_t n)
{
	uint8_t *at = to;

	memcpy(at, p, (size_t)n * 4);
	if (BYTE_ORDER == LITTLE_ENDIAN)
		return;
	for (uint32_t i = 0, w; i < n; i++) {
		memcpy(&w, at + i * 4, 4);
		w = le32toh(w);
		memcpy(at + i * 4, &w, 4);
	}
}

void
epd_body_pack(struct epd_buf *b, const struct epd_version *v)
{
	epd_pack_u8(b, v->turn);
	epd_pack_u8(b, v->finish);
	epd_pack_u16(b, (v->logprobs ? LOGPROBS : 0) |
	    (v->nlinks ? LINKS : 0) | (v->given ? GIVEN : 0) |
	    (v->has_lengths ? LENGTHS : 0));
	epd_pack_u32(b, v->first_page);
	epd_pack_u32(b, v->nids);
	epd_pack_u32(b, v->nimages);
	epd_pack_u32(b, v->npages);
	epd_pack_u64(b, v->run);
	epd_pack_u64(b, (uint64_t)v->next_pos);
	epd_pack_f32(b, v->sampling.temp);
	epd_pack_f32(b, v->sampling.top_p);
	epd_pack_f32(b, v->sampling.penalty);
	epd_pack_u32(b, (uint32_t)v->sampling.top_k);
	epd_pack_u64(b, v->sampling.seed);
	epd_pack_u64(b, v->sampling.salt);
	if (v->nlinks)
		epd_pack_u32(b, v->nlinks);
	for (uint32_t i = 0; i < v->nlinks; i++) {
		epd_pack_u64(b, v->links[i].run);
		epd_pack_u32(b, v->links[i].pages);
	}
	if (v->has_lengths) {
		epd_pack_u64(b, v->text_bytes);
		epd_pack_u64(b, v->messages_bytes);
	}
	pack_words(b, v->ids, v->nids);
	for (uint32_t i = 0; i < v->nimages; i++) {
		epd_pack_u64(b, v->images[i].at);
		pack_words(b, v->images[i].grid, 3);
		epd_buf_put(b, v->images[i].fp.b, EPD_NAME);
	}
	for (uint32_t i = 0; i < v->npages; i++) {
		epd_buf_put(b, v->pages[i].name.b, EPD_NAME);
		epd_pack_u32(b, v->pages[i].rows);
		epd_pack_u64(b, v->pages[i].sum);
	}
	if (v->logprobs)
		pack_words(b, v->logprobs, v->nids);
	epd_buf_put(b, v->note.p, v->note.n);
}

/* Where the links end, and where the ids begin. */
static inline size_t
links_end(uint32_t nlinks)
{
	return HEAD + (nlinks ? 4 + (size_t)nlinks * LINK : 0);
}

static inline size_t
ids_at(const struct epd_glance *g)
{
	return links_end(g->nlinks) + (g->has_lengths ? TWO : 0);
}

/*
 * What of the head says what the rest holds, and where that ends and the note
 * begins.  EPD_ECORRUPT, EPD_EKIND.
 */
static inline int
read_head(struct epd_span span, struct epd_glance *g, uint64_t *fixed)
{
	const uint8_t *p = span.p;
	uint16_t flags;

	if (span.n < HEAD)
		return EPD_ECORRUPT;
	flags = epd_word16(p + 2);
	g->first_page = epd_word32(p + 4);
	g->nids = epd_word32(p + 8);
	g->nimages = epd_word32(p + 12);
	g->npages = epd_word32(p + 16);
	g->run = epd_word64(p + 20);
	g->nlinks = 0;
	g->text_bytes = g->messages_bytes = 0;
	if (flags & LINKS) {
		if (span.n < HEAD + 4 || !(g->nlinks = epd_word32(p + HEAD)))
			return EPD_ECORRUPT;
	}
	g->has_lengths = !!(flags & LENGTHS);
	/* The largest sums stay far below 2^64. */
	*fixed = ids_at(g) + (uint64_t)g->nids * (flags & LOGPROBS ? 8 : 4) +
	    (uint64_t)g->nimages * IMAGE + (uint64_t)g->npages * PAGE;
	if (*fixed > span.n)
		return EPD_ECORRUPT;
	if (g->has_lengths) {
		p += links_end(g->nlinks);
		g->text_bytes = epd_word64(p);
		g->messages_bytes = epd_word64(p + 8);
		p = span.p;
	}
	return flags & ~(LOGPROBS | LINKS | GIVEN | LENGTHS) || p[0] > EPD_TURN_IS_RAW ||
	    p[1] > EPD_FINISH_INTERRUPT ? EPD_EKIND : 0;
}

/* Is the position of the next token out of bounds? */
static int
is_far(const uint8_t *head)
{
	int64_t pos = (int64_t)epd_word64(head + 28);

	return pos > POSITION || pos < -POSITION;
}

static void
unpack_head(const uint8_t *p, const struct epd_glance *g,
    struct epd_version *v)
{
	*v = (struct epd_version){
		.turn = p[0], .finish = p[1],
		.given = !!(epd_word16(p + 2) & GIVEN),
		.first_page = g->first_page, .nids = g->nids,
		.nimages = g->nimages, .npages = g->npages, .run = g->run,
		.nlinks = g->nlinks, .has_lengths = g->has_lengths,
		.text_bytes = g->text_bytes,
		.messages_bytes = g->messages_bytes,
		.next_pos = (int64_t)epd_word64(p + 28),
		.sampling = {
			.temp = epd_word_f32(p + 36),
			.top_p = epd_word_f32(p + 40),
			.penalty = epd_word_f32(p + 44),
			.top_k = (int32_t)epd_word32(p + 48),
			.seed = epd_word64(p + 52),
			.salt = epd_word64(p + SALT),
		},
	};
}

static void
unpack_links(const uint8_t *p, struct epd_run_link *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, p += LINK)
		to[i] = (struct epd_run_link){ epd_word64(p), epd_word32(p + 8) };
}

static void
unpack_images(const uint8_t *p, struct epd_image_ref *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, p += IMAGE) {
		to[i].at = epd_word64(p);
		for (int k = 0; k < 3; k++)
			to[i].grid[k] = epd_word32(p + 8 + 4 * k);
		memcpy(to[i].fp.b, p + 20, EPD_NAME);
	}
}

static void
unpack_pages(const uint8_t *p, struct epd_page_ref *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++, p += PAGE) {
		memcpy(to[i].name.b, p, EPD_NAME);
		to[i].rows = epd_word32(p + ROWS);
		to[i].sum = epd_word64(p + ROWS + 4);
	}
}

int
epd_body_glance(struct epd_span p, struct epd_glance *out)
{
	struct epd_glance g = { 0 };
	uint64_t fixed;
	int rc = read_head(p, &g, &fixed);

	if (!rc)
		*out = g;
	return rc;
}

int
epd_body_runs(struct epd_span p, int (*fn)(void *arg, uint64_t run), void *arg)
{
	struct epd_glance g = { 0 };
	uint64_t fixed;
	int rc = read_head(p, &g, &fixed);

	for (uint32_t i = 0; !rc && i < g.nlinks; i++)
		rc = fn(arg, epd_word64((const uint8_t *)p.p + HEAD + 4 +
		    (size_t)i * LINK));
	return !rc && g.run ? fn(arg, g.run) : rc;
}

int
epd_body_unpack(struct epd_span span, struct epd_arena *a,
    struct epd_version *out)
{
	const uint8_t *p = span.p;
	struct epd_image_ref *images;
	struct epd_page_ref *pages;
	struct epd_run_link *links;
	struct epd_version v;
	struct epd_glance g;
	float *logprobs = NULL;
	uint64_t fixed;
	int32_t *ids;
	void *note;
	int rc = read_head(span, &g, &fixed);
	const int has_logprobs = !rc && epd_word16(p + 2) & LOGPROBS;

	if (!rc && is_far(p))
		rc = EPD_ECORRUPT;
	if (rc)
		return rc;
	unpack_head(p, &g, &v);
	v.note.n = span.n - (size_t)fixed;
	ids = epd_arena_add(a, v.nids * sizeof *ids);
	images = epd_arena_add(a, v.nimages * sizeof *images);
	pages = epd_arena_add(a, v.npages * sizeof *pages);
	links = epd_arena_add(a, v.nlinks * sizeof *links);
	if (has_logprobs)
		logprobs = epd_arena_add(a, v.nids * sizeof *logprobs);
	note = epd_arena_add(a, v.note.n);
	if (!ids || !images || !pages || !links || !note ||
	    (has_logprobs && !logprobs))
		return -ENOMEM;
	v.note.p = memcpy(note, p + fixed, v.note.n);
	if (v.nlinks)
		unpack_links(p + HEAD + 4, links, v.nlinks);
	unpack_words(ids, p += ids_at(&g), v.nids);
	unpack_images(p += (size_t)v.nids * 4, images, v.nimages);
	unpack_pages(p += (size_t)v.nimages * IMAGE, pages, v.npages);
	if (logprobs)
		unpack_words(logprobs, p + (size_t)v.npages * PAGE, v.nids);
	v.ids = ids;
	v.images = images;
	v.pages = pages;
	v.links = links;
	v.logprobs = logprobs;
	*out = v;
	return 0;
}

int
epd_body_salt(struct epd_span p, uint64_t *out)
{
	if (p.n < HEAD)
		return EPD_ECORRUPT;
	*out = epd_word64((const uint8_t *)p.p + SALT);
	return 0;
}

uint64_t
epd_body_size(const struct epd_version *v)
{
	return links_end(v->nlinks) + (v->has_lengths ? TWO : 0) +
	    (uint64_t)v->nids * (v->logprobs ? 8 : 4) +
	    (uint64_t)v->nimages * IMAGE + (uint64_t)v->npages * PAGE +
	    v->note.n;
}

/* Whether the pages are those of the links and then of the run. */
static int
places(const uint8_t *p, const struct epd_glance *h)
{
	uint64_t linked = 0;

	for (uint32_t i = 0; i < h->nlinks; i++) {
		const uint8_t *l = p + HEAD + 4 + (size_t)i * LINK;

		if (!epd_word64(l) || !epd_word32(l + 8))
			return 0;
		linked += epd_word32(l + 8);
	}
	return linked <= h->npages && !h->run == (linked == h->npages);
}

int
epd_body_check(struct epd_span span, uint32_t page_tokens, uint64_t start,
    struct epd_glance *out, struct epd_why *why)
{
	const uint8_t *p = span.p;
	struct epd_glance h = { 0 };
	uint64_t covered, fixed;
	int rc = read_head(span, &h, &fixed);

	if (rc)
		return epd_why(why, rc, "version: %s", epd_strerror(rc));
	if (is_far(p))
		return epd_why(why, -EINVAL, "version: its next position is "
		    "beyond 2^53");
	if (!places(p, &h) || (h.npages && !page_tokens))
		return epd_why(why, -EINVAL, "version: %u pages of %u tokens "
		    "in run %llu", h.npages, page_tokens,
		    (unsigned long long)h.run);
	p += ids_at(&h) + (size_t)h.nids * 4 + (size_t)h.nimages * IMAGE;
	covered = (uint64_t)h.first_page * page_tokens;
	for (uint32_t i = 0; i < h.npages; i++, p += PAGE) {
		uint32_t rows = epd_word32(p + ROWS);

		covered += rows;
		if (!rows || rows > page_tokens ||
		    (rows < page_tokens && i + 1 < h.npages))
			return epd_why(why, -EINVAL, "version: page %u has %u "
			    "rows of %u", h.first_page + i, rows, page_tokens);
	}
	if (h.npages && covered > start + h.nids)
		return epd_why(why, -EINVAL, "version: its pages hold %llu "
		    "tokens of %llu", (unsigned long long)covered,
		    (unsigned long long)(start + h.nids));
	*out = h;
	return 0;
}
