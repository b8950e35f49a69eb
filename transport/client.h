/*
 * client.h - the client's end of a connection to a data server: questions and
 * moves, many of them under way at once, answered in order.  tcp, shm and rdma are
 * made of it.  As a link it is one thread's; deadlines and failures are those of
 * base/transport.h, and a session that failed once only fails.
 */
#ifndef TRANSPORT_CLIENT_H
#define TRANSPORT_CLIENT_H

#include <stdint.h>

#include "base/err.h"
#include "base/piece.h"
#include "base/span.h"
#include "transport/address.h"
#include "transport/frame.h"

struct epd_client;

enum { EPD_CLIENT_MOVES = 256 };	/* under way at once */

/* Connect, and show each other who we are; which: of enum epd_scheme, what will do. */
int epd_client_open(struct epd_client **out, const struct epd_peer *peer,
    int which, struct epd_why *why);
/* NULL is fine. */
void epd_client_close(struct epd_client *s);

/* The connection's, to be looked at: a tether of something else. */
int epd_client_fd(const struct epd_client *s);

/* As the table's. */
int epd_client_call(struct epd_client *s, uint16_t verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why);
int epd_client_submit(struct epd_client *s, const struct epd_piece *piece,
    struct epd_why *why);
int epd_client_wait(struct epd_client *s, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why);
int epd_client_cancel(struct epd_client *s, uint64_t tag);
int epd_client_shut(struct epd_client *s, uint64_t window, uint64_t deadline_ns,
    struct epd_why *why);

/*
 * Ask the server itself: MAP, RAIL, EXPOSE, COVER.  Its answer's body is appended;
 * *fds are files that came along, at most max: *nfds of them, the caller's.  fds
 * NULL: none may come.
 */
struct epd_client_files {
	int *fd, max, n;
};
int epd_client_ask(struct epd_client *s, enum epd_wire_verb verb,
    struct epd_span ask, struct epd_buf *answer, struct epd_client_files *files,
    uint64_t deadline_ns, struct epd_why *why);

/*
 * The same in two halves, without files: begin puts the question, whose bytes are
 * lent till end has its answer.  1 from end: none by then, and all goes on.  Between
 * the two nothing else is asked or called, and end is what waits for moves.
 */
int epd_client_ask_begin(struct epd_client *s, enum epd_wire_verb verb,
    struct epd_span ask, struct epd_why *why);
int epd_client_ask_end(struct epd_client *s, struct epd_buf *answer,
    uint64_t deadline_ns, struct epd_why *why);

/* A move that was made otherwise, told by wait as if by the session.  -EAGAIN. */
int epd_client_done(struct epd_client *s, const struct epd_piece_done *done);
int epd_client_room(const struct epd_client *s);	/* 0: it would be -EAGAIN */

#endif
