/*
 * draft.h - what a decode has drawn behind a version and not yet committed, for
 * whoever wants to read along.
 *
 * It is a file in the workflow's folder on the memory tier, named by state and
 * version, which its writer holds locked.  It is there from the first step to
 * the commit and goes behind that: who finds the state still at the version, and
 * then a draft of it, never adds the same words twice.  What a decode that was
 * killed has left is nobody's; the next decode of that version begins it anew,
 * and gc takes it.
 */
#ifndef EPD_FLOW_DRAFT_H
#define EPD_FLOW_DRAFT_H

#include "engine/engine.h"
#include "tier/tier.h"

enum { EPD_DRAFT_NAME = sizeof EPD_DRAFT_PREFIX + 21, EPD_DRAFT_MAX = 64 << 20 };

/* ---- reading along ---- */

/*
 * The tokens so far of the decode that is at work on the version now, added to
 * out: those that its commit will add, in order.  dirfd is the workflow's
 * folder (epd_memory_find).  On failure out is as before.
 * Fails: -ENOENT (there is none, or its decode is dead), EPD_ETOOBIG, -EINVAL
 * (no plain file), -errno (a link: -ELOOP).
 */
int epd_draft_read(int dirfd, uint32_t state, uint32_t version,
    struct epd_ids *out);

/* ---- writing ---- */

/*
 * A draft that cannot be begun, or goes on no more (no room, no folder, another
 * decode's), is given up: it goes, and nobody is told.  Zero it to begin.
 */
struct epd_draft {
	int on, fd;
	uint64_t bytes;
	char name[EPD_DRAFT_NAME];
};
void epd_draft_begin(struct epd_draft *d, int dirfd, uint32_t state,
    uint32_t version);
void epd_draft_put(struct epd_draft *d, int dirfd, int32_t id);
void epd_draft_end(struct epd_draft *d, int dirfd);

/* ---- those of the dead ---- */

struct epd_drafts {
	uint64_t n, bytes;
	char first[EPD_DRAFT_NAME];
};
/* Count them, and remove them if take is set.  -errno: the folder is not read. */
int epd_drafts_dead(int dirfd, int take, struct epd_drafts *out);

#endif
