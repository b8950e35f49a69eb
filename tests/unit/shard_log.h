/*
 * shard_log.h - logs cut, flipped and torn.  A history of operations is run
 * once, the folder kept as bytes after each; then folders are made as a crash
 * or a bad disk could leave them, and what opens there is compared.
 */
#ifndef TESTS_SHARD_LOG_H
#define TESTS_SHARD_LOG_H

#include "shard/segment.h"
#include "shard/shard_in.h"
#include "tests/unit/shard.h"

enum { LOG_STEPS = 24, LOG_GROUP = 6 };

/* Images of power losses so far, and how many of them held the new. */
static unsigned long long log_images, log_new;

struct log_history {
	struct shard_image at[LOG_STEPS + 1];	/* after k operations */
	uint64_t hash[LOG_STEPS + 1];
	int n;
};

static const struct epd_clock_fake log_now = { 1700000000000, 1 };

/* One operation that k decides. */
static inline int
log_step(struct epd_shard *s, int k)
{
	uint32_t id;

	switch (k % 6) {
	case 3:
		return shard_advance(s, (uint32_t)k / 6 * 2 + 1, 1, 9,
		    (uint64_t)k, (uint64_t)k + 1, &id);
	case 5:
		return epd_shard_release(s, (uint32_t)k / 6 * 2 + 2, "why",
		    NULL, NULL, NULL);
	default:
		/* Creates are states 1, 2, 3 ... in order. */
		return shard_create(s, (uint64_t)k, k % 2 ? (uint64_t)k + 1 : 0,
		    &id);
	}
}

/* save: an operation after which a checkpoint is written, or -1. */
static inline int
log_run(struct log_history *h, int dir, int steps, int save, int keep)
{
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	int rc;

	h->n = steps;
	o.log_keep = keep;
	epd_clock_fake(&log_now);
	rc = epd_shard_open(&s, dir, &o, NULL);
	for (int k = 0; !rc && k <= steps; k++) {
		if (k)
			rc = log_step(s, k - 1);
		if (!rc && k == save)
			rc = epd_shard_checkpoint(s, NULL);
		if (!rc)
			rc = shard_grab(&h->at[k], dir);
		h->hash[k] = shard_hash(s);
	}
	if (!rc)
		epd_shard_close(s);
	return rc;
}

static inline void
log_free(struct log_history *h)
{
	for (int k = 0; k <= h->n; k++)
		shard_image_free(&h->at[k]);
	epd_clock_fake(NULL);
}

/* What a reader sees: a hash, or 0 with the error in *rc. */
static inline uint64_t
log_look(int dir, int *rc)
{
	struct epd_shard *s;
	uint64_t h;

	*rc = shard_open(&s, dir, 1);
	if (*rc)
		return 0;
	h = shard_hash(s);
	epd_shard_close(s);
	return h;
}

/* Open for writing; the hash then.  After that it must work and check. */
static inline uint64_t
log_settle(int dir, int *rc, int *sound, int loud)
{
	struct epd_shard *s;
	uint32_t id;
	uint64_t h, then;

	*sound = 0;
	*rc = shard_open(&s, dir, 0);
	if (*rc)
		return 0;
	h = shard_hash(s);
	*rc = shard_create(s, 99, 99, &id);
	then = shard_hash(s);
	if (!*rc && epd_shard_check(s, loud ? shard_fault_print : NULL, NULL,
	    NULL) == 0)
		*sound = 1;
	epd_shard_close(s);
	if (*rc || !*sound)
		return h;
	*sound = log_look(dir, rc) == then;
	return h;
}

static inline int
log_find(const struct log_history *h, uint64_t hash, int from, int to)
{
	for (int k = from; k <= to; k++)
		if (hash && h->hash[k] == hash)
			return k;
	return -1;
}

/*
 * A random state of the disk after power went while operation k + 1 ran: each
 * 512 bytes of the log's new frame are there or not, the size is any the file
 * went through, the tip any that was written since the one at its last flush.
 */
