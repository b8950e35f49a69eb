/*
 * mooncake.h - pages in a Mooncake Store, which many stores may share.  Outside
 * this room include tier/tier.h.
 *
 * Each page is an object (tier/object.h) under a key made of the page's name
 * and sum: who has the same page has it under the same key, and puts nothing.
 * The store may forget what it likes, and lie: what is not the page asked for
 * is a miss.
 *
 * It is asked by its C library where that is installed and reaches the master,
 * else by its REST service, which takes text: objects put by it are base64.
 * Whoever reads takes both.
 */
#ifndef EPD_TIER_MOONCAKE_H
#define EPD_TIER_MOONCAKE_H

#include "base/log.h"
#include "base/metrics.h"
#include "tier/lower.h"

/* What the store is asked to hold on to; only its C library can be asked. */
enum epd_mooncake_pin {
	EPD_MOONCAKE_PIN_NONE,		/* any page may be evicted */
	EPD_MOONCAKE_PIN_SOFT,		/* others first, for a while */
	EPD_MOONCAKE_PIN_HARD,		/* none while it is there */
};

/* All is copied but metrics and what log leads to. */
struct epd_mooncake_options {
	const char *url;	/* REST service; NULL, "": library alone */
	const char *master;	/* HOST:PORT; NULL, "": REST alone */
	/*
	 * The master's HTTP, "http://127.0.0.1:9003".  It alone can say what is
	 * there without prolonging leases, which keep the store from evicting;
	 * without it (NULL or "") has is not known, and what was put is looked
	 * for as a reader would.
	 */
	const char *admin;
	const char *library;	/* NULL: libmooncake_store.so */
	const char *host;	/* of this node; NULL: 127.0.0.1 */
	int most;		/* pages under way at once, 1 to 64 */
	uint64_t page_ns;	/* a page may take, from when it is asked for */
	struct epd_span key;	/* seals objects; another finds none of them */
	int level;		/* zstd's; 0: pages stay as they are */
	uint8_t store[16];	/* UUID: what was given serves it alone */
	enum epd_mooncake_pin pin;
	struct epd_metrics *metrics;	/* NULL: nothing is counted */
	struct epd_log log;
};

/*
 * Nobody is asked before the first call.
 *
 * put: a page that is there is read, and kept if it is whole; another object
 * under its key is removed first, for which it may have to wait till nobody's
 * lease is on it (-EBUSY: it did not become free by the deadline).  0: each
 * page was there when it was looked for after all were put.  -ENOSPC: the store
 * takes no more, or had evicted some by then.
 * get: pages put as given in this workflow, or as computed by anybody.  Those asked for
 * are hits or misses; of the misses some are errors (the
 * store did not answer, or failed) and some corrupt (it gave something else).
 * has: of the lot's own sort, given or computed.  EPD_EUNSUPPORTED without admin.
 * drop: pages that were given, and a feature's meta; any other may be someone else's too, and stays
 * until it is evicted.  One on which there is a lease stays as well.
 *
 * After three failures in a row nobody is asked for a second, then two, to half
 * a minute: EPD_EPEER at once.
 * Fails: EPD_EUSAGE (neither url nor master), -ENOMEM.
 * Owns: the caller owns *out.
 */
int epd_mooncake_open(struct epd_lower **out,
    const struct epd_mooncake_options *o, struct epd_why *why);

#endif
