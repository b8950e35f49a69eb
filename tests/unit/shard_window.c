/*
 * shard_window.c - checkpoints larger than the windows they are read in: index
 * and bodies, forwards, backwards and at random, whole and damaged.
 */
#include <limits.h>

#include "shard/checkpoint.h"
#include "shard/shard_in.h"
#include "tests/unit/fault.h"
#include "tests/unit/shard.h"

enum { VERSIONS = 2500, LONG = 50000 };

/* Now and then a note that does not fit into a window with others. */
static const struct epd_version *
version(struct shard_made *m, uint64_t i, char *note)
{
	size_t n = i % 500 == 499 ? 100000 : i % 97 ? 0 : 3000;

	shard_make(m, i, 0);
	if (n) {
		memset(note, 'a' + (int)(i % 26), n);
		m->v.note = epd_span(note, n);
	}
	return &m->v;
}

/* s1 has all versions, s2 and s3 traits as long as they may be. */
static int
fill(int dir, int keep, uint64_t *hash)
{
	struct epd_shard_options o = shard_plain;
	struct epd_state st = shard_traits(1);
	char *text = malloc(LONG + 1), *note = malloc(100000);
	struct epd_shard *s = NULL;
	struct shard_made m;
	uint32_t id, at;
	int rc;

	memset(text, 'x', LONG);
	text[LONG] = '\0';
	o.sync = 0;
	o.log_keep = keep ? -1 : 0;
	o.checkpoint_bytes = 1 << 30;
	rc = epd_shard_open(&s, dir, &o, NULL);
	if (!rc)
		rc = epd_shard_create(s, &st, version(&m, 0, note), &id, NULL);
	for (uint32_t i = 1; !rc && i < VERSIONS; i++)
		rc = epd_shard_advance(s, 1, i, 0, version(&m, i, note), &at,
		    NULL);
	st.model_path = st.tenant = st.fingerprint = text;
	for (int i = 0; !rc && i < 2; i++)
		rc = epd_shard_create(s, &st, version(&m, 9, note), &id, NULL);
	*hash = rc ? 0 : shard_hash(s);
	if (!rc)
		rc = epd_shard_checkpoint(s, NULL);
	epd_shard_close(s);
	free(text);
	free(note);
	return rc;
}

/* 1 if a glance and an outline are parts of what the version is. */
static int
agree(struct epd_shard *s, const struct epd_version *v)
{
	struct epd_outline o, next;
	struct epd_glance g;

	return !epd_shard_glance(s, v->node, &g) && g.node == v->node &&
	    g.nids == v->nids && g.nimages == v->nimages &&
	    g.npages == v->npages && g.first_page == v->first_page &&
	    g.run == v->run && g.parent == v->parent &&
	    !epd_shard_outline(s, v->node, &o) && o.node == v->node &&
	    o.parent == v->parent && o.run == v->run &&
	    !epd_shard_outline_next(s, v->node - 1, &next) &&
	    next.node == v->node;
}

