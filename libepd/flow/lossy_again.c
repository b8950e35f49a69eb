/*
 * lossy_again.c - pages that came by a codec and are lost, made as they were made: a
 * sequence of exact ones beside the other, of which each is packed and unpacked.
 *
 * Apart from lossy.c, so that who looks links no engine.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "flow/lossy.h"
#include "flow/seq.h"

/* q's tokens on exact pages, as far as its own are to be made from them. */
static int
exact_of(struct epd_seq *q, struct epd_why *why)
{
	struct epd_seq *x = q->exact;

	if (!x) {
		if (!(x = epd_calloc(1, sizeof *x)))
			return epd_why(why, -ENOMEM, "no memory");
		epd_seq_begin(x, q->s, q->w, q->runs);
		q->exact = x;
	}
	x->stop = q->stop;
	x->beat = q->beat;
	x->beat_arg = q->beat_arg;
	return x->n >= q->n ? 0 : epd_seq_extend(x, q->ids + x->n,
	    (size_t)(q->n - x->n), q->images + x->nimages, NULL,
	    q->nimages - x->nimages, why);
}

/* Numbers of a page, as a codec counts them. */
static uint64_t
numbers(const struct epd_run_shape *shape)
{
	return shape->bytes / (shape->type ? 2 : 4);
}

/* A page through the codec and back. */
static int
make_again(const struct epd_codec *c, const struct epd_run_shape *shape,
    const void *exact, void *out, uint8_t *packed)
{
	const uint64_t n = numbers(shape);
	const int64_t bytes = c->pack(packed, exact, shape->type, n);

	return bytes < 0 ? (int)bytes : c->unpack(out, shape->type, n, packed,
	    (uint64_t)bytes);
}

static int
fill(struct epd_seq *q, long first, long end, const struct epd_page_entry *want,
    const struct epd_codec *c)
{
	struct epd_run_shape shape;
	uint8_t *packed;
	int rc = 0;

	epd_seq_shape(q->s, &shape);
	packed = epd_malloc((size_t)c->bound(shape.type, numbers(&shape)));
	if (!packed)
		return -ENOMEM;
	for (long i = first; rc == 0 && i < end; i++) {
		const void *exact = q->exact->page[i];

		if (epd_xxh3_64(exact, (size_t)shape.bytes) ==
		    want[i - first].sum)
			memcpy(q->page[i], exact, (size_t)shape.bytes);
		else
			rc = make_again(c, &shape, exact, q->page[i], packed);
	}
	epd_free(packed);
	return rc;
}

int
epd_lossy_again(struct epd_seq *q, uint64_t upto,
    const struct epd_page_entry *want, struct epd_why *why)
{
	const struct epd_codec *c = epd_codec_of(q->s->store->codecs, q->codec);
	const uint64_t t = (uint64_t)q->s->shape.tokens, from = q->rows;
	const long first = (long)(from / t), end = (long)((upto + t - 1) / t);
	int rc;

	if (!c)
		return epd_lossy_lost(q, end - first, why);
	rc = exact_of(q, why);
	if (rc == 0)
		rc = epd_seq_compute(q->exact, upto, NULL, why);
	if (rc == 0)
		rc = epd_seq_room(q, upto, why);
	if (rc < 0)
		return rc;
	if ((rc = fill(q, first, end, want, c)) < 0)
		return epd_why(why, rc, "%s: %s", c->name, epd_strerror(rc));
	q->computed += upto - from;
	q->rows = upto;
	return 0;
}

int
epd_lossy_lost(const struct epd_seq *q, long n, struct epd_why *why)
{
	return epd_why(why, EPD_ECORRUPT, "%s: %ld page%s that came by %s %s "
	    "lost and cannot be made again as %s: epd-state show --text has "
	    "what to begin anew with", q->w->name, n, n == 1 ? "" : "s",
	    *q->codec ? q->codec : "codecs", n == 1 ? "is" : "are",
	    n == 1 ? "it was" : "they were");
}
