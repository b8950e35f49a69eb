/*
 * node.h - a peer: another store, reached through its data server.
 *
 * Questions go over one link, its control link.  Bytes go by whichever backend a plan
 * says, each with a link of its own, opened when it is first used and again after it
 * broke.  One thread's.
 */
#ifndef EPD_FLOW_NODE_H
#define EPD_FLOW_NODE_H

#include "flow/ask.h"
#include "move/move.h"

enum { EPD_NODE_ADDRESS = 256 };

/* Whether text names a peer ("tcp://HOST:PORT", "unix:///PATH"), not a folder. */
int epd_node_is_address(const char *text);

struct epd_node;
/*
 * Reach it and learn who it is, by the configured key and within the configured time,
 * or by deadline_ns if that is not 0.
 * Fails: EPD_EUNSUPPORTED (this program has no transport for it), EPD_EUSAGE, EPD_EAUTH,
 * EPD_EPEER, EPD_ETIMEOUT (also at once, if it let another wait run out a moment ago),
 * EPD_EMODEL (another tenant's), EPD_EKIND, -errno.
 * Owns: the caller closes *out before here.
 */
int epd_node_open(struct epd_node **out, struct epd_store *here,
    const char *address, uint64_t deadline_ns, struct epd_why *why);
void epd_node_close(struct epd_node *n);
struct epd_store *epd_node_here(const struct epd_node *n);
const char *epd_node_address(const struct epd_node *n);
/* As it was told last; ask has it told anew. */
const struct epd_node_facts *epd_node_facts(const struct epd_node *n);
int epd_node_refresh(struct epd_node *n, uint64_t deadline_ns,
    struct epd_why *why);
int epd_node_is_near(const struct epd_node *n);		/* on this machine */

/*
 * Ask over the control link, which is opened anew if it broke.
 * Fails: what it answers, and as open.
 */
int epd_node_ask(struct epd_node *n, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, uint64_t deadline_ns, struct epd_why *why);
/* The same of what must not be done twice: a link that breaks is EPD_EPEER. */
int epd_node_ask_once(struct epd_node *n, enum epd_ask verb,
    struct epd_span ask, struct epd_buf *answer, uint64_t deadline_ns,
    struct epd_why *why);
/*
 * The same over a backend's link: what a guest of the peer's wrote is known there by
 * the link it came by.
 */
int epd_node_ask_by(struct epd_node *n, enum epd_backend b, enum epd_ask verb,
    struct epd_span ask, struct epd_buf *answer, uint64_t deadline_ns,
    struct epd_why *why);
/* The link of a backend, lent; the control link is one of them. */
int epd_node_link(struct epd_node *n, enum epd_backend b,
    struct epd_link **out, uint64_t deadline_ns, struct epd_why *why);
/* It broke: closed, and opened again when it is next wanted. */
void epd_node_drop_link(struct epd_node *n, enum epd_backend b);
/* An attempt by l ended: its window (0: none) is shut, or l dropped if it broke. */
void epd_node_leave(struct epd_node *n, enum epd_backend b, struct epd_link *l,
    uint64_t window, int broken);
/* After a failure: it is dropped if that was the link's, not the peer's answer. */
void epd_node_failed(struct epd_node *n, enum epd_backend b, int rc);
/*
 * Call fn with a backend's link, and again with another one as long as the link breaks:
 * till deadline_ns (0: as configured), and the store's listener hears of it where that
 * takes more than a second.  For what may be done twice.
 */
int epd_node_try(struct epd_node *n, enum epd_backend b,
    int (*fn)(void *arg, struct epd_link *l, uint64_t deadline_ns,
    struct epd_why *why), void *arg, uint64_t deadline_ns, struct epd_why *why);
/* The same of an attempt by whatever way, which ended so and is made again. */
void epd_node_waits(struct epd_node *n, int rc, uint64_t deadline_ns);
/*
 * MAKE: a workflow there, its name and uuid.  One without a name ("") would be made
 * twice, and is asked for once.
 */
int epd_node_make(struct epd_node *n, const char *name, char out[EPD_WORKFLOW],
    uint8_t uuid[16], uint64_t deadline_ns, struct epd_why *why);
/* The link that questions go over. */
enum epd_backend epd_node_control(const struct epd_node *n);

/*
 * What leads to it by what is here and configured: made once, and again after a link
 * broke, since what it went by may be gone.  Lent until it is asked for again.
 * Fails: as epd_ways_make.
 */
struct epd_ways;
int epd_node_ways(struct epd_node *n, const struct epd_ways **out,
    struct epd_why *why);
/* An id for a decision, and for the candidates that it may have. */
uint64_t epd_node_plan_id(struct epd_node *n);
/* How backends do with it: observed by transfers, for plans. */
struct epd_operations *epd_node_operations(struct epd_node *n);
void epd_node_observe(struct epd_node *n, enum epd_backend b, int rc,
    uint64_t bytes, uint64_t ns);
/* What transfers with it may take. */
struct epd_ledger *epd_node_books(struct epd_node *n);

#endif
