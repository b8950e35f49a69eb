/*
 * apply.h - the one way a record changes a table, live and in recovery.
 *
 * Live, a record is prepared before it is written: all that could fail fails
 * there, memory too, and what fails is never written.
 */
#ifndef EPD_SHARD_APPLY_H
#define EPD_SHARD_APPLY_H

#include "shard/hold.h"
#include "shard/life.h"
#include "shard/table.h"

struct epd_change {
	enum epd_kind kind;
	uint64_t lsn, wall_ms;
	struct epd_head *head;		/* the new one, or the one meant */
	struct epd_head **branch;	/* of a fork */
	uint32_t branches;
	int replace;
	struct epd_body *body;
	uint32_t tokens;
	uint64_t parent, key, term;
	enum epd_status to;
	const char *tier, *tool, *owner;	/* in the arena */
	uint64_t deadline_ms;
	struct epd_lease lease;
	struct epd_handoff handoff;
	struct epd_arena_mark mark;
};

/*
 * Fails, the table as it was: EPD_ENOSTATE, EPD_EVERSION, EPD_ESTATUS; EPD_EKIND
 * (no such kind, or one that no verb here speaks); EPD_ECORRUPT (not a payload
 * of its kind); -EINVAL (a version that contradicts itself); -ENOMEM.
 */
int epd_apply_prepare(struct epd_table *t, const struct epd_rec *r,
    struct epd_change *c, struct epd_why *why);
/* In the order of preparing, and never failing. */
void epd_apply_commit(struct epd_table *t, struct epd_change *c);
/* Instead of commit; of several, the last prepared first. */
void epd_apply_drop(struct epd_table *t, struct epd_change *c);

/*
 * Both at once, for a record read back; one applied before is passed over.
 * Fails: EPD_ECORRUPT (it does not follow from those before), EPD_EKIND, -ENOMEM.
 */
int epd_apply(struct epd_table *t, const struct epd_rec *r, struct epd_why *why);

/*
 * For the files of apply alone: each kind's half that may fail, and the one that
 * may not.
 */
struct epd_apply_verb {
	int (*prepare)(struct epd_table *t, const struct epd_rec *r,
	    struct epd_change *c, struct epd_why *why);
	void (*commit)(struct epd_table *t, struct epd_change *c);
};
extern const struct epd_apply_verb epd_apply_create, epd_apply_ready,
    epd_apply_advance, epd_apply_fork, epd_apply_release, epd_apply_term,
    epd_apply_lease, epd_apply_unlease, epd_apply_offer, epd_apply_move,
    epd_apply_wait;

/* The state, if the verb may be done to it; not for what decides a hand-off. */
int epd_apply_meant(const struct epd_table *t, uint32_t id,
    enum epd_kind verb, enum epd_state_life to, struct epd_head **out,
    struct epd_why *why);
/* The same whether it is pinned or not. */
int epd_apply_moved(const struct epd_table *t, uint32_t id,
    enum epd_kind verb, enum epd_state_life to, struct epd_head **out,
    struct epd_why *why);
/* A copy in the arena, or NULL. */
const char *epd_apply_str(struct epd_table *t, const char *s);
/* The record changes the state. */
void epd_apply_touch(struct epd_head *h, const struct epd_change *c);
/* c's state goes, and its holds with it; who alone shared with it does no more. */
void epd_apply_free(struct epd_table *t, const struct epd_change *c);

#endif
