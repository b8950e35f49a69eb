/*
 * reuse.h - exact-prefix reuse: pages that other states have for a sequence's
 * next tokens.  Not for outsiders.
 *
 * Whole pages are found by name, in this workflow or by the tier's index in any
 * other of the store; in this workflow the match goes on to the token, and what
 * it has of a page is copied.  A name covers tenant, model, arithmetic, all
 * tokens and images before: equal names are equal bytes, and what was taken is
 * what would have been computed.
 */
#ifndef EPD_FLOW_REUSE_H
#define EPD_FLOW_REUSE_H

#include "flow/seq.h"

/* Pages of a run that is another state's. */
struct epd_taken {
	char workflow[EPD_WORKFLOW];
	uint64_t run;
	long n;
	struct epd_page_entry *entry;	/* [n] */
	struct epd_run *map;		/* on loan: they begin at page `at` of it */
	long at;
	int given;			/* or resting on what was */
};

/*
 * Take up pages for tokens [rows, upto), as far as some are found.  What is not
 * there, or not whole, is left to be computed: only -ENOMEM fails.
 */
int epd_seq_reuse(struct epd_seq *q, uint64_t upto, struct epd_why *why);
/* What a page of a sequence is called; up is the name of the page before. */
int epd_seq_name(const struct epd_seq *q, long page, uint32_t rows,
    const struct epd_name *up, struct epd_name *out);

/* Shared by the files that add pages and publish them. */
int epd_seq_tier_why(struct epd_why *why, int rc);
/* Name the fresh pages.  Owns: the caller frees *out. */
int epd_seq_name_fresh(struct epd_seq *q, struct epd_page_entry **out,
    struct epd_why *why);
/* Unlink what publish gave: no version came to name it. */
void epd_seq_unpublish(struct epd_seq *q, const struct epd_version *v);
/* Publish them as run, and tell the index. */
int epd_seq_publish_fresh(struct epd_seq *q, uint64_t run,
    struct epd_page_entry *e);

/* Who in this workflow has the longest prefix of the sequence. */
struct epd_match {
	uint64_t tokens;		/* of the sequence, from its begin */
	uint64_t node;			/* whose path has them */
};
int epd_match_find(const struct epd_seq *q, struct epd_match *out);

#endif
