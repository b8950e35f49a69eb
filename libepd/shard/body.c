/*
 * body.c - what a version adds, as bytes:
 *
 *	turn u8, finish u8, flags u16 (1: logprobs), first_page u32,
 *	nids u32, nimages u32, npages u32, run u64, next_pos u64,
 *	temp f32, top_p f32, penalty f32, top_k u32, seed u64, salt u64,
 *	ids u32 each; images at u64, grid 3 u32, fp 32 each;
 *	pages name 32, rows u32, sum u64 each; logprobs f32 each;
 *	the rest is the note.
 *
 * node, parent, start and wall_ms are the log's and the tree's to tell.
 */
#include <endian.h>
#include <errno.h>
#include <string.h>

#include "shard/record.h"

enum { LOGPROBS = 1, HEAD = 68, IMAGE = 52, PAGE = 44 };

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
	epd_pack_u16(b, v->logprobs ? LOGPROBS : 0);
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

/* The fixed part; the flags come back apart. */
static uint16_t
unpack_head(struct epd_cur *c, struct epd_version *v)
{
	uint16_t flags;

	*v = (struct epd_version){ 0 };
	v->turn = epd_unpack_u8(c);
	v->finish = epd_unpack_u8(c);
	flags = epd_unpack_u16(c);
	v->first_page = epd_unpack_u32(c);
	v->nids = epd_unpack_u32(c);
	v->nimages = epd_unpack_u32(c);
	v->npages = epd_unpack_u32(c);
	v->run = epd_unpack_u64(c);
	v->next_pos = (int64_t)epd_unpack_u64(c);
	v->sampling.temp = epd_unpack_f32(c);
	v->sampling.top_p = epd_unpack_f32(c);
	v->sampling.penalty = epd_unpack_f32(c);
	v->sampling.top_k = (int32_t)epd_unpack_u32(c);
	v->sampling.seed = epd_unpack_u64(c);
	v->sampling.salt = epd_unpack_u64(c);
	return flags;
}

static void
unpack_images(struct epd_cur *c, struct epd_image_ref *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		to[i].at = epd_unpack_u64(c);
		for (int k = 0; k < 3; k++)
			to[i].grid[k] = epd_unpack_u32(c);
		memcpy(to[i].fp.b, epd_unpack_bytes(c, EPD_NAME).p, EPD_NAME);
	}
}

static void
unpack_pages(struct epd_cur *c, struct epd_page_ref *to, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		memcpy(to[i].name.b, epd_unpack_bytes(c, EPD_NAME).p,
		    EPD_NAME);
		to[i].rows = epd_unpack_u32(c);
		to[i].sum = epd_unpack_u64(c);
	}
}

int
epd_body_unpack(struct epd_span p, struct epd_arena *a,
    struct epd_version *out)
{
	struct epd_cur c = epd_cur(p);
	struct epd_image_ref *images;
	struct epd_page_ref *pages;
	struct epd_version v;
	uint16_t flags = unpack_head(&c, &v);
	/* The largest sums stay far below 2^64. */
	uint64_t fixed = (uint64_t)v.nids * (flags & LOGPROBS ? 8 : 4) +
	    (uint64_t)v.nimages * IMAGE + (uint64_t)v.npages * PAGE;
	float *logprobs = NULL;
	int32_t *ids;
	void *note;

	if (c.failed || fixed > epd_cur_left(&c))
		return EPD_ECORRUPT;
	if (flags & ~LOGPROBS || v.turn > EPD_TURN_IS_RAW ||
	    v.finish > EPD_FINISH_INTERRUPT)
		return EPD_EKIND;
	v.note = epd_span((const uint8_t *)p.p + HEAD + fixed,
	    p.n - HEAD - (size_t)fixed);
	if (!a) {
		*out = v;
		return 0;
	}
	ids = epd_arena_add(a, v.nids * sizeof *ids);
	images = epd_arena_add(a, v.nimages * sizeof *images);
	pages = epd_arena_add(a, v.npages * sizeof *pages);
	if (flags & LOGPROBS)
		logprobs = epd_arena_add(a, v.nids * sizeof *logprobs);
	note = epd_arena_add(a, v.note.n);
	if (!ids || !images || !pages || !note ||
	    (flags & LOGPROBS && !logprobs))
		return -ENOMEM;
	unpack_words(ids, epd_unpack_bytes(&c, (size_t)v.nids * 4).p, v.nids);
	unpack_images(&c, images, v.nimages);
	unpack_pages(&c, pages, v.npages);
	if (logprobs)
		unpack_words(logprobs,
		    epd_unpack_bytes(&c, (size_t)v.nids * 4).p, v.nids);
	memcpy(note, v.note.p, v.note.n);
	v.note.p = note;
	v.ids = ids;
	v.images = images;
	v.pages = pages;
	v.logprobs = logprobs;
	*out = v;
	return 0;
}

uint64_t
epd_body_size(const struct epd_version *v)
{
	return HEAD + (uint64_t)v->nids * (v->logprobs ? 8 : 4) +
	    (uint64_t)v->nimages * IMAGE + (uint64_t)v->npages * PAGE +
	    v->note.n;
}

int
epd_body_check(struct epd_span p, uint32_t page_tokens, uint64_t start,
    struct epd_why *why)
{
	struct epd_version v;
	struct epd_cur c;
	uint64_t covered;
	int rc = epd_body_unpack(p, NULL, &v);

	if (rc)
		return epd_why(why, rc, "version: %s", epd_strerror(rc));
	if (!v.run != !v.npages || (v.npages && !page_tokens))
		return epd_why(why, -EINVAL, "version: %u pages of %u tokens "
		    "in run %llu", v.npages, page_tokens,
		    (unsigned long long)v.run);
	c = epd_cur(p);
	epd_unpack_bytes(&c, HEAD + (size_t)v.nids * 4 +
	    (size_t)v.nimages * IMAGE);
	covered = (uint64_t)v.first_page * page_tokens;
	for (uint32_t i = 0; i < v.npages; i++) {
		uint32_t rows;

		epd_unpack_bytes(&c, EPD_NAME);
		rows = epd_unpack_u32(&c);
		epd_unpack_u64(&c);
		covered += rows;
		if (!rows || rows > page_tokens ||
		    (rows < page_tokens && i + 1 < v.npages))
			return epd_why(why, -EINVAL, "version: page %u has %u "
			    "rows of %u", v.first_page + i, rows, page_tokens);
	}
	if (v.npages && covered > start + v.nids)
		return epd_why(why, -EINVAL, "version: its pages hold %llu "
		    "tokens of %llu", (unsigned long long)covered,
		    (unsigned long long)(start + v.nids));
	return 0;
}
