/*
 * transport.h - what carries bytes between this process and a peer: the table that
 * libepd asks and transport/ fills in.  libepd includes nothing of transport/; who
 * opens a store hands the table in (struct epd_transports).
 *
 * A peer is a data server (base/host.h is its side).  A link to it carries calls,
 * one question and one answer, whose meaning is between libepd and libepd; an
 * answer may open a window: bytes of the peer's, which moves then read or write,
 * while the peer's processor does as little as the transport allows.  A window lasts
 * until it is shut, its link is closed or the peer dies.
 *
 * All times are absolute, in ns of the boot clock, and every call that may wait has
 * one.  A wait that is called off (base/stop.h) is -ECANCELED and a failure of the link.
 * A link is one thread's.  Past a failure other than one of a call's answer
 * or of a single move a link only fails: it is closed and another one opened.
 */
#ifndef EPD_BASE_TRANSPORT_H
#define EPD_BASE_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/piece.h"
#include "base/span.h"

struct epd_link;		/* each transport's own begins with its ops */

struct epd_transport {
	enum epd_backend backend;
	/*
	 * Whether it is to be had here.  0, or EPD_EUNSUPPORTED with why: not built, no
	 * device.  Quick, nothing kept.
	 */
	int (*probe)(const struct epd_transport *t,
	    struct epd_transport_facts *out, struct epd_why *why);
	/*
	 * Fails: EPD_EAUTH, EPD_EPEER (refused, lost, speaks otherwise), EPD_ETIMEOUT,
	 * EPD_EUNSUPPORTED, EPD_EUSAGE (an address it cannot have), -errno.
	 */
	int (*open)(const struct epd_transport *t, struct epd_link **out,
	    const struct epd_peer *peer, struct epd_why *why);
	/* Nothing of what was submitted touches memory here afterwards. */
	void (*close)(struct epd_link *l);
	/*
	 * Fails: what the peer answered (its sentence in why: the link goes on), else
	 * as open.  answer is appended to, and as it was on failure.
	 */
	int (*call)(struct epd_link *l, uint16_t verb, struct epd_span ask,
	    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why);
	/*
	 * Memory that moves to come lie in, so that it is registered once; what is not
	 * lent is registered by the move.  NULL where it is of no use.
	 */
	int (*lend)(struct epd_link *l, void *p, size_t n);
	void (*unlend)(struct epd_link *l, void *p);
	/*
	 * Begin a move.  -EAGAIN: as many as there may be are under way.  It waits by the
	 * piece's deadline, if at all.
	 */
	int (*submit)(struct epd_link *l, const struct epd_piece *piece,
	    struct epd_why *why);
	/*
	 * Of what was submitted, in any order: up to max that are done, at least one.
	 * EPD_ETIMEOUT: none by then, and all go on; EPD_EUSAGE: nothing is under
	 * way; also as open.  A link that failed first tells all moves done, each
	 * with what of it is certain, and only then the failure.
	 */
	int (*wait)(struct epd_link *l, struct epd_piece_done *done, int max,
	    uint64_t deadline_ns, struct epd_why *why);
	/*
	 * Call one off: it is told done, with -ECANCELED unless it was sooner.  NULL: what
	 * was begun goes on till it ends or the link is closed, after which it touches
	 * nothing here: who does not want it any more closes the link.
	 */
	int (*cancel)(struct epd_link *l, uint64_t tag);
	/*
	 * The stretch that offset lies in, from there on.  EPD_EUNSUPPORTED: it is in no
	 * file.  NULL: the peer is, or may be, another machine, and its bytes are had by
	 * moves alone.  The peer may have to be asked first.
	 */
	int (*map)(struct epd_link *l, uint64_t window, uint64_t offset,
	    struct epd_stretch *out, uint64_t deadline_ns, struct epd_why *why);
	/* Done with it; what was written and not acknowledged by a call is gone. */
	int (*shut)(struct epd_link *l, uint64_t window, uint64_t deadline_ns,
	    struct epd_why *why);
};
#define EPD_LINK_OPS const struct epd_transport *ops
static inline const struct epd_transport *
epd_link_ops(const struct epd_link *l)
{
	return *(const struct epd_transport *const *)(const void *)l;
}

/* All that this program was linked with; a backend is in it at most once. */
struct epd_transports {
	const struct epd_transport *const *t;
	int n;
};
/* NULL: there is none. */
const struct epd_transport *epd_transport_of(const struct epd_transports *all,
    enum epd_backend b);

#endif