TEST(every_way_through)
{
	int dir = scratch_open(), bad = 0;
	struct epd_shard *s;
	struct epd_version v;
	struct epd_outline o;
	struct epd_glance g;
	uint64_t hash, node;

	CHECK_INT(fill(dir, 0, &hash), 0);
	CHECK_INT(shard_open(&s, dir, 1), 0);
	CHECK(s->table->fd >= 0 && s->checkpoint_size > 4 * 65536);
	CHECK(shard_hash(s) == hash);
	for (uint32_t i = VERSIONS; i > 0; i--) {
		CHECK_INT(epd_shard_version(s, 1, i, &v), 0);
		CHECK_INT(epd_shard_holds(s, 1, i, &node), 0);
		CHECK(node == v.node && agree(s, &v));
	}
	epd_shard_close(s);
	/* Nothing lent: each is read where it is asked for. */
	CHECK_INT(shard_open(&s, dir, 1), 0);
	for (uint64_t i = 0; i < VERSIONS; i++) {
		struct shard_made m;

		CHECK_INT(epd_shard_holds(s, 1,
		    (uint32_t)(shard_mix(i) % VERSIONS) + 1, &node), 0);
		CHECK_INT(epd_shard_glance(s, node, &g), 0);
		shard_make(&m, shard_mix(i) % VERSIONS, 0);
		bad += g.nids != m.v.nids || g.nimages != m.v.nimages;
	}
	CHECK_INT(bad, 0);
	CHECK_INT(epd_shard_holds(s, 1, VERSIONS + 1, &node), EPD_ENOTHING);
	CHECK_INT(epd_shard_holds(s, 7, 0, &node), EPD_ENOSTATE);
	CHECK_INT(epd_shard_glance(s, 1 << 20, &g), -ENOENT);
	CHECK_INT(epd_shard_outline(s, 1 << 20, &o), -ENOENT);
	CHECK_INT(epd_shard_outline_next(s, 1 << 20, &o), -ENOENT);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	epd_shard_close(s);
	scratch_close(dir);
}

/* Where the checkpoint's index ends. */
static size_t
index_end(const struct shard_file *f)
{
	struct epd_cur c = epd_cur(epd_span(f->data.p + 56, 8));

	return EPD_CHECKPOINT_HEAD + (size_t)epd_unpack_u64(&c);
}

TEST(a_flipped_byte_of_the_index)
{
	for (int keep = 0; keep < 2; keep++) {
		int dir = scratch_open();
		struct shard_image im = { .n = 0 };
		struct shard_file *f;
		struct epd_shard *s;
		uint64_t hash;
		size_t end, step;

		CHECK_INT(fill(dir, keep, &hash), 0);
		CHECK_INT(shard_grab(&im, dir), 0);
		f = shard_file(&im, EPD_CHECKPOINT);
		end = index_end(f);
		CHECK(end > 3 * 65536 && end < f->data.n);
		step = keep ? 9973 : 997;
		for (size_t at = EPD_CHECKPOINT_HEAD; at < end; at += step) {
			f->data.p[at] = (uint8_t)(f->data.p[at] ^ 1 << at % 8);
			CHECK_INT(shard_put(dir, f->name, f->data.p,
			    f->data.n), 0);
			CHECK_INT(shard_open(&s, dir, 1),
			    keep ? 0 : EPD_ECORRUPT);
			if (keep) {
				CHECK(shard_hash(s) == hash);
				epd_shard_close(s);
			}
			f->data.p[at] = (uint8_t)(f->data.p[at] ^ 1 << at % 8);
		}
		/* Cut short, within a window and between two. */
		for (size_t n = end - 70000; n < end && !keep; n += 7001) {
			CHECK_INT(shard_put(dir, f->name, f->data.p, n), 0);
			CHECK_INT(shard_open(&s, dir, 1), EPD_ECORRUPT);
		}
		shard_image_free(&im);
		scratch_close(dir);
	}
}

TEST(what_fails_gives_nothing_out)
{
	int dir = scratch_open();
	struct shard_image im = { .n = 0 };
	struct epd_table *t = NULL;
	struct shard_file *f;
	uint32_t segment = 77;
	uint64_t hash, size = 78;

	CHECK_INT(fill(dir, 0, &hash), 0);
	CHECK_INT(shard_grab(&im, dir), 0);
	f = shard_file(&im, EPD_CHECKPOINT);
	f->data.p[index_end(f) - 1] ^= 1;
	CHECK_INT(shard_put(dir, f->name, f->data.p, f->data.n), 0);
	CHECK_INT(epd_checkpoint_read(dir, &t, &segment, &size, NULL),
	    EPD_ECORRUPT);
	CHECK(!t && segment == 77 && size == 78);
	shard_image_free(&im);
	scratch_close(dir);
}

