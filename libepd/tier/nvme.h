/*
 * nvme.h - the tier on a disk: a folder like memory's (tier.h), a pack file for each
 * run that was put there.  Outside this room include tier/tier.h.
 *
 *	DIR/epd-UUIDHEX/w/WORKFLOW/RUN	packs (tier/pack.h), and temporaries
 *
 * Bytes go by O_DIRECT and io_uring where file system and kernel have them, and
 * straight from and to pages that lie and end at multiples of 4096.  A pack is
 * flushed before it gets its name, and never written again; who else has its pages,
 * or some, has a link to it (alias).  So whatever the name, of what it has only pages
 * of the name, rows, sum and shape that are asked for are given out, with what it says
 * of whether they were given.  Under the cap what
 * was used longest ago makes way for what comes, all names of a file; several who put
 * at once may each go 1/64 beyond it for a second.  Where the disk is full below the cap
 * nothing makes way: that is -ENOSPC.
 *
 * A put of a run that has a pack: nothing to do if all its pages are in there; a new
 * pack in its place if all that is in there comes again, or if damage was found in it
 * or it has pages of another shape, or if it has as computed what comes as given, which
 * it is from then on; else -EEXIST, since pages would be lost: drop it first.  Of two
 * that put at once one stands.  The pages of a lot have the sums of their entries;
 * who puts has looked.  A manifest of more than EPD_PACK_MANIFEST bytes is left out.
 *
 * A get counts in tier_corrupt what was there and was not the page, in tier_errors
 * what could not be read, and neither is a failure; only -ENOMEM and EPD_ETIMEOUT are.
 */
#ifndef EPD_TIER_NVME_H
#define EPD_TIER_NVME_H

#include "base/metrics.h"
#include "tier/lower.h"

struct epd_memory;

enum epd_packing { EPD_PACKING_NONE, EPD_PACKING_ZSTD, EPD_PACKING_AUTO };
extern const struct epd_words epd_packings;

struct epd_nvme_options {
	struct epd_memory *folder;	/* lent; its cap is the tier's */
	enum epd_packing packing;
	struct epd_metrics *metrics;
};
/* Opening touches no disk.  -ENOMEM. */
int epd_nvme_open(struct epd_lower **out, const struct epd_nvme_options *o);

/*
 * What a run's pack has, for who knows no more than that there may be one.
 * Fails: -ENOENT, EPD_ECORRUPT, EPD_EKIND, -ENOMEM, -errno.
 * Owns: the caller frees *entry.
 */
int epd_nvme_table(struct epd_memory *folder, const char *workflow,
    uint64_t run, struct epd_run_shape *shape, struct epd_page_entry **entry,
    long *n, int *given);
/* The pack of a run, to look at: what it says it is, and what it takes up there. */
struct epd_pack;
int epd_nvme_look(struct epd_memory *folder, const char *workflow,
    uint64_t run, struct epd_pack *out, uint64_t *bytes, struct epd_why *why);

#endif
