/*
 * shard_record.c - fuzz records: the input is records one behind another, put
 * onto a table that has a few states.  What apply takes must leave it sound,
 * what it refuses must leave it as it was; the ledger, which knows nothing of
 * apply, must find nothing in what it took; and the table must come back from
 * its checkpoint.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "shard/apply.h"
#include "shard/check.h"
#include "shard/checkpoint.h"

static void
sound(struct epd_table *t)
{
	struct epd_faults f = { NULL, NULL, 0 };

	if (epd_tree_check(t->tree, NULL) || epd_recount(t, &f) || f.n)
		abort();
	for (size_t i = 0; i < t->nhandoffs; i++) {
		const struct epd_handoff *h = &t->handoff[i];
		struct epd_head *head = epd_table_find(t, h->state);

		/* Undecided it pins its state, which is there. */
		if ((h->phase == EPD_PREPARED || h->phase == EPD_READY) &&
		    (!head || !head->pinned))
			abort();
	}
}

/* Packed again it must be the same bytes. */
static void
same(struct epd_buf *b, struct epd_span p)
{
	if (!b->failed && (b->n != EPD_RECORD_HEAD + p.n ||
	    memcmp(b->p + EPD_RECORD_HEAD, p.p, p.n)))
		abort();
	epd_buf_free(b);
}

static int
count_run(void *arg, uint64_t run)
{
	(void)run;
	++*(uint32_t *)arg;
	return 0;
}

static void
unpack_body(struct epd_span p, struct epd_arena *a)
{
	struct epd_glance g;
	struct epd_buf b = { 0 };
	struct epd_version v;
	uint64_t salt;
	uint32_t runs = 0;

	if (epd_body_unpack(p, a, &v))
		return;
	epd_body_pack(&b, &v);
	if (!b.failed && (b.n != p.n || epd_body_size(&v) != p.n))
		abort();
	epd_buf_free(&b);
	if (epd_body_glance(p, &g) || g.nlinks != v.nlinks ||
	    g.run != v.run || epd_body_runs(p, count_run, &runs) ||
	    runs != v.nlinks + (v.run != 0) || epd_body_salt(p, &salt) ||
	    salt != v.sampling.salt)
		abort();
}

static void
unpack_ready(struct epd_span p, struct epd_arena *a)
{
	struct epd_create create;
	struct epd_handoff h;
	struct epd_buf b = { 0 };
	struct epd_version v;

	if (epd_ready_unpack(p, &h, &create) ||
	    epd_body_unpack(create.body, a, &v))
		return;
	epd_ready_pack(&b, &h, create.id, &create.state, &v);
	same(&b, p);
}

/* Each payload as if it were of each kind. */
static void
unpack_others(struct epd_span p)
{
	struct epd_arena a = { 0 };
	struct epd_handoff h;
	struct epd_buf b = { 0 };
	struct epd_lease lease;
	struct epd_drop drop;
	struct epd_move move;
	struct epd_wait wait;
	struct epd_fork fork;

	if (!epd_fork_unpack(p, &a, &fork)) {
		epd_fork_pack(&b, &fork);
		same(&b, p);
	}
	if (!epd_lease_unpack(p, &lease)) {
		epd_lease_pack(&b, &lease);
		same(&b, p);
	}
	if (!epd_drop_unpack(p, &drop)) {
		epd_drop_pack(&b, &drop);
		same(&b, p);
	}
	for (unsigned kind = EPD_KIND_OFFLOAD; kind <= EPD_KIND_COMMIT;
	    kind += EPD_KIND_COMMIT - EPD_KIND_OFFLOAD)
		if (!epd_move_unpack(p, kind, &move)) {
			epd_move_pack(&b, kind, &move);
			same(&b, p);
		}
	if (!epd_wait_unpack(p, &wait)) {
		epd_wait_pack(&b, &wait);
		same(&b, p);
	}
	if (!epd_prepare_unpack(p, &h)) {
		epd_prepare_pack(&b, &h);
		same(&b, p);
	}
	unpack_ready(p, &a);
	unpack_body(p, &a);
	epd_arena_free(&a);
}

static int
body_of(void *arg, const struct epd_node *n, struct epd_span *out)
{
	return epd_table_body(arg, n->body, out);
}

/* As a checkpoint and back. */
static void
again(struct epd_table *t)
{
	struct epd_buf index = { 0 }, bodies = { 0 };
	struct epd_faults f = { NULL, NULL, 0 };
	struct epd_table *u;
	uint32_t segment;
	uint64_t size;
	int fd;

	if (!epd_checkpoint_pack(t, 1, body_of, t, &index, &bodies)) {
		fd = memfd_create("again", MFD_CLOEXEC);
		if (epd_file_pwrite(fd, index.p, index.n, 0) ||
		    epd_file_pwrite(fd, bodies.p, bodies.n, index.n) ||
		    epd_checkpoint_load(fd, &u, &segment, &size, NULL) ||
		    epd_table_compare(t, u, "checkpoint", &f) || f.n)
			abort();
		epd_table_free(u);
	}
	epd_buf_free(&index);
	epd_buf_free(&bodies);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_cur c = epd_cur(epd_span(p, n));
	struct epd_rec r = { .wall_ms = 7 };
	struct epd_faults f = { NULL, NULL, 0 };
	struct epd_ledger ledger = { .states = { 0 } };
	struct epd_table *t;

	if (epd_table_new(&t))
		return 0;
	while (epd_record_next(&c, &r) > 0) {
		uint64_t lsn = t->lsn;

		r.lsn = lsn + 1;
		r.term = t->term;
		unpack_others(r.payload);
		if (epd_apply(t, &r, NULL)) {
			if (t->lsn != lsn)
				abort();
		} else if (t->lsn != lsn + 1 ||
		    epd_ledger_record(&ledger, &r, &f) || f.n) {
			abort();
		}
		t->freed = NULL;
		sound(t);
	}
	again(t);
	epd_ledger_free(&ledger);
	epd_table_free(t);
	return 0;
}
