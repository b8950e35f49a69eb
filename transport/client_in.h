/*
 * client_in.h - a session's insides.
 *
 * Questions stand in a ring in the order in which they were put and are answered.
 * Those before `out` have been sent, the one at `out` perhaps in part:
 *
 *	first ...... out ...... end
 *	awaited      to be sent
 *
 * 1. No more than EPD_CLIENT_MOVES moves are in the ring or done and untold; the
 *    ring's last place is for the question that a call waits for.
 * 2. Memory of a move is touched until it is put among those done, no longer.
 * 3. Once rc is set the ring is empty and nothing is read or written.
 */
#ifndef TRANSPORT_CLIENT_IN_H
#define TRANSPORT_CLIENT_IN_H

#include "base/err.h"
#include "base/hash.h"
#include "transport/auth.h"
#include "transport/client.h"
#include "transport/stream.h"

enum { EPD_CLIENT_RING = 512 };	/* places; a power of two above MOVES */

enum epd_ask_state { EPD_ASK_LIVE, EPD_ASK_OFF, EPD_ASK_GONE };

struct epd_ask {
	enum epd_wire_verb verb;
	uint64_t id;
	/* OFF: called off, its memory is not ours; GONE: and never sent. */
	enum epd_ask_state state;
	int sealed;			/* head is as it is sent */
	uint32_t nhead;
	uint8_t head[EPD_FRAME + EPD_FRAME_RANGE];
	struct epd_span body;		/* of a call, behind head */
	int32_t status;			/* of a call's question */
	struct epd_piece piece;		/* of a move */
	/* A move's: certain bytes, and what it comes to. */
	uint64_t certain;
	int rc;
};

/* What is being received. */
enum epd_pull_at { EPD_AT_HEAD, EPD_AT_BODY, EPD_AT_BULK, EPD_AT_SUM };

struct epd_client {
	struct epd_stream in;
	struct epd_auth auth;
	int summed, rc;
	struct epd_why why;
	uint64_t next_id;

	struct epd_ask ring[EPD_CLIENT_RING];
	uint32_t first, out, end;	/* count on; places modulo the ring */
	uint32_t moves, off;		/* in the ring; of them called off */

	uint64_t sent;			/* of the frame of the one at out */
	/* A sum begun: of which question and block, and how many bytes so far. */
	uint64_t sum_id, sum_of, sum_to;
	struct epd_xxh3 sum_out;
	uint8_t sum[EPD_FRAME_SUM];

	enum epd_pull_at at;
	struct epd_frame frame;
	uint8_t head[EPD_FRAME], tail[EPD_FRAME_SUM];
	uint64_t got;			/* of head, body, bulk or sum */
	uint64_t bulk;			/* before this sum */
	struct epd_xxh3 sum_in;		/* of this block so far */
	struct epd_buf body;

	/* The call's answer, once it is there. */
	int answered, answer_rc;
	struct epd_buf answer;

	struct epd_piece_done done[EPD_CLIENT_RING];
	uint32_t told, ndone;		/* count on */
	uint8_t sink[16384];
};

static inline struct epd_ask *
epd_client_at(struct epd_client *s, uint32_t i)
{
	return &s->ring[i % EPD_CLIENT_RING];
}

/* It failed: all moves are done with it.  Returns rc. */
int epd_client_fail(struct epd_client *s, int rc, const char *what);
/* Put the first question of the ring away: a move is done. */
void epd_client_pop(struct epd_client *s);

/* Send what can be sent now.  Fails: as epd_client_fail, which it has called. */
int epd_client_push(struct epd_client *s);
/*
 * Receive what is there, until enough moves are done and untold or the call is
 * answered.  Fails: -EAGAIN (no more is there), or as push.
 */
int epd_client_pull(struct epd_client *s, uint32_t enough);
/* Bytes of bulk that are still to come of the answer that is being received. */
uint64_t epd_client_coming(struct epd_client *s);

#endif
