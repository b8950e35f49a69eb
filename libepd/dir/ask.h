/*
 * ask.h - questions to etcd, each answered or given up by its deadline.  None is asked
 * under the lock.  Outside this room include dir/dir.h.
 */
#ifndef EPD_DIR_ASK_H
#define EPD_DIR_ASK_H

#include "dir/answer.h"
#include "dir/room.h"

/* The body of a question; a key is what stands behind prefix. */
struct epd_ask {
	struct epd_dir *d;
	struct epd_buf body;
	struct epd_jw w;
};
void epd_ask_begin(struct epd_ask *a, struct epd_dir *d);
void epd_ask_key(struct epd_ask *a, const char *field, const char *key);
/* All that begin so; key ends in '/'. */
void epd_ask_folder(struct epd_ask *a, const char *key);
void epd_ask_put(struct epd_ask *a, const char *key,
    const struct epd_buf *value, uint64_t lease);
/*
 * End it and have it answered, by path under /v3/; the body is freed.  Where one
 * endpoint does not answer the next is asked.  How it went is noted: whether etcd is away.
 * Fails: EPD_EPEER, EPD_ETIMEOUT, EPD_ELEASE, -ECANCELED, -ENOMEM.
 */
int epd_ask(struct epd_ask *a, const char *path, uint64_t deadline_ns,
    struct epd_json **answer, uint64_t *revision, struct epd_why *why);
/* The same, for who needs no word of it. */
int epd_ask_only(struct epd_ask *a, const char *path, uint64_t deadline_ns,
    struct epd_why *why);
/* It is not to be asked now: away, and not the time (or the one) to try. */
int epd_ask_not(struct epd_dir *d);
void epd_ask_wrong(struct epd_dir *d);	/* count what cannot be */

/* etcd.c */
int epd_etcd_grant(struct epd_dir *d, uint64_t ms, uint64_t *lease,
    uint64_t deadline_ns, struct epd_why *why);
/* The node's lease, found or granted.  Fails: as epd_ask. */
int epd_etcd_lease(struct epd_dir *d, uint64_t *lease, uint64_t deadline_ns,
    struct epd_why *why);
/*
 * Tell it one thing, which is no longer in the queue; what could not be told is again.
 * Fails: as epd_ask.
 */
int epd_etcd_tell(struct epd_dir *d, struct epd_told *t, uint64_t deadline_ns,
    struct epd_why *why);
void epd_etcd_node_key(char key[EPD_ETCD_KEY], const struct epd_dir *d);
/* claim.c */
int epd_etcd_claim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t least, uint64_t *term, uint64_t deadline_ns, struct epd_why *why);
int epd_etcd_owner(struct epd_dir *d, const uint8_t workflow[16],
    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
    struct epd_why *why);
int epd_etcd_disclaim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t deadline_ns, struct epd_why *why);
/* watch.c */
void *epd_etcd_watch(void *d);

#endif
