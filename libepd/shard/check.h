/*
 * check.h - the parts of epd_shard_check: a ledger of life cycles that knows
 * nothing of apply(), and tables compared and recounted.
 */
#ifndef EPD_SHARD_CHECK_H
#define EPD_SHARD_CHECK_H

#include "shard/table.h"

struct epd_faults {
	void (*fn)(void *arg, const char *fault);
	void *arg;
	int n;
};
void epd_fault(struct epd_faults *f, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* One line of the ledger: a state's life so far, or what befell a run. */
struct epd_ledger_state { uint32_t id, versions, life, pinned; };
struct epd_ledger_run { uint64_t run, lsn; int begins; };

struct epd_ledger {
	struct epd_buf states;		/* of epd_ledger_state, by id */
	struct epd_buf runs;		/* of epd_ledger_run */
};

/* Begin with the states of a table instead of none. */
int epd_ledger_start(struct epd_ledger *l, const struct epd_table *t);
/* -ENOMEM; what the life cycles forbid is a fault. */
int epd_ledger_record(struct epd_ledger *l, const struct epd_rec *r,
    struct epd_faults *f);
/* A node with this run (0: none) began or ended.  -ENOMEM. */
int epd_ledger_run(struct epd_ledger *l, uint64_t run, uint64_t lsn, int begins);
/* At the end: no run in two nodes, none freed twice, none used again. */
int epd_ledger_settle(struct epd_ledger *l, struct epd_faults *f);
void epd_ledger_free(struct epd_ledger *l);

/* Tell where b, called what, differs from a. */
int epd_table_compare(const struct epd_table *a, const struct epd_table *b,
    const char *what, struct epd_faults *f);
/* Count each node's holders anew from the states' versions.  -ENOMEM. */
int epd_recount(const struct epd_table *t, struct epd_faults *f);

#endif
