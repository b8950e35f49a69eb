/*
 * book.h - a workflow's account: which nodes its live states stand on, how many
 * states each carries, and what of it lies in memory.  Counted anew each time;
 * nothing else rests on it.  Not for outsiders.
 */
#ifndef EPD_FLOW_BOOK_H
#define EPD_FLOW_BOOK_H

#include "flow/view.h"

/* Nodes of one version, root first. */
struct epd_chain {
	uint64_t *node;
	size_t n, cap;
};
/* version 0: the newest.  Fails: EPD_ENOSTATE, EPD_ENOTHING (no such version), -ENOMEM. */
int epd_chain_of(struct epd_chain *c, struct epd_shard *s, uint32_t state,
    uint32_t version);
void epd_chain_free(struct epd_chain *c);

struct epd_book_node {
	uint64_t node, run;
	uint64_t bytes;		/* of memory taken up now */
	uint32_t npages;
	uint32_t states;	/* live states that stand on it */
	uint32_t first;		/* of them, who takes what cannot be divided */
	int there;		/* its pages are in memory (or it has none) */
};

struct epd_book {
	struct epd_book_node *node;	/* by ascending id */
	size_t n;
};
int epd_book_open(struct epd_book *b, const struct epd_workflow *w,
    struct epd_why *why);
void epd_book_close(struct epd_book *b);
const struct epd_book_node *epd_book_find(const struct epd_book *b,
    uint64_t node);

/* What one state's chain weighs. */
struct epd_weight {
	uint64_t tokens, pages, missing;	/* pages of its table; not there */
	uint32_t images;
	uint64_t private_bytes, shared_bytes, proportional_bytes;
	int shared;				/* another state stands on some of it */
	struct epd_version head;		/* lent */
};
int epd_book_weigh(const struct epd_book *b, struct epd_shard *s,
    uint32_t state, const struct epd_chain *c, struct epd_weight *out);

/* The status for people: SHARED is told from counts. */
const char *epd_book_status(const struct epd_state *st,
    const struct epd_weight *w);

/* epd_view_states of all, and how many workflows could not be read. */
int epd_view_all(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_state_line *l), void *arg,
    uint32_t *unreadable, struct epd_why *why);

/* A page of a state as its newest writer has it. */
struct epd_page_row {
	struct epd_page_ref ref;
	uint64_t node, run;
};
/* Owns: the caller frees *out. */
int epd_book_pages(struct epd_shard *s, const struct epd_chain *c,
    struct epd_page_row **out, uint64_t *n);

#endif