static inline int
log_tear(const struct log_history *h, int k, uint64_t *r, int dir)
{
	const struct shard_image *old = &h->at[k], *new = &h->at[k + 1];
	int tip = k - (int)(shard_mix(++*r) % 3), rc = 0;
	int whole = shard_mix(++*r) % 4 == 0;

	if (tip < 0)
		tip = 0;
	if (whole && shard_mix(++*r) % 2)
		tip = k + 1;
	rc = shard_lay(old, dir);
	for (int i = 0; !rc && i < new->n; i++) {
		const struct shard_file *f = &new->file[i];
		struct shard_file *was = shard_file((void *)(uintptr_t)old,
		    f->name);
		struct epd_buf b = { 0 };

		if (strncmp(f->name, "log.", 4) || !was)
			continue;
		epd_buf_put(&b, f->data.p, f->data.n);
		for (size_t at = was->data.n & ~(size_t)511; !whole &&
		    at < b.n; at += 512) {
			size_t from = at < was->data.n ? was->data.n : at;
			size_t to = at + 512 < b.n ? at + 512 : b.n;
			uint64_t how = shard_mix(++*r) % 4;

			if (how == 1)
				memset(b.p + from, 0, to - from);
			else if (how == 2)
				memset(b.p + from, 0xe5, to - from);
			else if (how == 3 && shard_mix(++*r) % 4 == 0)
				b.n = from;
		}
		rc = shard_put(dir, f->name, b.p, b.n);
		epd_buf_free(&b);
	}
	if (!rc)
		rc = shard_put(dir, "tip",
		    shard_file((void *)(uintptr_t)&h->at[tip], "tip")->data.p,
		    64);
	return rc ? rc : tip;
}

/* Images of power losses in plain appends: old or new, never less. */
static inline void
log_torn(int images, uint64_t r)
{
	int dir = scratch_open(), rc, sound, tip, seen[2] = { 0, 0 };
	static struct log_history h;
	uint64_t hash;

	CHECK_INT(log_run(&h, dir, LOG_STEPS, -1, 0), 0);
	for (int i = 0; i < images; i++) {
		int k = i % LOG_STEPS;

		tip = log_tear(&h, k, &r, dir);
		CHECK(tip >= 0);
		hash = log_look(dir, &rc);
		CHECK_INT(rc, 0);
		CHECK_INT(log_find(&h, hash, tip, tip), tip);
		hash = log_settle(dir, &rc, &sound, 1);
		CHECK_INT(rc, 0);
		CHECK(log_find(&h, hash, k, k + 1) >= 0);
		seen[log_find(&h, hash, k, k + 1) - k]++;
		CHECK(sound);
	}
	CHECK(seen[0] > images / 20 && seen[1] > images / 20);
	log_images += (unsigned)images;
	log_new += (unsigned)seen[1];
	log_free(&h);
	scratch_close(dir);
}

/* Power losses while a checkpoint is written and the log goes on anew. */
static inline void
log_torn_checkpoint(int images, uint64_t r)
{
	enum { K = 12 };
	int dir = scratch_open(), rc, sound;
	static struct log_history h, plain;
	const struct shard_file *log1;
	uint64_t hash;

	CHECK_INT(log_run(&plain, dir, K, -1, 0), 0);
	/* The same folder goes on, so that the log's first segment is at hand. */
	log1 = shard_file(&plain.at[K], "log.00000001");
	{
		struct epd_shard *s;

		CHECK_INT(shard_open(&s, dir, 0), 0);
		CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
		h.hash[0] = shard_hash(s);
		CHECK_INT(shard_grab(&h.at[0], dir), 0);
		CHECK_INT(log_step(s, K), 0);
		h.hash[1] = shard_hash(s);
		CHECK_INT(shard_grab(&h.at[1], dir), 0);
		h.n = 1;
		epd_shard_close(s);
	}
	CHECK(h.hash[0] == plain.hash[K]);
	for (int i = 0; i < images; i++) {
		/* Made so far: 0 nothing, 1 the segment, 2 also the checkpoint,
		   3 the old segment gone, 4 and one frame in the new one. */
		int step = i % 5, tip;

		CHECK_INT(shard_lay(step == 4 ? &h.at[1] : &h.at[0], dir), 0);
		if (step < 3)
			CHECK_INT(shard_put(dir, "log.00000001",
			    log1->data.p, log1->data.n), 0);
		if (step < 2)
			CHECK_INT(unlinkat(dir, "checkpoint", 0), 0);
		if (step < 1)
			CHECK_INT(unlinkat(dir, "log.00000002", 0), 0);
		tip = (int)(shard_mix(++r) % 4);
		if (tip < 3)
			CHECK_INT(shard_put(dir, "tip", shard_file(
			    &plain.at[K - tip], "tip")->data.p, 64), 0);
		else if (!step)
			continue;
		if (shard_mix(++r) % 3 == 0)
			CHECK_INT(shard_put(dir, ".tmp.0123456789abcdef",
			    "x", 1), 0);
		hash = log_look(dir, &rc);
		CHECK_INT(rc, 0);
		CHECK(log_find(&plain, hash, K - 2, K) >= 0 ||
		    (step == 4 && hash == h.hash[1]));
		hash = log_settle(dir, &rc, &sound, 1);
		CHECK_INT(rc, 0);
		CHECK(hash == h.hash[step == 4]);
		CHECK(sound);
		log_images++;
		log_new += step == 4;
	}
	log_free(&h);
	log_free(&plain);
	scratch_close(dir);
}

