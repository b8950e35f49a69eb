/*
 * shard_changed.c - when a state changed last: by which records, the same live,
 * read back and behind a checkpoint, and what is made of one that does not say.
 */
#include "shard/check.h"
#include "shard/checkpoint.h"
#include "shard/fork.h"
#include "shard/shard_in.h"
#include "tests/unit/shard_hold.h"

static struct epd_clock_fake now = { 1000000, 5000000000 };

static uint64_t
changed(struct epd_shard *s, uint32_t id)
{
	struct epd_state st;

	return epd_shard_state(s, id, &st) ? 0 : st.changed_ms;
}

static uint64_t
epoch(struct epd_shard *s, uint32_t id)
{
	struct epd_state st;

	return epd_shard_state(s, id, &st) ? 0 : st.epoch;
}

static int
branch(struct epd_shard *s, uint32_t id, uint32_t n)
{
	struct epd_fork_ask f = { .state = id, .branches = n };
	uint32_t first;

	now.wall_ms += 1000;
	return epd_shard_fork(s, &f, &first, NULL);
}

static int
release(struct epd_shard *s, uint32_t id)
{
	now.wall_ms += 1000;
	return epd_shard_release(s, id, "", NULL, NULL, NULL);
}

TEST(by_each_record)
{
	int store = scratch_open(), dir;
	struct epd_handoff half = { .state = 1, .version = 2, .phase =
	    EPD_PREPARED, .id = { 1 }, .peer = { 2 }, .store = "",
	    .workflow = "w2", .deadline_ms = UINT64_MAX };
	uint64_t lease, at;
	struct epd_procs *procs;
	struct epd_shard *s;
	uint32_t id, version;

	epd_clock_fake(&now);
	CHECK_INT(epd_procs_open(&procs, store), 0);
	dir = epd_dir_make(store, "w");
	CHECK(dir >= 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	now.wall_ms += 1000;
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 6, &version), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	CHECK_INT(branch(s, 1, 2), 0);
	for (id = 1; id <= 3; id++)
		CHECK_INT(changed(s, id), now.wall_ms);
	CHECK(hold_same(s, dir));
	at = now.wall_ms;
	/* A refusal is none, nor what others do. */
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 6, &version), EPD_EVERSION);
	now.wall_ms += 1000;
	CHECK_INT(shard_create(s, 3, 7, &id), 0);
	CHECK_INT(epd_shard_suspect(s, 2, "", NULL), 0);
	CHECK_INT(changed(s, 2), now.wall_ms);
	now.wall_ms += 1000;
	CHECK_INT(epd_shard_clear(s, 2, "", NULL), 0);
	CHECK_INT(changed(s, 2), now.wall_ms);
	CHECK_INT(epd_shard_abort(s, 2, "", NULL), 0);
	CHECK_INT(changed(s, 1), at);
	CHECK_INT(changed(s, 3), at);
	CHECK(hold_same(s, dir));
	now.wall_ms += 1000;
	CHECK_INT(epd_shard_lease(s, 1, 2, EPD_LEASE_TRANSFER, 9000, &lease,
	    NULL), 0);
	CHECK_INT(epd_shard_drop(s, lease, "", NULL), 0);
	CHECK_INT(changed(s, 1), at);
	/* A hand-off moves its epoch twice: begun, and rolled back. */
	CHECK_INT(epd_shard_prepare(s, &half, NULL), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	now.wall_ms += 1000;
	CHECK_INT(epd_shard_rollback_at(s, half.id, 0, "", NULL), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	epd_procs_close(procs);
	epd_clock_fake(NULL);
	close(dir);
	scratch_close(store);
}

/* SHARED ends with the last that shares, whatever the epoch says. */
TEST(by_who_shares_no_more)
{
	struct epd_fork_ask replace = { .state = 4, .branches = 1,
	    .replace = 1 };
	int dir = scratch_open();
	struct epd_shard *s;
	uint32_t id, version;
	uint64_t at, e;

	epd_clock_fake(&now);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	CHECK_INT(shard_create(s, 2, 6, &id), 0);
	CHECK_INT(branch(s, 1, 1), 0);
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 7, &version), 0);
	CHECK_INT(branch(s, 3, 1), 0);
	CHECK_INT(changed(s, 4), now.wall_ms);
	at = changed(s, 1);
	e = epoch(s, 1);
	/* Three stand on one root; then two; then one. */
	CHECK_INT(release(s, 3), 0);
	CHECK_INT(changed(s, 1), at);
	now.wall_ms += 1000;
	CHECK_INT(epd_shard_fork(s, &replace, &id, NULL), 0);
	CHECK_INT(id, 5);
	CHECK_INT(changed(s, 1), at);
	CHECK(hold_same(s, dir));
	CHECK_INT(release(s, 5), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	CHECK_INT(epoch(s, 1), (long long)e);
	CHECK(changed(s, 2) < at);
	CHECK(hold_same(s, dir));
	/* The parent goes and its branch is left. */
	CHECK_INT(branch(s, 2, 1), 0);
	CHECK_INT(release(s, 2), 0);
	CHECK_INT(changed(s, 6), now.wall_ms);
	CHECK(hold_same(s, dir));
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

static off_t
checkpoint_bytes(int dir)
{
	struct stat st;

	return fstatat(dir, "checkpoint", &st, 0) ? -1 : st.st_size;
}

/* What a build from before wrote: the same without it. */
TEST(a_checkpoint_that_does_not_say)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	uint64_t made, written, forked;
	struct epd_shard *s, *r;
	uint32_t id, version;
	off_t size;

	epd_clock_fake(&now);
	o.log_keep = 9;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(shard_create(s, 1, 5, &id), 0);
	now.wall_ms += 1000;
	written = now.wall_ms;
	CHECK_INT(shard_advance(s, 1, 1, 0, 2, 6, &version), 0);
	CHECK_INT(branch(s, 1, 1), 0);
	made = now.wall_ms;
	CHECK_INT(branch(s, 1, 1), 0);
	forked = now.wall_ms;
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	size = checkpoint_bytes(dir);
	for (size_t i = 0; i < s->table->n; i++)
		s->table->head[i]->guessed = 1;
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(size - checkpoint_bytes(dir), 3 * 8);
	epd_shard_close(s);
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(changed(s, 1), written);
	CHECK_INT(changed(s, 2), made);
	CHECK_INT(changed(s, 3), forked);
	/* The log's first records are there, and it is no damage. */
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	/* A guess stays one over a checkpoint, till a record says. */
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(size - checkpoint_bytes(dir), 3 * 8);
	CHECK_INT(branch(s, 1, 1), 0);
	CHECK_INT(changed(s, 1), now.wall_ms);
	CHECK_INT(changed(s, 2), made);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	CHECK_INT(shard_open(&r, dir, 1), 0);
	for (id = 1; id <= 4; id++)
		CHECK_INT(changed(r, id), changed(s, id));
	CHECK_INT(epd_shard_check(r, shard_fault_print, NULL, NULL), 0);
	/* What is known must agree. */
	s->table->head[3]->state.changed_ms++;
	CHECK(epd_shard_check(s, NULL, NULL, NULL) > 0);
	epd_shard_close(r);
	epd_shard_close(s);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

/* One that such a build did write. */
TEST(an_old_checkpoint)
{
	static const char path[] = "tests/fuzz/corpus/shard_checkpoint/plain";
	struct epd_buf b = { 0 };
	struct epd_table *t = NULL;
	uint32_t segment;
	uint64_t size;
	int dir = scratch_open(), fd;

	CHECK_INT(epd_file_read(AT_FDCWD, path, 1 << 20, &b), 0);
	CHECK(b.n > 1);
	/* The first byte is the fuzzer's. */
	CHECK_INT(shard_put(dir, "checkpoint", b.p + 1, b.n - 1), 0);
	fd = openat(dir, "checkpoint", O_RDONLY);
	CHECK_INT(epd_checkpoint_load(fd, &t, &segment, &size, NULL), 0);
	CHECK(t->n > 0);
	for (size_t i = 0; i < t->n; i++) {
		CHECK(t->head[i]->guessed);
		CHECK(t->head[i]->state.changed_ms >=
		    t->head[i]->state.created_ms);
	}
	epd_table_free(t);
	epd_buf_free(&b);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
