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
 * longer than its deadline, nor longer for one question than directory.timeout_ms,
 * and callers on other workflows' behalf share no lock that is held over a wait.
 *
 * Two things in etcd are more than hints, because they are decided there by
 * transactions: that a node lives (its lease) and who owns a shard, with a term that
 * only grows.  Even so the term is checked where it counts, by the shard's own log.
 *
 * A process that stays (epd-serve, a mount) has one thread of the directory's own,
 * which watches, renews the node's lease and tells of what was put; any of its
 * threads may call.  A command that is over soon has none: its calls ask etcd
 * themselves, one thread at a time, and what it puts stands by the node's lease.
 */
#ifndef EPD_DIR_H
#define EPD_DIR_H

#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "base/log.h"
#include "base/metrics.h"
#include "dir/hint.h"

struct epd_dir;
struct epd_dir_options {
	const struct epd_config *config;	/* directory.*; read here, not kept */
	struct epd_node_info self;	/* address "": it serves nobody, and tells of nothing */
	int stays;			/* with a thread, and as the node: its lease is held */
	struct epd_metrics *metrics;
	/* Both from any thread, and both may be NULL.  say: etcd gone, etcd back. */
	const struct epd_log *log;
	void (*say)(void *arg, const char *text);
	void *arg;
};
/*
 * Quick: a back end that is away is no failure here.
 * Fails: EPD_EUSAGE (no such endpoint), EPD_EUNSUPPORTED (no libcurl), -ENOMEM.
 */
int epd_dir_open(struct epd_dir **out, const struct epd_dir_options *o,
    struct epd_why *why);
/* A node that stayed is gone with it, at once if etcd can be told in half a second. */
void epd_dir_close(struct epd_dir *d);
int epd_dir_is_away(struct epd_dir *d);	/* 1: local mode, for want of etcd */
/* What is claimed stands by; 0: none now, or none is needed. */
uint64_t epd_dir_lease(struct epd_dir *d);

/*
 * Tell of something that lies at this node; put again, it is replaced if it differs.  Owner,
 * address and time are filled in here.  A process that stays is not kept waiting:
 * its thread tells, and tells again when etcd was away.  0 while etcd is away.
 * Fails: EPD_EUSAGE (no such key, a lease of more than a day), EPD_ETOOBIG (2^20 are
 * told of), -ENOMEM; of a command that is over soon EPD_EPEER, EPD_ETIMEOUT, too.
 */
int epd_dir_put(struct epd_dir *d, const struct epd_hint *hint,
    uint64_t deadline_ns, struct epd_why *why);
int epd_dir_remove(struct epd_dir *d, enum epd_hint_kind kind, const char *key,
    uint64_t deadline_ns, struct epd_why *why);
/*
 * Who is said to have it, the youngest first, ours among them: how many of max (64).
 * again: what was told before did not hold, so the back end is asked and no cache;
 * always so where the bound is 0.
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
 * above any that was ever given for it, and least or more.  Claimed before by us, and
 * the lease stood since: the same term.
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