/* Append without a flush, as one of many who wait for the same one. */
static inline int
log_append(struct epd_shard *s, int k)
{
	struct epd_state st = shard_traits((uint64_t)k);
	struct shard_made m;
	int rc = epd_shard_begin(s, NULL);

	if (rc)
		return rc;
	epd_shard_frame(s, 0);
	epd_create_pack(&s->frame, s->table->next_state, &st,
	    shard_make(&m, (uint64_t)k, (uint64_t)k + 1));
	rc = epd_shard_append(s, NULL);
	epd_shard_leave(s);
	return rc;
}

/* A history whose last operations nobody flushed; leases among the first. */
static inline int
log_group(struct log_history *h, int dir, int store, int synced, int leases)
{
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	uint64_t id;
	int rc = epd_procs_open(&o.procs, store);

	h->n = synced + LOG_GROUP;
	epd_clock_fake(&log_now);
	if (!rc)
		rc = epd_shard_open(&s, dir, &o, NULL);
	for (int k = 0; !rc && k <= h->n; k++) {
		if (k && k <= synced)
			rc = log_step(s, k - 1);
		else if (k && k <= synced + leases)
			rc = epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER,
			    60000, &id, NULL);
		else if (k)
			rc = log_append(s, 100 + k);
		if (!rc)
			rc = shard_grab(&h->at[k], dir);
		h->hash[k] = shard_hash(s);
	}
	if (!rc) {
		epd_shard_close(s);
		epd_procs_close(o.procs);
	}
	return rc;
}

/*
 * Power goes when so many have appended behind the last flush.  Of their bytes
 * each 512 are there or not; the mark is any that was written, and the tip any
 * that was published: three operations back, or leases that were not flushed.
 * The tip's number.
 */
static inline int
log_tear_group(const struct log_history *h, int synced, int leases, int k,
    uint64_t *r, int dir)
{
	const struct shard_file *old, *new;
	int tip = synced - 2 + (int)(shard_mix(++*r) % (unsigned)(3 + (k <
	    synced + leases ? k - synced : leases)));
	int mark = (int)(shard_mix(++*r) % (unsigned)(k + 1)), rc;
	int whole = shard_mix(++*r) % 8 == 0;
	struct epd_buf b = { 0 };
	uint8_t both[2 * EPD_TIP_SIZE];

	old = shard_file((void *)(uintptr_t)&h->at[synced], "log.00000001");
	new = shard_file((void *)(uintptr_t)&h->at[k], "log.00000001");
	epd_buf_put(&b, new->data.p, new->data.n);
	for (size_t at = old->data.n & ~(size_t)511; !whole && at < b.n;
	    at += 512) {
		size_t from = at < old->data.n ? old->data.n : at;
		size_t to = at + 512 < b.n ? at + 512 : b.n;
		uint64_t how = shard_mix(++*r) % 6;

		if (how == 1)
			memset(b.p + from, 0, to - from);
		else if (how == 2)
			memset(b.p + from, 0xe5, to - from);
		else if (how == 3 && shard_mix(++*r) % 8 == 0)
			b.n = from;
	}
	rc = shard_lay(&h->at[synced], dir);
	if (!rc)
		rc = shard_put(dir, "log.00000001", b.p, b.n);
	epd_buf_free(&b);
	memcpy(both, shard_file((void *)(uintptr_t)&h->at[tip],
	    "tip")->data.p, EPD_TIP_SIZE);
	memcpy(both + EPD_TIP_SIZE, shard_file((void *)(uintptr_t)
	    &h->at[mark], "tip")->data.p + EPD_TIP_SIZE, EPD_TIP_SIZE);
	if (!rc)
		rc = shard_put(dir, "tip", both, sizeof both);
	return rc ? rc : tip;
}

/* Images of power losses while many wait for one flush: whole ones of the
   first that appended, none beside that. */
static inline void
log_torn_group(int images, uint64_t r)
{
	int dir = scratch_open(), store = scratch_open(), rc, sound;
	int seen[LOG_GROUP + 1] = { 0 };
	static struct log_history h;
	uint64_t hash;

	for (int i = 0; i < images; i++) {
		const int leases = i / 50 % 3, synced = 6 + i / 50 % 7;
		int k = synced + i % (LOG_GROUP + 1), tip, at;

		if (i % 50 == 0) {
			if (i)
				log_free(&h);
			shard_lay(&(struct shard_image){ .n = 0 }, dir);
			CHECK_INT(log_group(&h, dir, store, synced, leases),
			    0);
		}
		tip = log_tear_group(&h, synced, leases, k, &r, dir);
		CHECK(tip >= 0);
		hash = log_look(dir, &rc);
		CHECK_INT(rc, 0);
		CHECK(log_find(&h, hash, tip < synced ? tip : synced, tip) >=
		    0);
		hash = log_settle(dir, &rc, &sound, 1);
		CHECK_INT(rc, 0);
		at = log_find(&h, hash, synced, k);
		CHECK(at >= synced);
		CHECK(sound);
		seen[at - synced]++;
		log_new += at > synced + leases;
	}
	for (int i = 3; i < LOG_GROUP; i++)
		CHECK(seen[i]);
	log_images += (unsigned)images;
	log_free(&h);
	scratch_close(store);
	scratch_close(dir);
}

