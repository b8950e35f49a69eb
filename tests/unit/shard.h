/*
 * shard.h - for tests of the shard: versions made from a number, all that a
 * shard shows as one hash, and folders copied as bytes.
 */
#ifndef TESTS_SHARD_H
#define TESTS_SHARD_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "shard/shard.h"
#include "tests/check.h"
#include "tests/unit/scratch.h"

static const struct epd_shard_options shard_plain = {
	.lock_timeout_ms = 10000, .checkpoint_bytes = 1 << 20, .sync = 1,
};

enum { SHARD_IDS = 40, SHARD_PAGES = 3 };

/* 1: built with a sanitizer, so that long tests are better short. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { SHARD_SLOW = 1 };
#else
enum { SHARD_SLOW = 0 };
#endif

/* A figure with commas, as the scoreboard has them; good for four calls. */
static inline const char *
row_n(unsigned long long n)
{
	static char text[4][32];
	static unsigned turn;
	char plain[24], *out = text[turn++ % 4], *at = out;
	int len = snprintf(plain, sizeof plain, "%llu", n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			*at++ = ',';
		*at++ = plain[i];
	}
	*at = '\0';
	return out;
}

/* The arrays one version lends. */
struct shard_made {
	struct epd_version v;
	int32_t ids[SHARD_IDS];
	float logprobs[SHARD_IDS];
	struct epd_image_ref images[2];
	struct epd_page_ref pages[SHARD_PAGES];
	char note[40];
};

static inline uint64_t
shard_mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* A version that seed decides; run 0 leaves out the pages. */
static inline const struct epd_version *
shard_make(struct shard_made *m, uint64_t seed, uint64_t run)
{
	uint64_t r = shard_mix(seed);

	memset(m, 0, sizeof *m);
	m->v.nids = run ? SHARD_IDS : (uint32_t)(r % (SHARD_IDS + 1));
	for (uint32_t i = 0; i < SHARD_IDS; i++) {
		m->ids[i] = (int32_t)(shard_mix(r + i) & 0x7fffff);
		m->logprobs[i] = -(float)(i + 1) / 8;
	}
	m->v.ids = m->ids;
	m->v.logprobs = r & 1024 ? m->logprobs : NULL;
	m->v.nimages = (uint32_t)(r >> 20 & 1) + (uint32_t)(r >> 21 & 1);
	for (uint32_t i = 0; i < 2; i++) {
		m->images[i].at = r >> 40 & 255;
		m->images[i].grid[1] = 4 + i;
		memset(m->images[i].fp.b, (int)(r >> 8 & 255), EPD_NAME);
	}
	m->v.images = m->images;
	m->v.npages = run ? (uint32_t)(r >> 22 & 1) + 1 : 0;
	for (uint32_t i = 0; i < SHARD_PAGES; i++) {
		memset(m->pages[i].name.b, (int)(r >> 16 & 255), EPD_NAME);
		m->pages[i].rows = i + 1 < m->v.npages ? 16 : 7;
		m->pages[i].sum = shard_mix(r ^ i);
	}
	m->v.pages = m->pages;
	m->v.run = run;
	m->v.next_pos = (int64_t)(r >> 50) - 8000;
	m->v.has_lengths = r >> 36 & 1;
	m->v.text_bytes = m->v.has_lengths ? r >> 3 : 0;
	m->v.messages_bytes = m->v.has_lengths ? ~r : 0;
	m->v.turn = r >> 24 & 3;
	m->v.finish = (uint8_t)((r >> 26 & 7) % 5);
	m->v.sampling = (struct epd_sampling){ 0.5f, 0.75f, 1.25f,
	    (int32_t)(r >> 30 & 63), r, seed };
	snprintf(m->note, sizeof m->note, "{\"n\":%u}", (unsigned)(r & 4095));
	m->v.note = epd_span_str(m->note);
	return &m->v;
}

static inline struct epd_state
shard_traits(uint64_t seed)
{
	struct epd_state s = {
		.page_tokens = 16, .kv_type = 2, .page_bytes = 4096,
		.model_path = "models/tiny", .tenant = seed & 1 ? "a" : NULL,
		.fingerprint = "{\"dtype\":\"bf16\"}",
	};

	memset(s.model_fp.b, (int)(seed & 255), EPD_NAME);
	memset(s.base.b, 7, EPD_NAME);
	return s;
}

static inline int
shard_open(struct epd_shard **s, int dir, int read_only)
{
	struct epd_shard_options o = shard_plain;
	struct epd_why why = { "" };
	int rc;

	o.read_only = read_only;
	rc = epd_shard_open(s, dir, &o, &why);
	if (rc && getenv("SHARD_WHY"))
		printf("# open: %d: %s\n", rc, why.text);
	return rc;
}

static inline int
shard_create(struct epd_shard *s, uint64_t seed, uint64_t run, uint32_t *id)
{
	struct epd_state st = shard_traits(seed);
	struct shard_made m;

	return epd_shard_create(s, &st, shard_make(&m, seed, run), id, NULL);
}

static inline int
shard_advance(struct epd_shard *s, uint32_t id, uint32_t expect,
    uint64_t key, uint64_t seed, uint64_t run, uint32_t *version)
{
	struct shard_made m;

	return epd_shard_advance(s, id, expect, key,
	    shard_make(&m, seed, run), version, NULL);
}

