/*
 * handle.h - a transfer under way beside its caller: the RFC's TransferHandle.
 *
 * It works in a thread with a store and a link of its own, so whoever began it may go
 * on with theirs.  One thread's, as a handle.
 */
#ifndef EPD_FLOW_HANDLE_H
#define EPD_FLOW_HANDLE_H

#include "flow/transfer.h"

struct epd_transfer;

/*
 * transfer_feature_bundle: from src_worker to dst_worker, each a peer's address or ""
 * for the store of `here`, which is one of the two.  Lent until it is freed: what
 * `here` lends.
 * Fails: EPD_EUSAGE (neither of the two is here, or both), -ENOMEM, -EAGAIN (no thread).
 * Owns: the caller frees *out.
 */
int epd_transfer_feature_bundle(struct epd_transfer **out,
    const struct epd_store_options *here, const struct epd_name *feature,
    const char *src_worker, const char *dst_worker,
    const struct epd_transfer_policy *policy, struct epd_why *why);

/*
 * transfer_kv_pages: n pages by name, of a state where they are, into the folder of
 * a workflow where they go: one of this store must be there, a peer's is made.  What came is a run that no record
 * names: it is safe until the handle is freed, then whoever named it has it, or a
 * sweep.
 */
struct epd_pages_way {
	const char *from_workflow;	/* of the state that has them; "": by name alone */
	uint32_t state, version;
	const char *to_workflow;
	const struct epd_name *page;
	uint32_t n;
};
int epd_transfer_kv_pages(struct epd_transfer **out,
    const struct epd_store_options *here, const struct epd_pages_way *way,
    const char *src_worker, const char *dst_worker,
    const struct epd_transfer_policy *policy, struct epd_why *why);

/*
 * Wait for its end, at most until deadline_ns (0: one look).  What it came to goes to
 * *result and *result's is as epd_pages_fetch's; runs are lent.
 * Fails: EPD_ETIMEOUT (it goes on), and what it failed by.
 */
struct epd_transfer_result {
	struct epd_transferred moved;
	const uint64_t *run;
	uint32_t nruns;
};
int epd_transfer_wait(struct epd_transfer *t, uint64_t deadline_ns,
    struct epd_transfer_result *result, struct epd_why *why);
void epd_transfer_cancel(struct epd_transfer *t);	/* soon it ends with -ECANCELED */
/* Cancels what is not over, and waits for that.  NULL is fine. */
void epd_transfer_free(struct epd_transfer *t);

#endif