static inline void
log_tell(unsigned least)
{
	printf("# row 3: %s power-loss images, old or new only: %s with "
	    "something new\n", row_n(log_images), row_n(log_new));
	CHECK(log_images >= least);
}

/* Cut the log at each byte: with the tip of its time, and with today's. */
static inline void
log_cut(int steps)
{
	int dir = scratch_open(), rc, sound, k = 0;
	static struct log_history h;
	const struct shard_file *log;
	uint64_t hash;

	CHECK_INT(log_run(&h, dir, steps, -1, 0), 0);
	log = shard_file(&h.at[steps], "log.00000001");
	for (size_t n = 64; n < log->data.n; n++) {
		while (shard_file(&h.at[k + 1], "log.00000001")->data.n <= n)
			k++;
		CHECK_INT(shard_lay(&h.at[steps], dir), 0);
		CHECK_INT(shard_put(dir, log->name, log->data.p, n), 0);
		hash = log_look(dir, &rc);
		CHECK_INT(rc, EPD_ECORRUPT);
		CHECK_INT(shard_put(dir, "tip",
		    shard_file(&h.at[k], "tip")->data.p, 64), 0);
		hash = log_look(dir, &rc);
		CHECK(hash == h.hash[k]);
		hash = log_settle(dir, &rc, &sound, 1);
		CHECK_INT(rc, 0);
		CHECK(hash == h.hash[k]);
		CHECK(sound);
	}
	for (size_t n = 0; n < 64; n++) {
		CHECK_INT(shard_lay(&h.at[steps], dir), 0);
		CHECK_INT(shard_put(dir, log->name, log->data.p, n), 0);
		log_look(dir, &rc);
		CHECK_INT(rc, EPD_ECORRUPT);
	}
	log_free(&h);
	scratch_close(dir);
}

/*
 * Change each byte of each file.  A reader sees the same or is refused; where
 * the log is whole behind a bad checkpoint it sees the same.  A writer too,
 * tried at every stride-th byte, and nothing of a refused folder is changed.
 */
static inline void
log_flip(int steps, int save, int keep, int all, int stride)
{
	int dir = scratch_open(), rc, sound, refused = 0, same = 0;
	static struct log_history h;
	struct shard_image *im;
	uint64_t hash, r = 1;

	CHECK_INT(log_run(&h, dir, steps, save, keep), 0);
	im = &h.at[steps];
	for (int i = 0; i < im->n; i++)
		for (size_t at = 0; at < im->file[i].data.n; at++) {
			struct shard_file *f = &im->file[i];
			struct shard_image left;
			uint8_t bit = (uint8_t)(all ? 255 : 1 <<
			    shard_mix(++r) % 8);

			if (!strcmp(f->name, "lock"))
				continue;
			f->data.p[at] ^= bit;
			if (!at || stride == 1 || at % (size_t)stride == 1)
				CHECK_INT(shard_lay(im, dir), 0);
			CHECK_INT(shard_put(dir, f->name, f->data.p,
			    f->data.n), 0);
			hash = log_look(dir, &rc);
			CHECK(!hash || hash == h.hash[steps]);
			if (!strcmp(f->name, "checkpoint") && keep < 0)
				CHECK(hash);
			hash ? same++ : refused++;
			if (at % (size_t)stride)
				goto next;
			hash = log_settle(dir, &rc, &sound, 0);
			CHECK(!hash || hash == h.hash[steps]);
			if (rc && !hash) {
				CHECK_INT(shard_grab(&left, dir), 0);
				for (int k = 0; k < left.n; k++) {
					struct shard_file *x = shard_file(im,
					    left.file[k].name);

					if (!strcmp(left.file[k].name, "lock"))
						continue;
					CHECK(x && x->data.n ==
					    left.file[k].data.n && !memcmp(
					    x->data.p, left.file[k].data.p,
					    x->data.n));
				}
				shard_image_free(&left);
			}
next:
			f->data.p[at] ^= bit;
		}
	CHECK(refused > 100);
	if (save >= 0 && keep < 0)
		CHECK(same > 100);
	log_free(&h);
	scratch_close(dir);
}

#endif
