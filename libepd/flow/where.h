/*
 * where.h - what other nodes have, by the directory: nodes by their names, and pages
 * that are neither in memory nor in a tier here.
 *
 * What the directory says is tried, not believed.  A page that comes has to have the
 * sum that the log has of it, from the node that was named; else the directory is
 * asked again and not its cache, then the owner of the workflow that the state came
 * from, and then nobody: the page is missing, and is computed (the RFC's way of a stale
 * location).
 */
#ifndef EPD_FLOW_WHERE_H
#define EPD_FLOW_WHERE_H

#include "flow/store.h"

/*
 * The store's directory, opened when it is first needed, as of a process that is over
 * soon; NULL where there is none but this node (directory.backend local).
 */
struct epd_dir *epd_store_dir(struct epd_store *s);

/* Whether it was away a moment ago, and is not asked now; and that this is noted. */
int epd_where_is_left(const struct epd_store *s);
void epd_where_leave(struct epd_store *s, struct epd_dir *d);

/*
 * By when a peer is to be there, from now, and a question to the directory to be answered:
 * that has its own time-out, and cut short by ours it would not show etcd away.
 */
uint64_t epd_where_soon(const struct epd_store *s);
uint64_t epd_where_asked_by(const struct epd_store *s);

/*
 * What a person wrote for a peer: an address as it is, "NODE" as the directory has it.
 * If another store answers at a node's address, epd_node_open fails by EPD_EPEER.
 * Fails: EPD_ENOTHING (no such node lives, as far as can be told), EPD_EUSAGE (neither, and
 * no directory is configured), EPD_EPEER, EPD_ETIMEOUT.
 */
int epd_where_node(struct epd_store *s, const char *text,
    char address[EPD_ADDRESS], struct epd_why *why);

/*
 * Pages of a lot from whoever has them: into out[i] where had[i] is 0, which is then
 * set as a tier does: EPD_HAD_GIVEN if who sent it is not trusted.  How many.  Without trust
 * (transfer.trust_peers) only those of a state that came from a peer are asked for.
 */
long epd_where_pages(struct epd_store *s, const struct epd_workflow *w,
    const struct epd_lot *lot, void *const *out, uint8_t *had);

/*
 * A feature that is not here, from whoever is said to have it: 0, or EPD_ENOTHING.
 * end_ns: who asks for many has no more time for all of them; 0: as configured.
 */
int epd_where_feature(struct epd_store *s, const struct epd_name *fp,
    uint64_t end_ns);

#endif
