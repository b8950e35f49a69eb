/*
 * table.h - what a log comes to: live states, their versions, the nodes these
 * hold, and the counters that are never reused.  Only apply.c and checkpoint.c
 * change one.
 */
#ifndef EPD_SHARD_TABLE_H
#define EPD_SHARD_TABLE_H

#include <stdint.h>

#include "base/err.h"
#include "shard/arena.h"
#include "shard/handoff.h"
#include "shard/lease.h"
#include "shard/record.h"
#include "tree/tree.h"

/* A node's body: packed in the arena, trusted, or still in the checkpoint file. */
struct epd_body {
	const uint8_t *p;		/* NULL: at `at` in the file */
	uint64_t at, run, wall_ms;
	uint32_t n, crc;		/* crc: of one in the file */
	uint32_t nlinks;
	uint32_t states, which;		/* a root's: live ones, ids xored */
	union {				/* what is freed is lent no more */
		struct epd_body *next;	/* in the list of the freed */
		const struct epd_version *lent;	/* unpacked, in lending lent_in */
	};
	uint64_t lent_in;
};

struct epd_head_version {
	uint64_t node;
	uint64_t key;			/* that advanced to it; 0: none */
};

/* A live state. */
struct epd_head {
	struct epd_state state;		/* strings in the arena */
	struct epd_head_version *v;	/* [state.versions] */
	uint32_t cap;
	uint64_t salt;			/* of a branch's sampler at @1; 0: none */
	int pinned;			/* by a hand-off that is not decided */
	int guessed;			/* changed_ms, as nobody kept it */
};

/*
 * 1. head[0..n) ascends by id; all ids are below next_state.
 * 2. Each version of a head holds its node once, and each lease its; nodes are
 *    held by nothing else.
 * 3. lsn is the last record applied.
 * 4. No state's deadline is before soonest.
 * 5. The body of a root counts the states whose first version stands on it.
 */
struct epd_table {
	uint8_t uuid[16];
	uint64_t lsn, term;
	const char *owner;		/* the node whose it is since some term, or "" */
	uint32_t next_state;
	struct epd_tree *tree;
	struct epd_head **head;
	size_t n, cap;
	uint64_t soonest;		/* UINT64_MAX: none has a deadline */
	struct epd_lease *lease;	/* ascending by id */
	size_t nleases, leases;		/* there, and room for */
	struct epd_handoff *handoff;	/* ascending by lsn; strings in the arena */
	size_t nhandoffs, handoffs;
	struct epd_arena arena;
	int fd;				/* the checkpoint's, -1: none */
	struct epd_buf block;		/* of it, from block_at on */
	uint64_t block_at;
	struct epd_body *freed;		/* with their runs, newest first */
	size_t pending;			/* nodes prepared for */
};

int epd_table_new(struct epd_table **out);
void epd_table_free(struct epd_table *t);
struct epd_head *epd_table_find(const struct epd_table *t, uint32_t id);
/* The first head with an id above after, or NULL. */
struct epd_head *epd_table_above(const struct epd_table *t, uint32_t after);
int epd_table_reserve(struct epd_table *t, size_t more);
/* Add h, whose id is the highest, where room is reserved; t owns it then. */
void epd_table_add(struct epd_table *t, struct epd_head *h);
void epd_table_remove(struct epd_table *t, struct epd_head *h);
/* h, which has versions, is to be counted by its root; or to be so no more. */
void epd_table_join(struct epd_table *t, const struct epd_head *h);
/* The only one that is left then, or NULL. */
struct epd_head *epd_table_leave(struct epd_table *t, const struct epd_head *h);

/* Room for one more, whatever the records of the same frame add; -ENOMEM. */
int epd_table_reserve_lease(struct epd_table *t);
int epd_table_reserve_handoff(struct epd_table *t);
struct epd_lease *epd_table_lease(const struct epd_table *t, uint64_t id);
struct epd_handoff *epd_table_handoff(const struct epd_table *t,
    const uint8_t id[16]);
void epd_table_unlease(struct epd_table *t, struct epd_lease *l);
void epd_table_forget(struct epd_table *t, struct epd_handoff *h);

int epd_head_new(struct epd_head **out, uint32_t versions);
void epd_head_free(struct epd_head *h);
int epd_head_reserve(struct epd_head *h, uint32_t more);

/*
 * A body's bytes, on loan until the next call; those in the checkpoint are
 * compared with their CRC.  Fails: EPD_ECORRUPT, -errno.
 */
int epd_table_body(struct epd_table *t, const struct epd_body *b,
    struct epd_span *out);
uint32_t epd_body_crc(const struct epd_body *b);

#endif
