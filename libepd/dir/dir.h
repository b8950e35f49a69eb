/*
 * dir.h - the KV Directory: where states, pages and features are said to be.
 *
 * It is never a source of truth.  What it says is a hint that whoever uses it
 * checks against what it leads to, by version, epoch, owner and checksum; it may
 * be lost, late or lie, and costs a look elsewhere then.  What is read is never
 * older than the staleness bound by the reader's own boot clock: fresh means that
 * this process saw the back end's watch make progress (or asked it) within the
 * bound; what cannot be shown to be fresh is treated as absent, and counted.
 *
 * Back ends are a table: local (the default, of one node: nothing leaves the
 * process) and etcd v3 by its JSON gateway.  While etcd is away the directory is a
 * local one, says so once, counts it, and goes back when etcd does.  No call waits
 * longer than its deadline, and callers on other workflows' behalf share no lock
 * that is held over a wait.
 *
 * Two things in etcd are more than hints, because they are decided there by
 * transactions: that a node lives (its lease) and who owns a shard, with a term that
 * only grows.  Even so the term is checked where it counts, by the shard's own log.
 */
#ifndef EPD_DIR_H
#define EPD_DIR_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metrics.h"

enum { EPD_HINT_KEY = 160, EPD_ADDRESS = 256, EPD_NODE_NAME = 64 };

/*           id       name      key */
#define EPD_HINTS(X) \
	X(STATE,   "state",   "WORKFLOWUUIDHEX/sN") \
	X(PAGE,    "page",    "NAMEHEX") \
	X(FEATURE, "feature", "NAMEHEX")

enum epd_hint_kind {
	EPD_HINT_NONE,
#define X(id, name, key) EPD_HINT_##id,
	EPD_HINTS(X)
#undef X
};

struct epd_hint {
	enum epd_hint_kind kind;
	char key[EPD_HINT_KEY];
	uint8_t owner[16];	/* node: its store's UUID */
	char address[EPD_ADDRESS];	/* of its data server, "tcp://HOST:PORT" */
	char name[EPD_HINT_KEY];	/* what the owner calls it: "w1/s3"; "" of a page */
	uint32_t version;	/* of a state: its newest */
	uint64_t epoch;		/* of a state: lsn of its last change */
	uint64_t checksum;	/* of a page or feature; of a state, of its head's names */
	uint64_t lease_ms;	/* how long it is to stand without being renewed; 0: as its node */
	uint64_t wall_ms;	/* when it was put, for display alone */
	uint64_t age_ns;	/* out: since the reader knows it to have stood */
};

struct epd_node_info {
	uint8_t uuid[16];
	char name[EPD_NODE_NAME];	/* directory.node, or the host's */
	char address[EPD_ADDRESS];
	uint64_t wall_ms;
};

struct epd_dir;
struct epd_dir_options {
	const struct epd_config *config;	/* directory.*; read here, not kept */
	struct epd_node_info self;	/* address "": it serves nobody, and tells of nothing */
	struct epd_metrics *metrics;
	const struct epd_log *log;
	void (*say)(void *arg, const char *text);	/* etcd gone, etcd back; or NULL */
	void *arg;
};
/*
 * Quick: a back end that is away is no failure here.
 * Fails: EPD_EUSAGE (no such endpoint), EPD_EUNSUPPORTED (no libcurl), -ENOMEM.
 */
int epd_dir_open(struct epd_dir **out, const struct epd_dir_options *o,
    struct epd_why *why);
void epd_dir_close(struct epd_dir *d);
int epd_dir_is_away(const struct epd_dir *d);	/* 1: local mode, for want of etcd */

/* Tell of something that lies at this node; put again, it is replaced. */
int epd_dir_put(struct epd_dir *d, const struct epd_hint *hint,
    uint64_t deadline_ns, struct epd_why *why);
int epd_dir_remove(struct epd_dir *d, enum epd_hint_kind kind, const char *key,
    uint64_t deadline_ns, struct epd_why *why);
/*
 * Who is said to have it, the youngest first, ours among them: how many of max.
 * again: what was told before did not hold, so the back end is asked and no cache.
 * EPD_ETIMEOUT, EPD_EPEER: it could not be asked; 0: nobody, as far as can be told.
 */
int epd_dir_find(struct epd_dir *d, enum epd_hint_kind kind, const char *key,
    int again, struct epd_hint *out, int max, uint64_t deadline_ns,
    struct epd_why *why);

/* Nodes that live, as their leases say.  fn's nonzero return ends it and is returned. */
int epd_dir_nodes(struct epd_dir *d,
    int (*fn)(void *arg, const struct epd_node_info *n), void *arg,
    uint64_t deadline_ns, struct epd_why *why);

/*
 * Own a shard: by workflow UUID, for as long as this node's lease stands.  *term is
 * above any that was ever given for it.  Claimed before by us: the same term.
 * Fails: EPD_ELOCKED (another node's that lives; why names it), EPD_EPEER, EPD_ETIMEOUT
 * (cannot be told now: not owned).  The local back end gives terms of its own.
 */
int epd_dir_claim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t least, uint64_t *term, uint64_t deadline_ns, struct epd_why *why);
/* Who owns it: 1 and the node and term, or 0: nobody that lives. */
int epd_dir_owner(struct epd_dir *d, const uint8_t workflow[16],
    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
    struct epd_why *why);
int epd_dir_disclaim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t deadline_ns, struct epd_why *why);

#endif
