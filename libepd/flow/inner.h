/* inner.h - what the files of flow share; not for outsiders. */
#ifndef EPD_FLOW_INNER_H
#define EPD_FLOW_INNER_H

#include "flow/work.h"

/* 32 hex digits that stand for the checkpoint's weights. */
int epd_weights_snapshot(struct epd_store *s, const struct epd_model *m,
    char hex[33], struct epd_why *why);

/*
 * Whether a file's identity stands for its content: it was changed at least two
 * seconds ago, so that a change from now on shows in its times.
 */
struct stat;
int epd_file_settled(const struct stat *st);

/*
 * A lease that could not be given back; settle tries those there are.  Of one
 * whose record is unsure id is 0, and `after` the lsn before it.
 */
void epd_store_owe(struct epd_store *s, const char *workflow,
    const struct epd_lease *lease, uint64_t after);
/* Before a lease is taken: n more can be owed without memory.  -ENOMEM. */
int epd_store_owe_room(struct epd_store *s, size_t n);
void epd_store_settle(struct epd_store *s);

/* A feature of this session's model: fp and grid give the rest. */
void epd_session_feature(const struct epd_session *s, const struct epd_name *fp,
    const uint32_t grid[3], struct epd_feature *out);

/*
 * Rows of a feature, read back checked; encoded again from the kept picture if
 * they are gone.  buf holds cap bytes.
 * Fails: EPD_ESUSPECT when neither rows nor picture are there; EPD_EMODEL when
 * they were made by another model or with other image settings, and then they
 * are left as they are.
 */
int epd_flow_rows(struct epd_session *s, const struct epd_feature *f, void *buf,
    size_t cap, struct epd_why *why);

/* The images of a request with their rows, in a receive pool. */
struct epd_request_rows {
	struct epd_image_ref *image;	/* fp and grid; at is the caller's */
	void **rows;			/* equal images share theirs */
	struct epd_recv_pool *pool;
	uint32_t hits, encoded;
};
/*
 * Resolve n > 0 images: each distinct miss is encoded once and committed.  each
 * may be NULL.  Owns: the caller frees out's contents.
 */
int epd_flow_images(struct epd_session *s, const struct epd_request_image *req,
    int n, struct epd_request_rows *out, struct epd_encoded *each,
    struct epd_why *why);
void epd_request_rows_free(struct epd_request_rows *r);

#endif
