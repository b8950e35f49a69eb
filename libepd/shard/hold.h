/*
 * hold.h - payloads of the records about what holds a state: leases, hand-offs,
 * and moves from one status to another.
 */
#ifndef EPD_SHARD_HOLD_H
#define EPD_SHARD_HOLD_H

#include "shard/handoff.h"
#include "shard/lease.h"
#include "shard/record.h"

/* LEASE: a new one (id 0), or one that lasts longer. */
void epd_lease_pack(struct epd_buf *b, const struct epd_lease *l);
int epd_lease_unpack(struct epd_span p, struct epd_lease *out);
/* The same without a record's head, for the checkpoint. */
void epd_lease_put(struct epd_buf *b, const struct epd_lease *l);
void epd_lease_take(struct epd_cur *c, struct epd_lease *out);

/* DROP: a lease, or (lease 0) a hand-off that is forgotten. */
struct epd_drop {
	uint64_t lease;
	uint8_t handoff[16];
	const char *reason;
};
void epd_drop_pack(struct epd_buf *b, const struct epd_drop *d);
int epd_drop_unpack(struct epd_span p, struct epd_drop *out);

/* SUSPECT, ABORT, OFFLOAD, RESTORE, COMMIT: a state's move to another status. */
struct epd_move {
	uint32_t id;
	enum epd_status to;
	uint32_t adopted;		/* COMMIT: by a person */
	uint8_t handoff[16];		/* zero: not by one */
	const char *reason;
	const char *tier;		/* OFFLOAD: where to; else "" */
};
void epd_move_pack(struct epd_buf *b, enum epd_kind kind,
    const struct epd_move *m);
int epd_move_unpack(struct epd_span p, enum epd_kind kind, struct epd_move *out);

/* WAIT: for a tool's result, or (tool "") no more. */
struct epd_wait {
	uint32_t id;
	uint64_t deadline_ms;		/* wall clock, as it is expected; 0: no idea */
	const char *tool, *reason;
};
void epd_wait_pack(struct epd_buf *b, const struct epd_wait *w);
int epd_wait_unpack(struct epd_span p, struct epd_wait *out);

/* PREPARE, and the checkpoint's halves. */
void epd_handoff_put(struct epd_buf *b, const struct epd_handoff *h);
void epd_handoff_take(struct epd_cur *c, struct epd_handoff *out);
void epd_prepare_pack(struct epd_buf *b, const struct epd_handoff *h);
int epd_prepare_unpack(struct epd_span p, struct epd_handoff *out);
/* READY: the half, and the state as a create has it. */
void epd_ready_pack(struct epd_buf *b, const struct epd_handoff *h,
    uint32_t id, const struct epd_state *s, const struct epd_version *v);
int epd_ready_unpack(struct epd_span p, struct epd_handoff *h,
    struct epd_create *out);

int epd_handoff_is(const uint8_t id[16]);	/* not all zero */

#endif
