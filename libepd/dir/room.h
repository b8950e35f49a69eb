/*
 * room.h - what the directory's own files share.  Outside this room include dir/dir.h.
 *
 * There is one lock, for looks and changes in memory: it is never held over a wait, a
 * question, or a call of another's.
 */
#ifndef EPD_DIR_ROOM_H
#define EPD_DIR_ROOM_H

#include <pthread.h>

#include "base/http.h"
#include "dir/dir.h"
#include "dir/map.h"

enum {
	EPD_DIR_ENDPOINTS = 8,
	EPD_DIR_IDLE = 16,		/* clients kept for who asks next */
	EPD_DIR_OWNERS = 64,		/* of one key, that are looked at */
	EPD_DIR_CACHED = 1 << 14,	/* hints */
	EPD_DIR_TOLD = 1 << 20,
};

/* What this node told of: the local back end, and what etcd is to be told. */
struct epd_told {
	struct epd_map_node at;
	struct epd_hint hint;
	uint64_t until_ns;		/* 0: no end */
	uint64_t turn;			/* of its changes */
	int gone, waiting, busy;	/* waiting: to be told, in the queue */
	struct epd_told *next;
};

/* Who was told to have a thing, by etcd. */
struct epd_heard {
	struct epd_map_node at;
	uint64_t asked_ns, revision;
	int n;
	struct epd_hint hint[];
};

struct epd_claim {
	uint8_t workflow[16];
	uint64_t term;
	int held;
	uint64_t rival;		/* lease of another process of our name that took it */
};

struct epd_dir_backend;
struct epd_dir {
	const struct epd_dir_backend *backend;
	struct epd_dir_options o;	/* config: NULL */
	struct epd_log log;
	uint64_t bound_ns, timeout_ns, lease_ms;
	char prefix[EPD_CONFIG_STR + 1];
	char endpoint[EPD_DIR_ENDPOINTS][EPD_CONFIG_STR];
	int endpoints;
	_Atomic int closing;
	pthread_t thread;
	int has_thread;
	uint64_t salt;			/* of what is left to chance */

	pthread_mutex_t lock;		/* of all below */
	struct epd_map told, heard;
	struct epd_told *first, **last;	/* the queue */
	size_t nheard;			/* hints in heard */
	struct epd_claim *claims;
	size_t nclaims, claims_cap;
	struct { struct epd_http *http; int at; } idle[EPD_DIR_IDLE];
	int nidle, at;			/* at: the endpoint that is asked */
	int away;
	uint64_t failing_ns, wait_ns, retry_ns;
	uint64_t lease;			/* the node's; 0: none yet */
	/* How far the watch is: all up to seen has come, of arriving some. */
	uint64_t seen, arriving, fresh_ns;
};

/* A row of the table of back ends. */
struct epd_dir_backend {
	const char *name;
	int (*open)(struct epd_dir *d, const struct epd_config *c,
	    struct epd_why *why);
	void (*close)(struct epd_dir *d);
	void *(*watch)(void *d);	/* the thread of one that stays, or NULL */
	/* What is in told under this path is another, or gone. */
	int (*tell)(struct epd_dir *d, const char *path, uint64_t deadline_ns,
	    struct epd_why *why);
	int (*find)(struct epd_dir *d, const char *path, int again,
	    struct epd_hint *out, int max, uint64_t deadline_ns,
	    struct epd_why *why);
	int (*nodes)(struct epd_dir *d,
	    int (*fn)(void *arg, const struct epd_node_info *n), void *arg,
	    uint64_t deadline_ns, struct epd_why *why);
	int (*claim)(struct epd_dir *d, const uint8_t workflow[16],
	    uint64_t least, uint64_t *term, uint64_t deadline_ns,
	    struct epd_why *why);
	int (*owner)(struct epd_dir *d, const uint8_t workflow[16],
	    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
	    struct epd_why *why);
	int (*disclaim)(struct epd_dir *d, const uint8_t workflow[16],
	    uint64_t deadline_ns, struct epd_why *why);
};
extern const struct epd_dir_backend epd_dir_local, epd_dir_etcd;

#endif
