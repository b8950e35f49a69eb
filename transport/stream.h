/*
 * stream.h - a socket that does not block, read and written by deadlines.  What
 * comes is taken straight to where it goes, and a little of what follows with it;
 * small answers wait to go out with what comes behind them.
 */
#ifndef TRANSPORT_STREAM_H
#define TRANSPORT_STREAM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/span.h"

enum { EPD_STREAM = 4096, EPD_STREAM_FILES = 128 };

struct epd_stream {
	int fd;
	size_t at, n, nout;
	uint8_t in[EPD_STREAM], out[EPD_STREAM];
	/* Files that come along, if they may: room for max, n so far. */
	int *file, max, files;
};

/*
 * Wait for events.  Fails: EPD_ETIMEOUT; -ECANCELED (base/stop.h); EPD_EPEER: the peer
 * has hung up and there is nothing to be read; -errno.
 */
int epd_stream_poll(int fd, short events, uint64_t deadline_ns);
/*
 * Until n bytes that are sure to come can be read, or as many as are worth waking up
 * for, or one of the events in also.  Fails: as it does.
 */
int epd_stream_await(int fd, uint64_t n, short also, uint64_t deadline_ns);

/*
 * What is there of n bytes, without a wait; ahead: how much of what follows is read
 * with it, at most.  Fails: -EAGAIN (nothing yet), EPD_EPEER (no more comes), -errno.
 */
ssize_t epd_stream_take(struct epd_stream *s, void *p, size_t n, size_t ahead);
/* All n bytes.  Whatever is to go out does, before it waits. */
int epd_stream_read(struct epd_stream *s, void *p, size_t n, size_t ahead,
    uint64_t deadline_ns);
/* Throw n bytes away. */
int epd_stream_skip(struct epd_stream *s, uint64_t n, uint64_t deadline_ns);

/* To go out with what follows, or with the next flush. */
int epd_stream_put(struct epd_stream *s, const void *p, size_t n,
    uint64_t deadline_ns);
int epd_stream_flush(struct epd_stream *s, uint64_t deadline_ns);
/* What waits, then all of iov, which is used up; more: something follows at once. */
int epd_stream_send(struct epd_stream *s, struct iovec *iov, int n, int more,
    uint64_t deadline_ns);
/* The same of n bytes of a file.  Fails also: -ENODATA (it ends before them). */
int epd_stream_send_file(struct epd_stream *s, int fd, uint64_t at, uint64_t n,
    uint64_t deadline_ns);
/* What waits and these bytes, with files along. */
int epd_stream_send_files(struct epd_stream *s, struct epd_span bytes,
    const int *fds, int nfds, uint64_t deadline_ns);

#endif
