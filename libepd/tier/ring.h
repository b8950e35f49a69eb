/*
 * ring.h - a few large buffers that are on their way to or from files, several at
 * once: by io_uring, or one after another where the kernel has none.  Not for
 * outsiders.
 *
 *	slot = take; fill or not; start(slot); ... done(slot); give
 *
 * A slot is one thread's.  Buffers, offsets and lengths are aligned to EPD_RING_ALIGN,
 * so that O_DIRECT will do.
 */
#ifndef EPD_TIER_RING_H
#define EPD_TIER_RING_H

#include <stddef.h>
#include <stdint.h>

enum { EPD_RING_ALIGN = 4096, EPD_RING_SLOTS = 8 };

struct epd_ring;
/* slots of bytes each (rounded up), at most EPD_RING_SLOTS.  -ENOMEM. */
int epd_ring_open(struct epd_ring **out, int slots, size_t bytes);
/* Waits for what is under way. */
void epd_ring_close(struct epd_ring *r);
void *epd_ring_buffer(struct epd_ring *r, int slot);
size_t epd_ring_bytes(const struct epd_ring *r);

/* Begin to move n bytes between a slot's buffer and fd at `at`. */
int epd_ring_start(struct epd_ring *r, int slot, int fd, int write, size_t n,
    uint64_t at);
/*
 * Wait till the slot's move is done: bytes moved, fewer only where a file ends; 0 if
 * none was begun; -errno.  ns (may be NULL) is how long it was under way.
 */
int64_t epd_ring_done(struct epd_ring *r, int slot, uint64_t *ns);

#endif
