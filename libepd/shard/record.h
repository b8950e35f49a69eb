/*
 * record.h - the records of a log: their kinds, and their payloads as bytes.
 * Nothing here knows where they are kept.
 */
#ifndef EPD_SHARD_RECORD_H
#define EPD_SHARD_RECORD_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"
#include "shard/arena.h"
#include "shard/body.h"
#include "shard/types.h"

/*        id      number  name */
#define EPD_KINDS(X) \
	X(CREATE,   1, "create") \
	X(ADVANCE,  2, "advance") \
	X(FORK,     3, "fork") \
	X(RELEASE,  4, "release") \
	X(LEASE,    5, "lease") \
	X(DROP,     6, "drop") \
	X(WAIT,     7, "wait") \
	X(OFFLOAD,  8, "offload") \
	X(RESTORE,  9, "restore") \
	X(SUSPECT, 10, "suspect") \
	X(ABORT,   11, "abort") \
	X(PREPARE, 12, "prepare") \
	X(READY,   13, "ready") \
	X(COMMIT,  14, "commit") \
	X(TERM,    15, "term")

enum epd_kind {
#define X(id, n, name) EPD_KIND_##id = n,
	EPD_KINDS(X)
#undef X
};
const char *epd_kind_name(unsigned kind);	/* NULL if there is none */

/* A record with what its frame says of it. */
struct epd_rec {
	uint64_t lsn, term, wall_ms;
	uint16_t kind, flags;
	struct epd_span payload;
};

enum { EPD_RECORD_HEAD = 8, EPD_STRING_MAX = 65536 };

/* Begin a record in b; pack its payload; end with what begin returned. */
size_t epd_record_begin(struct epd_buf *b, enum epd_kind kind);
void epd_record_end(struct epd_buf *b, size_t at);
/* The next record's kind, flags and payload; 0 at the end, EPD_ECORRUPT. */
int epd_record_next(struct epd_cur *c, struct epd_rec *r);

/* What records are made of: strings, and a payload read whole and to its end. */
void epd_record_str(struct epd_buf *b, const char *s);
const char *epd_record_take_str(struct epd_cur *c);	/* "" if it is none */
int epd_record_whole(const struct epd_cur *c);		/* 0 or EPD_ECORRUPT */

struct epd_create {
	uint32_t id;
	struct epd_state state;		/* its in-fields; strings in the payload */
	struct epd_span body;
};
struct epd_advance {
	uint32_t id, expect;
	uint64_t key;
	struct epd_span body;
};
enum { EPD_FORK_MAX = 65536 };	/* branches */
struct epd_fork {
	uint32_t id, version;		/* forked here */
	uint32_t first;			/* ids first .. first + count - 1 */
	uint32_t count, replace;
	uint64_t ttl_deadline_ms;
	const uint64_t *salts;		/* [count], mixed into the seed */
	const char *reason;
};
struct epd_release {
	uint32_t id;
	const char *reason;
};
struct epd_term {
	uint64_t term;			/* above the one before */
	const char *reason;
	const char *owner;		/* the node whose it is from here on; "": as before */
};

/* Unpacking fails: EPD_ECORRUPT (not such a payload), EPD_EKIND, -ENOMEM. */
void epd_create_pack(struct epd_buf *b, uint32_t id, const struct epd_state *s,
    const struct epd_version *v);
int epd_create_unpack(struct epd_span p, struct epd_create *out);
void epd_create_put(struct epd_buf *b, uint32_t id, const struct epd_state *s,
    const struct epd_version *v);
void epd_create_take(struct epd_cur *c, struct epd_create *out);
void epd_advance_pack(struct epd_buf *b, uint32_t id, uint32_t expect,
    uint64_t key, const struct epd_version *v);
int epd_advance_unpack(struct epd_span p, struct epd_advance *out);
void epd_fork_pack(struct epd_buf *b, const struct epd_fork *f);
int epd_fork_unpack(struct epd_span p, struct epd_arena *a, struct epd_fork *out);
void epd_release_pack(struct epd_buf *b, const struct epd_release *r);
int epd_release_unpack(struct epd_span p, struct epd_release *out);
void epd_term_pack(struct epd_buf *b, const struct epd_term *t);
int epd_term_unpack(struct epd_span p, struct epd_term *out);

/* What a state's versions share, for create and checkpoint. */
void epd_traits_pack(struct epd_buf *b, const struct epd_state *s);
void epd_traits_unpack(struct epd_cur *c, struct epd_state *s);

#endif
