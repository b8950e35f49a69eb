/*
 * faulty.h - any transport, with faults at chosen places; for tests.  Its table is
 * its first member: hand &f->ops in where a transport is due.
 */
#ifndef TRANSPORT_FAULTY_H
#define TRANSPORT_FAULTY_H

#include <stdint.h>

#include "base/transport.h"

enum epd_fault_kind {
	EPD_FAULT_OPEN = 1,	/* open fails with rc */
	EPD_FAULT_CALL,		/* the call is not made; rc is its answer */
	EPD_FAULT_SUBMIT,	/* the move is not begun; submit fails with rc */
	EPD_FAULT_MOVE,		/* only bytes of it move, and it is told done with rc */
	EPD_FAULT_LATE,		/* it is told done ns after it was, whatever came meanwhile */
	EPD_FAULT_CORRUPT,	/* one byte, at bytes, comes otherwise; told done with 0 */
	EPD_FAULT_TWICE,	/* told done twice */
	EPD_FAULT_DROP,		/* moved, and never told */
	EPD_FAULT_CUT,		/* from this move on the link has failed with rc */
};

/* One fault, from the at-th of its kind's (opens, calls, moves: from 0) for n of them. */
struct epd_fault {
	enum epd_fault_kind kind;
	uint32_t at, n;		/* n 0: for ever */
	int rc;
	uint64_t bytes, ns;
};

struct epd_faulty {
	struct epd_transport ops;
	const struct epd_transport *inner;
	const struct epd_fault *fault;	/* the first that applies */
	int nfaults;
	uint32_t opens, calls, moves;	/* so far; over all links */
	uint32_t links;			/* open now */
};

/* Lent until the last link is closed: inner and the faults.  One thread's. */
void epd_faulty_init(struct epd_faulty *f, const struct epd_transport *inner,
    const struct epd_fault *faults, int n);

#endif
