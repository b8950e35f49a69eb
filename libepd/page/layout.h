/*
 * layout.h - inside the page room: the bytes of a run file, and the handle that
 * writer and reader share.  run.c draws the file.
 */
#ifndef EPD_PAGE_LAYOUT_H
#define EPD_PAGE_LAYOUT_H

#include "base/file.h"
#include "base/span.h"
#include "page/page.h"

enum {
	EPD_RUN_ALIGN = 4096,		/* of pages; the header's size too */
	EPD_RUN_ENTRY = 48,		/* bytes of a table entry */
	EPD_RUN_MAX_PAGES = 1 << 20,
	EPD_RUN_GIVEN = 1,		/* a flag: not computed here */
};
#define EPD_RUN_MAX_BYTES ((uint64_t)1 << 30)	/* of one page */

struct epd_run_head {
	struct epd_run_shape shape;
	uint64_t run, count;
	uint32_t table_crc, flags;
};

/* Pages first, first + 1, ... lie one stride apart from p on. */
struct epd_run_piece {
	uint8_t *p;
	long first, n;
};

struct epd_run {
	struct epd_run_shape shape;
	size_t stride;			/* shape.bytes, rounded up */
	long count;			/* pages given out, or mapped */
	long first;			/* where in the file they begin */
	uint64_t origin;		/* published under this id; 0 not yet */
	int given;
	struct epd_run_piece *piece;
	int npieces;
	struct epd_page_entry *entry;	/* published runs only */
	uint8_t *checked;		/* 0 not yet, 1 good, 2 bad */
	/* while it is written: */
	long room;			/* pages allocated and mapped */
	int fd, dirfd;
	int published, failed;
	char tmp[EPD_TEMP];		/* "" when the file has no name at all */
};

/* 0, EPD_EKIND, EPD_ETOOBIG, -EINVAL. */
int epd_run_shape_check(const struct epd_run_shape *s);
size_t epd_run_stride(const struct epd_run_shape *s);

/* out has EPD_RUN_ALIGN bytes. */
void epd_run_head_pack(uint8_t *out, const struct epd_run_head *h);
/* in has EPD_RUN_ALIGN bytes; size is the file's.  EPD_ECORRUPT, EPD_EKIND. */
int epd_run_head_unpack(struct epd_run_head *h, const uint8_t *in,
    uint64_t size, struct epd_why *why);
/* count entries of EPD_RUN_ENTRY bytes; the result is the table's CRC. */
uint32_t epd_run_table_pack(uint8_t *out, const struct epd_page_entry *e,
    long n);
/* in has h->count * EPD_RUN_ENTRY bytes, e as many entries.  EPD_ECORRUPT. */
int epd_run_table_unpack(struct epd_page_entry *e, const uint8_t *in,
    const struct epd_run_head *h, struct epd_why *why);

#endif
