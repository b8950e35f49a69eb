/*
 * nvme.h - the tier on a disk: a folder like memory's (tier.h), a pack file for each
 * run that was put there.  Outside this room include tier/tier.h.
 *
 *	DIR/epd-UUIDHEX/w/WORKFLOW/RUN	packs (tier/pack.h), and temporaries
 *
 * Bytes go by O_DIRECT and io_uring where file system and kernel have them.  A pack
 * is flushed before it gets its name, and never written again.  Under the cap what was
 * used longest ago makes way for what comes.
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

/* The pack of a run, to look at: what it says it is, and what it takes up there. */
struct epd_pack;
int epd_nvme_look(struct epd_memory *folder, const char *workflow,
    uint64_t run, struct epd_pack *out, uint64_t *bytes, struct epd_why *why);

#endif