static inline void
shard_pack_version(struct epd_buf *b, const struct epd_version *v)
{
	epd_buf_fmt(b, "%llu %llu %llu %llu %u %u %u %u %llu %lld %u %u|",
	    (unsigned long long)v->node, (unsigned long long)v->parent,
	    (unsigned long long)v->start, (unsigned long long)v->wall_ms,
	    v->nids, v->nimages, v->npages, v->first_page,
	    (unsigned long long)v->run, (long long)v->next_pos, v->turn,
	    v->finish);
	epd_buf_put(b, v->ids, v->nids * sizeof *v->ids);
	for (uint32_t i = 0; i < v->nimages; i++) {
		epd_pack_u64(b, v->images[i].at);
		epd_buf_put(b, v->images[i].grid, 12);
		epd_buf_put(b, v->images[i].fp.b, EPD_NAME);
	}
	for (uint32_t i = 0; i < v->npages; i++) {
		epd_buf_put(b, v->pages[i].name.b, EPD_NAME);
		epd_pack_u32(b, v->pages[i].rows);
		epd_pack_u64(b, v->pages[i].sum);
	}
	for (uint32_t i = 0; i < v->nlinks; i++) {
		epd_pack_u64(b, v->links[i].run);
		epd_pack_u32(b, v->links[i].pages);
	}
	if (v->logprobs)
		epd_buf_put(b, v->logprobs, v->nids * sizeof *v->logprobs);
	epd_buf_put(b, &v->sampling.temp, 16);
	epd_pack_u64(b, v->sampling.seed);
	epd_pack_u64(b, v->sampling.salt);
	epd_pack_u8(b, v->has_lengths);
	epd_pack_u64(b, v->text_bytes);
	epd_pack_u64(b, v->messages_bytes);
	epd_pack_span(b, v->note);
}

/* Everything the shard shows but its lsn; 0 if something cannot be read. */
static inline uint64_t
shard_hash(struct epd_shard *s)
{
	struct epd_buf b = { 0 };
	struct epd_version v;
	struct epd_state st;
	uint64_t h = 0;
	int rc = 0;

	for (uint32_t id = 0; !rc && !epd_shard_next(s, id, &st); id = st.id) {
		epd_buf_fmt(&b, "s%u %u %d %llu %llu %llu %u %u %llu %u %u "
		    "%llu %s %s %s;", st.id, st.versions, st.status,
		    (unsigned long long)st.epoch,
		    (unsigned long long)st.created_ms,
		    (unsigned long long)st.changed_ms, st.parent_state,
		    st.parent_version, (unsigned long long)st.ttl_deadline_ms,
		    st.page_tokens, st.kv_type,
		    (unsigned long long)st.page_bytes, st.model_path,
		    st.tenant, st.fingerprint);
		epd_buf_put(&b, st.model_fp.b, EPD_NAME);
		for (uint32_t n = 1; !rc && n <= st.versions; n++) {
			rc = epd_shard_version(s, st.id, n, &v);
			if (!rc)
				shard_pack_version(&b, &v);
		}
	}
	if (!rc && !b.failed)
		h = epd_xxh3_64(b.p ? b.p : (const void *)"", b.n) | 1;
	epd_buf_free(&b);
	return h;
}

/* A folder's files as bytes. */
struct shard_file {
	char name[32];
	struct epd_buf data;
};
struct shard_image {
	struct shard_file file[24];
	int n;
};

struct shard_grab_arg {
	struct shard_image *to;
	int dir;
};

static inline int
shard_grab_one(void *arg, const char *name)
{
	struct shard_grab_arg *g = arg;
	struct shard_file *f = &g->to->file[g->to->n++];

	snprintf(f->name, sizeof f->name, "%s", name);
	memset(&f->data, 0, sizeof f->data);
	return epd_file_read(g->dir, name, 1 << 26, &f->data);
}

static inline int
shard_grab(struct shard_image *im, int dir)
{
	struct shard_grab_arg g = { im, dir };

	im->n = 0;
	return epd_dir_each(dir, shard_grab_one, &g);
}

static inline struct shard_file *
shard_file(struct shard_image *im, const char *name)
{
	for (int i = 0; i < im->n; i++)
		if (!strcmp(im->file[i].name, name))
			return &im->file[i];
	return NULL;
}

static inline void
shard_image_free(struct shard_image *im)
{
	for (int i = 0; i < im->n; i++)
		epd_buf_free(&im->file[i].data);
	im->n = 0;
}

/* Write the first n bytes to name, which is made anew. */
static inline int
shard_put(int dir, const char *name, const void *p, size_t n)
{
	int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC, 0600), rc;

	if (fd < 0)
		return -errno;
	rc = n ? epd_file_pwrite(fd, p, n, 0) : 0;
	close(fd);
	return rc;
}

static inline int
shard_wipe_one(void *arg, const char *name)
{
	return unlinkat(*(int *)arg, name, 0) ? -errno : 0;
}

/* The folder becomes what the image says. */
static inline int
shard_lay(const struct shard_image *im, int dir)
{
	int rc = epd_dir_each(dir, shard_wipe_one, &dir);

	for (int i = 0; !rc && i < im->n; i++)
		rc = shard_put(dir, im->file[i].name, im->file[i].data.p,
		    im->file[i].data.n);
	return rc;
}

static inline void
shard_fault_print(void *arg, const char *text)
{
	(void)arg;
	printf("# fault: %s\n", text);
}

#endif
