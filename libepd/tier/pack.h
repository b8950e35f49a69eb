/*
 * pack.h - the file that the nvme tier keeps a lot in: what it is, then a table,
 * a manifest, and its pages as objects.  Not for outsiders.
 *
 *	head (192) | table, 64 a page | manifest | 0 .. | objects
 *	0                                         first
 *
 * first is a multiple of 4096; objects begin at multiples of 64 and lie in the order
 * of the table.  The front, all before first, is written last and has a CRC, so a
 * file that was not written whole is none.  FORMATS draws it.
 */
#ifndef EPD_TIER_PACK_H
#define EPD_TIER_PACK_H

#include "base/span.h"
#include "tier/object.h"

enum {
	EPD_PACK_HEAD = 192, EPD_PACK_ENTRY = 64, EPD_PACK_STEP = 64,
	EPD_PACK_ALIGN = 4096, EPD_PACK_MANIFEST = 1 << 16,
	EPD_PACK_PAGES = 1 << 20
};

struct epd_pack_entry {
	struct epd_page_entry page;
	uint64_t at;			/* of the object, from the file's beginning */
	uint32_t bytes;			/* its */
};

struct epd_pack {
	struct epd_run_shape shape;
	uint64_t run;
	char workflow[64];
	int given;
	uint32_t n, manifest_bytes;
	uint64_t first, bytes;		/* of the file, in all */
	struct epd_pack_entry *entry;	/* [n] */
	char *manifest;
};

/* Bytes of the front for n pages and a manifest of so many bytes. */
uint64_t epd_pack_first(uint32_t n, size_t manifest);
/* out has p->first bytes. */
void epd_pack_front(uint8_t *out, const struct epd_pack *p);
/*
 * The front of the file open at fd.  Fails: EPD_ECORRUPT, EPD_EKIND, -ENOMEM, -errno.
 * Owns: the caller frees it.
 */
int epd_pack_read(struct epd_pack *out, int fd, struct epd_why *why);
void epd_pack_free(struct epd_pack *p);
/* The entry that is page i of a lot: name, rows and sum; or NULL. */
const struct epd_pack_entry *epd_pack_find(const struct epd_pack *p,
    const struct epd_lot *lot, long i);

#endif
