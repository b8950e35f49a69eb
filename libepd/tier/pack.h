/*
 * pack.h - the file that the nvme tier keeps a lot in: what it is, a table of its
 * pages, a manifest, and the pages.  Not for outsiders.
 *
 *	head (192) | table, 64 a page | manifest | 0 .. | pages
 *	0                                         first
 *
 * Pages begin at multiples of 4096 and lie in the order of the table, each as it is
 * or packed by zstd; each is known by its sum there.  The front, all before first,
 * has a CRC.  FORMATS draws it.
 */
#ifndef EPD_TIER_PACK_H
#define EPD_TIER_PACK_H

#include "base/span.h"
#include "tier/lower.h"

enum {
	EPD_PACK_HEAD = 192, EPD_PACK_ENTRY = 64, EPD_PACK_ALIGN = 4096,
	EPD_PACK_MANIFEST = 1 << 16, EPD_PACK_PAGES = 1 << 20
};
enum epd_pack_codec { EPD_PACK_RAW, EPD_PACK_ZSTD };

struct epd_pack_entry {
	struct epd_page_entry page;
	uint32_t codec;
	uint64_t at, bytes;		/* in the file */
};

struct epd_pack {
	struct epd_run_shape shape;
	uint64_t run;
	char workflow[64];
	int given;
	uint32_t n, manifest_bytes;
	uint64_t first, bytes;		/* of the file, in all */
	struct epd_pack_entry *entry;	/* [n] */
	char *manifest;			/* NUL-terminated */
};

static inline uint64_t
epd_pack_up(uint64_t n)
{
	return (n + EPD_PACK_ALIGN - 1) / EPD_PACK_ALIGN * EPD_PACK_ALIGN;
}
/* Bytes of the front for n pages and a manifest of so many bytes. */
uint64_t epd_pack_first(uint32_t n, size_t manifest);
/* out has p->first bytes. */
void epd_pack_front(uint8_t *out, const struct epd_pack *p);
/*
 * The front of the file open at fd, be it O_DIRECT or not.  What is no regular file
 * is EPD_ECORRUPT.  Fails: EPD_ECORRUPT, EPD_EKIND, -ENOMEM, -errno.
 * Owns: the caller frees it.
 */
int epd_pack_read(struct epd_pack *out, int fd, struct epd_why *why);
void epd_pack_free(struct epd_pack *p);
/* Whether its pages are of the lot's shape. */
int epd_pack_is(const struct epd_pack *p, const struct epd_lot *lot);
/* The entry that is page i of a lot: name, rows and sum; or NULL. */
const struct epd_pack_entry *epd_pack_find(const struct epd_pack *p,
    const struct epd_lot *lot, long i);

#endif