/* A read that fails, or is tried again, is no fault of the books. */
TEST(what_cannot_be_read_is_not_damaged)
{
	struct epd_shard_options o = shard_plain;
	struct epd_metrics *m;
	struct epd_shard *s;
	int dir = scratch_open(), counters = scratch_open(), calls, told = 0;
	uint64_t hash;

	CHECK_INT(epd_metrics_open(&m, counters), 0);
	CHECK_INT(fill(dir, 1, &hash), 0);
	o.metrics = m;
	o.read_only = 1;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	fault.only = "pread";
	fault_arm(INT_MAX, EIO, 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	calls = fault_calls();
	CHECK(calls > 20);
	for (int i = 1; i <= calls; i += 1 + calls / 20) {
		struct epd_why why = { "" };
		int rc;

		fault.only = "pread";
		fault_arm(i, EIO, 0);
		rc = epd_shard_check(s, shard_fault_print, NULL, &why);
		fault_calls();
		CHECK(rc == 0 || rc == -EIO);
		CHECK(!rc == !why.text[0]);
		told += rc != 0;
	}
	CHECK(told > 8);
	CHECK_INT(epd_metrics_get(m, EPD_M_REFCOUNT_MISMATCH), 0);
	epd_shard_close(s);
	epd_metrics_close(m);
	scratch_close(counters);
	scratch_close(dir);
}

TEST(a_flipped_byte_of_a_body)
{
	int dir = scratch_open(), bad = 0, wrong = 0;
	struct shard_image im = { .n = 0 };
	struct shard_file *f;
	struct epd_shard *s;
	struct epd_glance g;
	uint64_t hash, node;

	CHECK_INT(fill(dir, 1, &hash), 0);
	CHECK_INT(shard_grab(&im, dir), 0);
	f = shard_file(&im, EPD_CHECKPOINT);
	for (size_t at = index_end(f); at < f->data.n; at += 50021)
		f->data.p[at] ^= 0x40;
	CHECK_INT(shard_put(dir, f->name, f->data.p, f->data.n), 0);
	/* The log still has them; without it none is shown wrong. */
	CHECK_INT(shard_open(&s, dir, 1), 0);
	CHECK(shard_hash(s) == hash);
	epd_shard_close(s);
	CHECK_INT(unlinkat(dir, "log.00000001", 0), 0);
	CHECK_INT(shard_open(&s, dir, 1), 0);
	for (uint32_t i = 1; i <= VERSIONS; i++) {
		struct shard_made m;
		int rc;

		CHECK_INT(epd_shard_holds(s, 1, i, &node), 0);
		rc = epd_shard_glance(s, node, &g);
		CHECK(rc == 0 || rc == EPD_ECORRUPT);
		shard_make(&m, i - 1, 0);
		bad += rc != 0;
		wrong += !rc && (g.nids != m.v.nids ||
		    g.nimages != m.v.nimages);
	}
	CHECK(bad > 4 && bad < 40);
	CHECK_INT(wrong, 0);
	epd_shard_close(s);
	shard_image_free(&im);
	scratch_close(dir);
}

/* A count in memory that is not what a recount gives is a fault, and counted. */
TEST(mismatches_are_counted)
{
	struct epd_shard_options o = shard_plain;
	struct epd_metrics *m;
	struct epd_shard *s;
	int dir = scratch_open(), counters = scratch_open();
	uint32_t id;

	CHECK_INT(epd_metrics_open(&m, counters), 0);
	o.metrics = m;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	CHECK_INT(epd_metrics_get(m, EPD_M_REFCOUNT_MISMATCH), 0);
	CHECK_INT(epd_tree_hold(s->table->tree, 1), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 2);
	CHECK_INT(epd_metrics_get(m, EPD_M_REFCOUNT_MISMATCH), 2);
	epd_shard_close(s);
	epd_metrics_close(m);
	scratch_close(counters);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
