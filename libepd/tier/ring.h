/*
 * ring.h - a few moves of bytes between memory and files, under way at once: by
 * io_uring, or one after another where the kernel has none.  Not for outsiders.
 *
 *	fill the slot's buffer or not; start(slot); ... done(slot)
 *
 * Each slot has a buffer, for bytes that cannot go by themselves.  What goes by
 * O_DIRECT lies at, and is, multiples of EPD_RING_ALIGN in memory and file.
 */
#ifndef EPD_TIER_RING_H
#define EPD_TIER_RING_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum { EPD_RING_ALIGN = 4096, EPD_RING_SLOTS = 8, EPD_RING_PARTS = 64 };

struct epd_ring;
/* slots with bytes of buffer each (rounded up), at most EPD_RING_SLOTS.  -ENOMEM. */
int epd_ring_open(struct epd_ring **out, int slots, size_t bytes);
/* Waits for what is under way. */
void epd_ring_close(struct epd_ring *r);
void *epd_ring_buffer(struct epd_ring *r, int slot);
size_t epd_ring_bytes(const struct epd_ring *r);	/* of a buffer */

/*
 * Begin to move parts of memory, one behind the other in the file at fd from at
 * on; they stay till done.  -EINVAL: the slot is under way, or too many parts.
 */
int epd_ring_start(struct epd_ring *r, int slot, int fd, int write,
    const struct iovec *part, int parts, uint64_t at);
/* Take note of what is done by now, so that its time is not counted on. */
void epd_ring_look(struct epd_ring *r);
/*
 * Wait till the slot's move is done: bytes moved, fewer only where a file ends; 0 if
 * none was begun; -errno.  ns (may be NULL) is its share of the time: how long it
 * was under way, by how many were.
 */
int64_t epd_ring_done(struct epd_ring *r, int slot, uint64_t *ns);

#endif
