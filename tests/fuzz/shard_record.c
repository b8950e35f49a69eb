/*
 * shard_record.c - fuzz records: the input is records one behind another, put
 * onto a table that has a few states.  What apply takes must leave it sound,
 * what it refuses must leave it as it was.
 */
#include <stdlib.h>

#include "shard/apply.h"
#include "shard/check.h"

static void
sound(struct epd_table *t)
{
	struct epd_faults f = { NULL, NULL, 0 };

	if (epd_tree_check(t->tree, NULL) || epd_recount(t, &f) || f.n)
		abort();
}

/* Unpackers that apply does not call yet. */
static void
unpack_others(struct epd_span p)
{
	struct epd_arena a = { 0 };
	struct epd_version v;
	struct epd_fork fork;

	epd_fork_unpack(p, &a, &fork);
	if (!epd_body_unpack(p, &a, &v)) {
		struct epd_buf b = { 0 };

		/* Packed again it is the same bytes. */
		epd_body_pack(&b, &v);
		if (!b.failed && (b.n != p.n || epd_body_size(&v) != p.n))
			abort();
		epd_buf_free(&b);
	}
	epd_arena_free(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_cur c = epd_cur(epd_span(p, n));
	struct epd_rec r = { .wall_ms = 7 };
	struct epd_table *t;

	if (epd_table_new(&t))
		return 0;
	while (epd_record_next(&c, &r) > 0) {
		uint64_t lsn = t->lsn;

		r.lsn = lsn + 1;
		r.term = t->term;
		unpack_others(r.payload);
		if (epd_apply(t, &r, NULL) ? t->lsn != lsn :
		    t->lsn != lsn + 1)
			abort();
		t->freed = NULL;
		sound(t);
	}
	epd_table_free(t);
	return 0;
}
