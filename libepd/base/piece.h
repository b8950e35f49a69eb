/* piece.h - what a transport is told and tells: peers, pieces of windows, stretches. */
#ifndef EPD_BASE_PIECE_H
#define EPD_BASE_PIECE_H

#include <stdint.h>

#include "base/backend.h"
#include "base/span.h"

enum { EPD_PEER_KEY = 4096 };	/* bytes of a key at most */

/* What the machine gives of it now. */
struct epd_transport_facts {
	uint64_t alignment;	/* of offsets, lengths and addresses; 1: none */
	uint64_t max_bytes;	/* of one move */
	uint32_t max_inflight;	/* moves; more wait in submit's caller */
	uint32_t max_sge;
	uint32_t ndevices;	/* rails; 0: it has no such thing */
	char device[32];	/* the first, "rxe0" */
};

struct epd_peer {
	/* "tcp://HOST:PORT", "unix:///PATH"; of io_uring: "file:///PATH", a folder */
	const char *address;
	struct epd_span key;	/* shared with it; empty: none is asked */
	int checksum;		/* 0: what moves is not summed on the way */
	const char *device;	/* "" or NULL: any */
	uint64_t deadline_ns;	/* to have the link by */
};

/* Bytes of a window to or from memory here. */
struct epd_piece {
	uint64_t tag;		/* the caller's: comes back */
	enum epd_op op;
	uint64_t window, offset, bytes;
	void *local;		/* lent until it is done, or the link closed */
	/*
	 * Till when submit may wait for what the peer must say of the window first (its
	 * files); 0: it asks nothing, and moves by what it knows.
	 */
	uint64_t deadline_ns;
};

struct epd_piece_done {
	uint64_t tag;
	int rc;			/* 0, EPD_ETIMEOUT, EPD_ECORRUPT (a sum), ... */
	uint64_t bytes;		/* certain to have moved, from its beginning on */
};

/* A stretch of a window as a file: the same memory, nothing copied. */
struct epd_stretch {
	int fd;			/* for reading; the link's until the window is shut */
	uint64_t at, bytes;	/* in the file: where the stretch is, and how long */
};

#endif
