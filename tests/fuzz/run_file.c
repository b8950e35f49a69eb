/*
 * run_file.c - a run file without its pages: the input is the header's fields
 * and the table.  Read as they are, and with checksums and length put right, so
 * that what lies behind the checksums is reached too.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "page/layout.h"
#include "tests/fuzz/folder.h"

enum { FIELDS = 56, MOST = 1 << 24 };

static uint64_t
get(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

static void
put(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* Open run 1 in dir with the shape it claims, and read all of it. */
static void
look(int dir, const uint8_t *head)
{
	struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE,
	    (uint32_t)get(head + 16, 4), (uint32_t)get(head + 20, 4),
	    get(head + 24, 8) };
	struct epd_why why = { "" };
	struct epd_run *r;
	uint8_t any = 0;

	if (epd_run_open(&r, dir, 1, &shape, NULL, 0, &why))
		return;
	for (long i = 0; i < epd_run_count(r); i++) {
		const uint8_t *page = epd_run_page(r, i);

		if (!epd_run_entries(r)[i].rows ||
		    epd_run_entries(r)[i].rows > shape.tokens)
			abort();
		(void)epd_run_verify(r, i);
		any |= page[0];
		any |= page[shape.bytes - 1];
	}
	if (any)
		abort();	/* its pages are holes */
	epd_run_close(r);
}

/* Its table alone, and what of it another name may take. */
static void
look_as_link(int dir)
{
	struct epd_run_shape shape;
	struct epd_run *r, *part;
	long n, from;

	if (epd_run_table(&r, dir, 1, &shape, NULL))
		return;
	n = epd_run_count(r);
	from = n / 3;
	if (epd_run_page(r, 0) || epd_run_link(dir, 1, dir, 2))
		abort();
	if (epd_run_origin_id(r) != 2 && !epd_run_look(&part, dir, 2, &shape,
	    epd_run_entries(r) + from, (n + 1) / 2, NULL)) {
		if (epd_run_count(part) != (n + 1) / 2 ||
		    epd_run_first(part) > from ||
		    epd_run_is_given(part) != epd_run_is_given(r) ||
		    *(const uint8_t *)epd_run_page(part, n / 4))
			abort();
		epd_run_close(part);
	}
	epd_run_close(r);
	if (epd_run_free(dir, 2))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t head[EPD_RUN_ALIGN] = { 0 };
	uint64_t count, stride, at;
	size_t table;
	int dir, fd;

	if (n < FIELDS)
		return 0;
	dir = folder();
	fd = openat(dir, "0000000000000001", O_RDWR | O_CREAT, 0600);
	memcpy(head, p, FIELDS);
	p += FIELDS;
	n -= FIELDS;
	if (epd_file_pwrite(fd, head, sizeof head, 0) ||
	    epd_file_pwrite(fd, p, n, sizeof head))
		abort();
	look(dir, head);
	look_as_link(dir);
	count = get(head + 40, 8);
	stride = get(head + 24, 8);
	if (stride < MOST && count <= n / EPD_RUN_ENTRY) {
		stride = (stride + EPD_RUN_ALIGN - 1) / EPD_RUN_ALIGN *
		    EPD_RUN_ALIGN;
		at = EPD_RUN_ALIGN + count * stride;
		table = (size_t)count * EPD_RUN_ENTRY;
		put(head + 32, 1, 8);
		put(head + 48, epd_crc32c(0, p, table), 4);
		put(head + EPD_RUN_ALIGN - 4,
		    epd_crc32c(0, head, EPD_RUN_ALIGN - 4), 4);
		if (ftruncate(fd, EPD_RUN_ALIGN) ||
		    ftruncate(fd, (off_t)(at + table)) ||
		    epd_file_pwrite(fd, head, sizeof head, 0) ||
		    epd_file_pwrite(fd, p, table, at))
			abort();
		look(dir, head);
		look_as_link(dir);
	}
	close(fd);
	unlinkat(dir, "0000000000000001", 0);
	return 0;
}
