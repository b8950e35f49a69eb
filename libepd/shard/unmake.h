/* unmake.h - the end of a workflow that has nothing in it.  Outside this room include shard/shard.h. */
#ifndef EPD_SHARD_UNMAKE_H
#define EPD_SHARD_UNMAKE_H

#include "base/err.h"

/*
 * Remove what is in dirfd, if its log has no record, published or not.  All of it
 * under the lock, the log first and the lock last, so that a writer who has the
 * folder open finds EPD_ESTALE when he gets the lock, and nothing he was told of is
 * gone.  `also` is called once the log is gone.
 * Fails: EPD_ESTATUS (there is a record), EPD_ELOCKED (held now), EPD_ESTALE
 * (somebody else removed it), EPD_ECORRUPT (the log is damaged), -errno.
 */
int epd_shard_unmake(int dirfd, void (*also)(void *arg), void *arg,
    struct epd_why *why);

#endif
