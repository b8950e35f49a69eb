/*
 * fresh.c - the pages a sequence adds: room for them on the memory tier, their
 * names, and their publishing as one run.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "flow/publish.h"
#include "flow/reuse.h"
#include "flow/room.h"

enum {
	FIT = 64,	/* pages the memory tier is asked to have room for at once, */
	PART = 8	/* but at most an eighth of it */
};

void
epd_seq_shape(const struct epd_session *s, struct epd_run_shape *out)
{
	*out = (struct epd_run_shape){
		.kind = EPD_OBJECT_KV_PAGE,
		.type = (uint32_t)s->shape.type,
		.tokens = (uint32_t)s->shape.tokens,
		.bytes = s->page_bytes,
	};
}

int
epd_seq_tier_why(struct epd_why *why, int rc)
{
	return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
}

static int
begin_fresh(struct epd_seq *q, struct epd_why *why)
{
	struct epd_run_shape shape;
	int rc;

	epd_seq_shape(q->s, &shape);
	rc = epd_run_new(&q->fresh, q->w->runs, &shape);
	if (rc == -ENOENT) {
		/* The folder was wiped while it was open. */
		int fd = epd_memory_dir(q->s->store->memory, q->w->name);

		if (fd >= 0) {
			close(q->w->runs);
			q->w->runs = fd;
		}
		rc = fd < 0 ? fd : epd_run_new(&q->fresh, fd, &shape);
	}
	if (rc < 0)
		return epd_seq_tier_why(why, rc);
	q->first = q->asked = (long)(q->rows / (uint64_t)shape.tokens);
	return 0;
}

int
epd_seq_table(struct epd_seq *q, long n)
{
	long cap = n + q->pcap / 2 + 16;
	void *p;

	if (n <= q->pcap)
		return 0;
	if (!(p = epd_realloc(q->page, (size_t)cap * sizeof *q->page)))
		return -ENOMEM;
	q->page = p;
	if (!(p = epd_realloc(q->name, (size_t)cap * sizeof *q->name)))
		return -ENOMEM;
	q->name = p;
	q->pcap = cap;
	return 0;
}

/*
 * Have the memory tier make room for fresh pages before upto, and for some more
 * so as not to be asked for each.  The fresh run is in no folder yet, so all of
 * it is asked for.
 */
static int
ask_room(struct epd_seq *q, long upto, struct epd_why *why)
{
	const uint64_t bytes = q->s->page_bytes;
	uint64_t some = epd_memory_cap(q->s->store->memory) / PART / bytes;
	struct epd_memory_fit fit;
	int rc;

	if (upto <= q->asked)
		return 0;
	some = some > FIT ? FIT : some;
	upto = upto > q->asked + (long)some ? upto : q->asked + (long)some;
	rc = epd_store_room(q->s->store, (uint64_t)(upto - q->first) * bytes,
	    &fit, NULL);
	if (rc < 0)
		return epd_seq_tier_why(why, rc);
	q->asked = upto;
	return 0;
}

/* One more fresh page at index i; a partial page of the parent is copied in. */
static int
add_page(struct epd_seq *q, long i, struct epd_why *why)
{
	const size_t bytes = q->s->page_bytes;
	const void *old = i < q->npages ? q->page[i] : NULL;
	uint64_t from = epd_clock_boot_ns();
	void *page;
	int rc;

	if (epd_seq_table(q, i + 1) < 0)
		return epd_why(why, -ENOMEM, "no memory");
	do
		rc = epd_run_add(q->fresh, &page);
	while (rc == -ENOSPC && epd_store_squeeze(q->s->store,
	    q->s->page_bytes) > 0);
	if (rc < 0)
		return epd_seq_tier_why(why, rc);
	if (old) {
		memcpy(page, old, bytes);
		epd_count(q->s->store->metrics, EPD_M_TAIL_PAGE_COPIES, 1);
		epd_count(q->s->store->metrics, EPD_M_TAIL_PAGE_COPY_NS,
		    epd_clock_boot_ns() - from);
	}
	q->page[i] = page;
	if (i >= q->npages)
		q->npages = i + 1;
	return 0;
}

int
epd_seq_room(struct epd_seq *q, uint64_t upto, struct epd_why *why)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens;
	const long end = (long)((upto + t - 1) / t);
	int rc;

	if ((!q->fresh && (rc = begin_fresh(q, why)) < 0) ||
	    (rc = ask_room(q, end, why)) < 0)
		return rc;
	for (long i = q->first + epd_run_count(q->fresh); i < end; i++)
		if ((rc = add_page(q, i, why)) < 0)
			return rc;
	return 0;
}

