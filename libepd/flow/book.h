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
	uint64_t node, parent;
	uint32_t states;	/* live states that stand on it */
	uint32_t leases;	/* and leases */
	uint32_t first;		/* of them, who takes what cannot be divided */
};

struct epd_book {
	struct epd_book_node only;	/* of every node, if n is 0 */
	struct epd_book_node *node;	/* by ascending id */
	size_t n;
	struct epd_book_run {
		uint64_t run, bytes;	/* its share of the file's, */
		uint64_t whole;		/* which these are if it has other names */
	} *run;				/* those in memory, ascending */
	size_t nruns;
	struct epd_book_path *path;	/* as node, once epd_book_paths was called */
};
/*
 * Names of files that have several, of the whole tier, gathered when a file with
 * more than one is met: the first of them bear the bytes that do not divide.
 * Without (NULL) other stores' names count, and the odd bytes are nobody's.
 */
struct epd_names {
	struct epd_memory *memory;
	struct epd_named {
		uint64_t ino, run;
	} *v;
	size_t n;
	int made;
};
void epd_names_free(struct epd_names *t);
/* The runs in a folder, by no order; part of opening. */
int epd_book_runs(struct epd_book *b, int dirfd, struct epd_names *names);
int epd_book_open(struct epd_book *b, const struct epd_workflow *w,
    struct epd_names *names, struct epd_why *why);
void epd_book_close(struct epd_book *b);
const struct epd_book_node *epd_book_find(const struct epd_book *b,
    uint64_t node);
/* The run with the memory it takes up, or NULL if it is not there. */
const struct epd_book_run *epd_book_run(const struct epd_book *b, uint64_t run);

/* What a node's runs take up: files with no other name, with others; its share. */
struct epd_room {
	uint64_t alone, named, bytes;
};
int epd_book_room(const struct epd_book *b, struct epd_shard *s,
    const struct epd_glance *g, struct epd_room *out);

/* What a state weighs at a version (0: the newest), whose sampler head has. */
struct epd_weight {
	uint64_t tokens, pages, missing;	/* pages of its table; not there */
	uint32_t images;
	uint64_t private_bytes, shared_bytes, proportional_bytes;
	int shared;				/* another state stands on some of it */
	struct epd_version head;		/* lent */
};
int epd_book_weigh(const struct epd_book *b, struct epd_shard *s,
    uint32_t state, uint32_t version, struct epd_weight *out);
/* Before many are weighed: each then costs no more than its newest version. */
int epd_book_paths(struct epd_book *b, struct epd_shard *s);
/* 1, and what the path to a node comes to for a state that ends there; or 0. */
int epd_book_path(const struct epd_book *b, uint64_t node, uint32_t state,
    struct epd_weight *out);
/* Call fn with each node that a live state stands on. */
int epd_live_each(struct epd_shard *s, int (*fn)(void *arg, uint64_t node),
    void *arg);

/* The status for people: SHARED is told from counts. */
const char *epd_book_status(const struct epd_state *st,
    const struct epd_weight *w);

/* epd_view_states of all, and how many workflows could not be read. */
int epd_view_all(struct epd_store *s,
    int (*fn)(void *arg, const struct epd_state_line *l), void *arg,
    uint32_t *unreadable, struct epd_why *why);

void epd_book_line(struct epd_state_line *out, const struct epd_workflow *w,
    const struct epd_state *st, const struct epd_weight *x);

/* A page of a state as its newest writer has it. */
struct epd_page_row {
	struct epd_page_ref ref;
	uint64_t node, run;
};
/* Owns: the caller frees *out. */
int epd_book_pages(struct epd_shard *s, uint64_t head,
    struct epd_page_row **out, uint64_t *n);

/*
 * Each version that shows pages nobody has filled on since, or that somebody
 * holds.  v is lent for the call; a nonzero return stops and is returned.
 */
int epd_needed_runs(struct epd_shard *s,
    int (*fn)(void *arg, const struct epd_version *v), void *arg);
/* The runs of a workflow of a store (arg) computed in it: an epd_index_runs. */
int epd_own_runs(void *arg, const char *workflow, uint64_t **run, size_t *n);

#endif
