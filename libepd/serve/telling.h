/*
 * telling.h - a node: a store with a data server, which the directory knows.  It tells
 * where its states, pages and features are, as long as it lives, and owns its
 * workflows: each is claimed in the directory, and its log says whose it is.
 * Outside this room include serve/serve.h.
 */
#ifndef EPD_SERVE_TELLING_H
#define EPD_SERVE_TELLING_H

#include "flow/flow.h"

struct epd_telling;
struct epd_telling_options {
	struct epd_store_options store;	/* lent until it is stopped */
	const char *address;		/* of the data server, as peers reach it */
	/* What people should know: etcd gone, etcd back, a workflow that is another's. */
	void (*say)(void *arg, const char *text);
	void *arg;
};
/*
 * A thread of its own, that looks at the store ten times a second.  What fails in it
 * is logged, and tried again: nobody waits for it.
 * Fails: as epd_store_open, epd_dir_open; -EAGAIN (no thread).
 * Owns: the caller stops *out.
 */
int epd_telling_start(struct epd_telling **out,
    const struct epd_telling_options *o, struct epd_why *why);
/* The node is gone from the directory, and what it told of with it. */
void epd_telling_stop(struct epd_telling *t);

#endif
