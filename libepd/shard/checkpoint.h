/* checkpoint.h - a whole table as one file, with where the log goes on. */
#ifndef EPD_SHARD_CHECKPOINT_H
#define EPD_SHARD_CHECKPOINT_H

#include "shard/table.h"

#define EPD_CHECKPOINT "checkpoint"
#define EPD_CHECKPOINT_MAGIC "epd-chk\n"

enum {
	EPD_CHECKPOINT_VERSION = 1,
	EPD_CHECKPOINT_HEAD = 96, EPD_CHECKPOINT_NODE = 48,	/* bytes */
	EPD_CHECKPOINT_NODES = 1, EPD_CHECKPOINT_STATES = 2,	/* sections */
	EPD_CHECKPOINT_LEASES = 3, EPD_CHECKPOINT_HANDOFFS = 4,
	EPD_CHECKPOINT_OWNER = 5,
	/* A state's flags: changed_ms is there, its tier, and its tool and deadline. */
	EPD_CHECKPOINT_CHANGED = 1, EPD_CHECKPOINT_RESTS = 2,
	EPD_CHECKPOINT_WAITS = 4,
};

/* A body's bytes, on loan until the next call. */
typedef int epd_body_fn(void *arg, const struct epd_node *n,
    struct epd_span *out);

/* The table as bytes: head and index, and the bodies.  -ENOMEM, or body's. */
int epd_checkpoint_pack(const struct epd_table *t, uint32_t segment,
    epd_body_fn *body, void *arg, struct epd_buf *index,
    struct epd_buf *bodies);
/*
 * Write t to dirfd, flushed; the log goes on at the start of segment.  *size is
 * the file's.  Fails as epd_file_replace, or with what body gave.
 */
int epd_checkpoint_write(int dirfd, const struct epd_table *t,
    uint32_t segment, epd_body_fn *body, void *arg, uint64_t *size);
/*
 * Read the index; bodies stay in the file, which the table holds open.
 * Fails: -ENOENT, EPD_ECORRUPT, EPD_EKIND, -errno.
 */
int epd_checkpoint_read(int dirfd, struct epd_table **out, uint32_t *segment,
    uint64_t *size, struct epd_why *why);
/* Only where the log goes on from the checkpoint there, and its size. */
int epd_checkpoint_peek(int dirfd, uint32_t *segment, uint64_t *size);
/* The same as read from an open file, which is the table's from then on. */
int epd_checkpoint_load(int fd, struct epd_table **out, uint32_t *segment,
    uint64_t *size, struct epd_why *why);

#endif
