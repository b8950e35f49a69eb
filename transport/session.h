/*
 * session.h - the client's end of a connection to a data server: questions and
 * moves, many of them under way at once, answered in order.  tcp, shm and rdma are
 * made of it.  As a link it is one thread's; deadlines and failures are those of
 * base/transport.h, and a session that failed once only fails.
 */
#ifndef TRANSPORT_SESSION_H
#define TRANSPORT_SESSION_H

#include <stdint.h>

#include "base/err.h"
#include "base/piece.h"
#include "base/span.h"
#include "transport/address.h"
#include "transport/frame.h"

struct epd_session;

enum { EPD_SESSION_MOVES = 256 };	/* under way at once */

/* Connect, and show each other who we are; which: of enum epd_scheme, what will do. */
int epd_session_open(struct epd_session **out, const struct epd_peer *peer,
    int which, struct epd_why *why);
/* NULL is fine. */
void epd_session_close(struct epd_session *s);

/* The connection's, to be looked at: a tether of something else. */
int epd_session_fd(const struct epd_session *s);

/* As the table's. */
int epd_session_call(struct epd_session *s, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why);
int epd_session_submit(struct epd_session *s, const struct epd_piece *piece,
    struct epd_why *why);
int epd_session_wait(struct epd_session *s, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why);
int epd_session_cancel(struct epd_session *s, uint64_t tag);
int epd_session_shut(struct epd_session *s, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why);

/*
 * Ask the server itself: MAP, RAIL, EXPOSE, COVER.  Its answer's body is appended;
 * *fds are files that came along, at most max: *nfds of them, the caller's.  fds
 * NULL: none may come.
 */
struct epd_session_files {
	int *fd, max, n;
};
int epd_session_ask(struct epd_session *s, enum epd_wire_verb verb,
    struct epd_span ask, struct epd_buf *answer, struct epd_session_files *files,
    uint64_t deadline_ns, struct epd_why *why);

/*
 * The same in two halves, without files: begin puts the question, whose bytes are
 * lent till end has its answer.  1 from end: none by then, and all goes on.  Between
 * the two nothing else is asked or called, and end is what waits for moves.
 */
int epd_session_ask_begin(struct epd_session *s, enum epd_wire_verb verb,
    struct epd_span ask, struct epd_why *why);
int epd_session_ask_end(struct epd_session *s, struct epd_buf *answer,
    uint64_t deadline_ns, struct epd_why *why);

/* A move that was made otherwise, told by wait as if by the session.  -EAGAIN. */
int epd_session_done(struct epd_session *s, const struct epd_piece_done *done);
int epd_session_room(const struct epd_session *s);	/* 0: it would be -EAGAIN */

#endif
