/* nvme_in.h - the nvme tier's handle; for its own files. */
#ifndef EPD_TIER_NVME_IN_H
#define EPD_TIER_NVME_IN_H

#include "tier/nvme.h"
#include "tier/pack.h"
#include "tier/ring.h"
#include "tier/tier.h"

/* Moves under way at once, and bytes of each if pages are smaller. */
enum { EPD_NVME_SLOTS = 4, EPD_NVME_STEP = 1 << 20 };

/* Modes of a pack; the second once damage was found in it: put makes it anew. */
enum { EPD_NVME_WHOLE = 0400, EPD_NVME_DAMAGED = 0500 };

struct epd_nvme {
	EPD_LOWER_OPS;
	struct epd_nvme_options o;
	struct epd_ring *ring;		/* made when first needed, for pages so large */
	struct ZSTD_CCtx_s *zip;	/* made when first needed */
	struct ZSTD_DCtx_s *unzip;
	/* What was seen here, of 2^20 bytes each (0: nothing yet). */
	uint64_t disk_ns, zstd_ns;
	uint64_t zstd_bytes;		/* those that they become */
	/* Bytes that may still be put before the folder is measured again, till then. */
	uint64_t credit, credit_ns;
};

/* A ring with room for a page of this shape, packed or not, a slot.  -ENOMEM. */
int epd_nvme_ring(struct epd_nvme *v, const struct epd_run_shape *shape);
/* Whether bytes may go between there and a file by O_DIRECT as they lie. */
int epd_nvme_straight(const void *p, uint64_t bytes);
/* Have the file's bytes go by the disk alone, where that can be. */
void epd_nvme_direct(int fd);
int epd_nvme_put(struct epd_lower *l, const struct epd_lot *lot,
    const void *const *page, uint64_t deadline_ns, struct epd_why *why);
long epd_nvme_get(struct epd_lower *l, const struct epd_lot *lot,
    void *const *out, uint8_t *had, uint64_t deadline_ns, struct epd_why *why);
/*
 * The front of the lot's pack, if it has one, and the file it is in; no time is
 * touched by it.  damaged (may be NULL): whether that was found in it.
 * Fails: -ENOENT, EPD_ECORRUPT (what is there is no pack, or of another sort),
 * EPD_EKIND, -ENOMEM, -errno.  Owns: the caller frees and closes.
 */
int epd_nvme_find(const struct epd_nvme *v, const struct epd_lot *lot,
    struct epd_pack *out, int *damaged, struct epd_why *why);
/* Whether that failed for want of a pack; else there may be one, which cannot be read now. */
int epd_nvme_is_none(int rc);

#endif
