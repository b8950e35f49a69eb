/*
 * tier_pack.c - the pack of a run as a file of any bytes: looked at, and asked for
 * the pages that it says it has.  The first byte says whether its lengths, its names
 * and its sum are put right, so that what lies behind them is reached too.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/folder.h"
#include "tier/pack.h"
#include "tier/tier.h"
#include "tier/nvme.h"

#define RUN "0000000000000001"
enum { AT_CRC = 188, PAGES = 16, ALL = 1 << 18 };

static struct epd_memory *m;
static struct epd_lower *tier;
static int w1;

static void
begin(void)
{
	static const uint8_t uuid[16] = { 0xab };
	struct epd_nvme_options o = { .packing = EPD_PACKING_NONE };
	char mem[128], store[128];

	(void)folder();
	snprintf(mem, sizeof mem, "%s/mem", folder_path);
	snprintf(store, sizeof store, "%s/store", folder_path);
	if (epd_memory_open(&m, mem, uuid, store, 1 << 30, NULL))
		abort();
	o.folder = m;
	w1 = epd_memory_dir(m, "w1");
	if (w1 < 0 || epd_nvme_open(&tier, &o))
		abort();
}

static uint64_t
get(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

/* What only a writer of ours gets right. */
static void
mend(uint8_t *b, size_t n, int how)
{
	const uint64_t first = epd_pack_first((uint32_t)get(b + 8, 4),
	    (size_t)get(b + 28, 4));
	uint32_t crc;

	if (how & 1) {
		memcpy(b, "EPDPACK1", 8);
		epd_put_le(b + 48, first, 8);
		epd_put_le(b + 56, n, 8);
	}
	if (how & 2 && first <= n) {
		memset(b + AT_CRC, 0, 4);
		crc = epd_crc32c(0, b, (size_t)first);
		epd_put_le(b + AT_CRC, crc, 4);
	}
}

/* Pages that it has by what it says; what it gives must have their sums. */
static void
ask(const struct epd_pack *p)
{
	static uint8_t room[ALL];
	struct epd_page_entry e[PAGES];
	void *out[PAGES] = { NULL };
	uint8_t had[PAGES] = { 0 };
	struct epd_lot lot = { .workflow = "w1", .run = 1,
		.shape = p->shape, .entry = e, .given = p->given };

	for (uint32_t i = 0; i < p->n && lot.n < PAGES; i++, lot.n++) {
		if ((uint64_t)(lot.n + 1) * p->shape.bytes > ALL)
			break;
		e[lot.n] = p->entry[i].page;
		out[lot.n] = room + (size_t)lot.n * p->shape.bytes;
	}
	if (!lot.n)
		return;
	if (epd_lower_ops(tier)->has(tier, &lot, UINT64_MAX, NULL) < 0 ||
	    epd_lower_ops(tier)->get(tier, &lot, out, had, UINT64_MAX, NULL) < 0)
		abort();
	for (long i = 0; i < lot.n; i++)
		if (had[i] && epd_xxh3_64(out[i], (size_t)p->shape.bytes) !=
		    e[i].sum)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_pack pack;
	uint64_t bytes, end;
	uint8_t *b;
	int how;

	if (n < 2)
		return 0;
	if (!m)
		begin();
	how = *p++;
	n--;
	/* Most of a front is zeros: they need not be in the input. */
	b = calloc(1, n + 3 * EPD_PACK_ALIGN);
	if (!b)
		abort();
	memcpy(b, p, n);
	if (how & 4)
		n = (n + 3 * EPD_PACK_ALIGN - 1) / EPD_PACK_ALIGN * EPD_PACK_ALIGN;
	if (n >= EPD_PACK_HEAD)
		mend(b, n, how);
	folder_put(w1, RUN, b, n);
	free(b);
	if (!epd_nvme_look(m, "w1", 1, &pack, &bytes, NULL)) {
		if (pack.manifest[pack.manifest_bytes] || pack.bytes != n ||
		    pack.first > n)
			abort();
		end = pack.first;
		for (uint32_t i = 0; i < pack.n; i++) {
			if (pack.entry[i].at < end ||
			    pack.entry[i].at + pack.entry[i].bytes > n)
				abort();
			end = pack.entry[i].at + pack.entry[i].bytes;
		}
		ask(&pack);
		epd_pack_free(&pack);
	}
	unlinkat(w1, RUN, 0);
	return 0;
}
