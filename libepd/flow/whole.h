/*
 * whole.h - a state's whole path as one version, for a root elsewhere: in another
 * workflow, or in another store.  Not for outsiders.
 */
#ifndef EPD_FLOW_WHOLE_H
#define EPD_FLOW_WHOLE_H

#include "flow/runs.h"
#include "flow/store.h"

struct epd_whole {
	struct epd_state traits;	/* strings are its own; no parent */
	struct epd_version v;		/* as are its arrays */
	struct epd_page_row *row;	/* where its pages are at home */
	uint64_t rows;
	char *strings, *fingerprint;	/* the second if it was rewritten */
	int given;			/* its pages were, or rest on such */
	int foreign;			/* said before they are had: they are another store's */
};
/*
 * Tokens, images, sampler (a branch's salt in it) and pages of a version; runs
 * are not touched, and v has no pages yet.
 * Fails: EPD_ENOSTATE, EPD_ENOTHING, EPD_ECORRUPT, -ENOMEM.
 */
int epd_whole_make(struct epd_whole *out, struct epd_workflow *from,
    uint32_t state, uint32_t version, struct epd_why *why);
/*
 * Have its pages in another workflow's folder too: linked, or copied where that
 * cannot be, as far as they are in memory and its tier has room.  All are in v:
 * links to what is missing lead to no file, and it will be computed again as what
 * was evicted is.  moved is given the bytes copied and pages linked.
 *
 * Another store is of the same user, or it could not be opened: its pages are
 * trusted, and linked.  But they are for the workflow that has them now, as given
 * ones are: they are not entered in the index, copies are marked, and so is the
 * version, if one of them is there.  A linked file cannot be; an index that is made
 * anew has it too.
 * Fails: -ENOMEM, -errno (no run id to be had); then none is there.
 */
struct epd_moved { uint64_t linked, copied, bytes, missing; };
int epd_whole_pages(struct epd_whole *f, int from, struct epd_store *store,
    const struct epd_workflow *to, struct epd_moved *moved,
    struct epd_why *why);
/* Unlink those again. */
void epd_whole_undo(struct epd_whole *f, int to);
void epd_whole_free(struct epd_whole *f);

/*
 * A version that is made page by page: one more link, for pages that lie in one run;
 * *run is the id it gets here.  v's array has room.  And all of them unlinked again.
 * Fails: -errno (no run id to be had).
 */
int epd_links_add(struct epd_version *v, uint32_t pages, uint64_t *run);
void epd_links_undo(struct epd_version *v, int runs);
/*
 * Whether the state that is ready is known to have other pages than these: somebody
 * was first, and they are of no use.
 */
int epd_links_are_late(struct epd_shard *s, uint32_t state,
    const struct epd_version *v);

/* The pictures and features it shows, if the other store lacks them. */
int epd_whole_features(const struct epd_whole *f, struct epd_store *from,
    struct epd_store *to, struct epd_moved *moved, struct epd_why *why);

#endif