int
epd_seq_name(const struct epd_seq *q, long page, uint32_t rows,
    const struct epd_name *up, struct epd_name *out)
{
	const uint64_t at = (uint64_t)page * (uint64_t)q->s->shape.tokens;
	struct epd_page_image small[8] = {{0}}, *im = small;
	size_t n = 0, most = 0;

	for (uint32_t k = 0; k < q->nimages; k++)
		most += (uint64_t)q->visual[k].at < at + rows &&
		    (uint64_t)(q->visual[k].at + q->visual[k].n) > at;
	if (most > 8 && !(im = epd_malloc(most * sizeof *im)))
		return -ENOMEM;
	for (uint32_t k = 0; k < q->nimages; k++)
		if ((uint64_t)q->visual[k].at < at + rows &&
		    (uint64_t)(q->visual[k].at + q->visual[k].n) > at)
			im[n++] = (struct epd_page_image){
				.at = q->visual[k].at - (int64_t)at,
				.fp = q->images[k].fp,
			};
	epd_page_name(out, up, q->ids + at, rows, im, n);
	if (im != small)
		epd_free(im);
	return 0;
}

/* Name page i by its tokens and the images that reach into it. */
static int
name_page(struct epd_seq *q, long i, struct epd_page_entry *e)
{
	const uint64_t t = (uint64_t)q->s->shape.tokens, at = (uint64_t)i * t;
	int rc;

	e->rows = (uint32_t)(q->rows - at < t ? q->rows - at : t);
	rc = epd_seq_name(q, i, e->rows, i ? q->name + i - 1 : &q->base,
	    &e->name);
	if (rc == 0)
		q->name[i] = e->name;
	return rc;
}

int
epd_seq_name_fresh(struct epd_seq *q, struct epd_page_entry **out, struct epd_why *why)
{
	const long n = epd_run_count(q->fresh);
	struct epd_page_entry *e = epd_calloc((size_t)n, sizeof *e);
	int rc = e ? 0 : -ENOMEM;

	for (long i = 0; rc == 0 && i < n; i++)
		rc = name_page(q, q->first + i, e + i);
	if (rc < 0) {
		epd_free(e);
		return epd_why(why, rc, "%s", epd_strerror(rc));
	}
	*out = e;
	return 0;
}

int
epd_seq_publish_fresh(struct epd_seq *q, uint64_t run,
    struct epd_page_entry *e)
{
	struct epd_index *x;
	int rc;

	/* What is computed on given pages is no better than they are. */
	if (q->given)
		epd_run_given(q->fresh);
	/* It may have to be made: not between a run and its record. */
	x = epd_store_index(q->s->store);
	do
		rc = epd_run_publish(q->fresh, run, e, epd_run_count(q->fresh));
	while (rc == -ENOSPC && epd_store_squeeze(q->s->store,
	    q->s->page_bytes) > 0);
	if (rc == 0)
		epd_run_used(q->w->runs, run, q->used_ns - (uint64_t)q->first);
	if (rc == 0 && !epd_run_is_given(q->fresh))
		epd_index_put(x, q->w->name, run,
		    (uint32_t)q->s->shape.tokens, e, epd_run_count(q->fresh));
	return rc;
}

/* Whether fresh page i is what it was: 0, 1 of other bytes, EPD_ECORRUPT. */
static int
as_it_was(const struct epd_seq *q, long i, const struct epd_page_entry *now,
    const struct epd_page_entry *was)
{
	if (now->rows != was->rows || !epd_name_equal(&now->name, &was->name))
		return EPD_ECORRUPT;
	return epd_xxh3_64(q->page[q->first + i], q->s->page_bytes) !=
	    was->sum;
}

int
epd_seq_republish(struct epd_seq *q, uint64_t run, long first, long n,
    const struct epd_page_entry *want, struct epd_why *why)
{
	struct epd_page_entry *e;
	int rc;

	if (!q->fresh || q->first != first || epd_run_count(q->fresh) != n)
		return epd_why(why, EPD_ECORRUPT, "%s: the pages of a version "
		    "are not where its tokens are", q->w->name);
	if ((rc = epd_seq_name_fresh(q, &e, why)) < 0)
		return rc;
	for (long i = 0; rc == 0 && i < n; i++)
		if ((rc = as_it_was(q, i, e + i, want + i)) != 0)
			epd_why(why, rc, "%s: page %ld computed again differs "
			    "from the record of it", q->w->name, first + i);
	if (rc == 0 && (rc = epd_seq_publish_fresh(q, run, e)) < 0)
		epd_seq_tier_why(why, rc);
	epd_free(e);
	return rc;
}
