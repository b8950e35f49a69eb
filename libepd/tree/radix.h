/*
 * radix.h - token sequences as a radix tree: which kept sequence shares the
 * longest prefix with a given one, to the token.  Pure memory: no I/O, no clock.
 * Outside this room include tree/tree.h.
 *
 *	edge  [system prompt ........]          before
 *	         value 1 ends here
 *
 *	edge  [system pro]                      after adding one that differs there
 *	       +- [mpt ....]  value 1
 *	       +- [be ...]    value 2
 *
 * A key is tokens and the images that lie among them.  An image counts from its
 * first token on: two sequences with equal tokens and another image (or the same
 * one elsewhere) are equal up to there and no further.
 */
#ifndef EPD_TREE_RADIX_H
#define EPD_TREE_RADIX_H

#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"

struct epd_radix;

struct epd_radix_image {
	uint64_t at;		/* its first token, from the sequence's begin */
	struct epd_name fp;
};

/* Tokens and images of, or behind, a sequence; no two images at one token. */
struct epd_radix_key {
	const int32_t *ids;
	size_t n;
	const struct epd_radix_image *images;
	size_t nimages;
};

int epd_radix_new(struct epd_radix **out);	/* -ENOMEM */
void epd_radix_free(struct epd_radix *r);

/*
 * Keep a sequence: what `parent` ends (0: nothing) and then k, whose images
 * ascend by at, which counts from the whole sequence's begin.  value, not 0, is
 * the caller's name of it; k may be empty, and several values may have one
 * sequence.  To be added is to be used.  Costs k and no more, however long the
 * parent; another edge that k leaves midway is cut, which copies its shorter part.
 * Fails: -EEXIST (value is kept), -ENOENT (no such parent), -EINVAL (value 0,
 * images out of order or not within k), -ENOMEM; nothing changed then.
 */
int epd_radix_add(struct epd_radix *r, uint64_t parent, uint64_t value,
    const struct epd_radix_key *k);
/* Forget one; those added behind it stay whole.  -ENOENT; memory cannot lack. */
int epd_radix_remove(struct epd_radix *r, uint64_t value);

/*
 * How many first tokens of k some kept sequence has too; *value (if that is
 * not 0) is one that has them, the one used last of those that end soonest
 * behind.  k's images are at absolute positions, ascending; those behind its
 * last token count for nothing.
 */
size_t epd_radix_match(const struct epd_radix *r,
    const struct epd_radix_key *k, uint64_t *value);

/* Mark as used now: later than all before. */
int epd_radix_use(struct epd_radix *r, uint64_t value);	/* -ENOENT */
/*
 * The value to give up first: of those whose sequence no longer one begins
 * with, the one whose use lies longest ago.  0 if none is kept.
 */
uint64_t epd_radix_coldest(const struct epd_radix *r);

size_t epd_radix_count(const struct epd_radix *r);	/* values */
size_t epd_radix_tokens(const struct epd_radix *r);	/* on all edges */
/* Length of a value's sequence; 0 if it is not kept. */
size_t epd_radix_length(const struct epd_radix *r, uint64_t value);
/*
 * Each value once, behind all whose sequences its own begins with; those of one
 * sequence as they were added.  fn changes nothing; a nonzero return of it stops
 * and is returned.
 */
int epd_radix_each(const struct epd_radix *r,
    int (*fn)(void *arg, uint64_t value, size_t length), void *arg);

#endif
