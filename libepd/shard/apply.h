/*
 * apply.h - the one way a record changes a table, live and in recovery.
 *
 * Live, a record is prepared before it is written: all that could fail fails
 * there, memory too, and what fails is never written.
 */
#ifndef EPD_SHARD_APPLY_H
#define EPD_SHARD_APPLY_H

#include "shard/table.h"

struct epd_change {
	enum epd_kind kind;
	uint64_t lsn, wall_ms;
	struct epd_head *head;		/* the new one, or the one meant */
	struct epd_body *body;
	uint32_t tokens;
	uint64_t parent, key, term;
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
void epd_apply_commit(struct epd_table *t, const struct epd_change *c);
/* Instead of commit; of several, the last prepared first. */
void epd_apply_drop(struct epd_table *t, const struct epd_change *c);

/*
 * Both at once, for a record read back; one applied before is passed over.
 * Fails: EPD_ECORRUPT (it does not follow from those before), EPD_EKIND, -ENOMEM.
 */
int epd_apply(struct epd_table *t, const struct epd_rec *r, struct epd_why *why);

#endif
