/*
 * feature_memo.c - the memo's bucket of one file and model, after two bytes: as
 * it is, cut short, or with one slot named after the file and all checksums put
 * right.  What is found is what a whole slot says; what is noted is found, and
 * costs at most one other slot.
 */
#include <stdio.h>

#include "feature/inner.h"
#include "tests/fuzz/folder.h"

enum {
	FILE_SIZE = 256 * 4096, BUCKET = 4096, SLOT = 80, SLOTS = 51,
	SEED = 0x0ede0001,
	NAMED = 1, SUMMED = 2, SHORT = 4,	/* bits of the first byte */
};

static const struct epd_memo_key file = {
	.dev = 1, .ino = 2, .size = 3, .mtime_ns = 4, .ctime_ns = 5,
};
static const struct epd_name model = { { 7 } };
static const struct epd_memo noted = { { { 9 } }, { 1, 2, 4 } };

static struct epd_features *c;
static int fd;			/* of the memo */
static uint8_t key[EPD_NAME];
static off_t at;		/* of the bucket */

/* The key and its bucket, as the room itself writes them. */
static void
learn(void)
{
	static uint8_t all[FILE_SIZE];
	struct epd_features_options o = { .sync = 0 };
	char path[128];
	ssize_t n;

	if (epd_features_open(&c, folder(), &o) ||
	    epd_memo_put(c, &file, &model, &noted))
		abort();
	snprintf(path, sizeof path, "%s/features/memo", folder_path);
	fd = open(path, O_RDWR | O_CLOEXEC);
	n = epd_file_pread(fd, all, sizeof all, 0);
	for (at = 0; at < n && !all[at]; at++)
		continue;
	n = at % BUCKET / SLOT * SLOT;
	at = at / BUCKET * BUCKET;
	memcpy(key, all + at + n, sizeof key);
}

static uint32_t
get32(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
	    (uint32_t)p[3] << 24;
}

static int
whole(const uint8_t *slot)
{
	return get32(slot + SLOT - 4) == epd_crc32c(SEED, slot, SLOT - 4);
}

static void
fill(uint8_t b[BUCKET], const uint8_t *p, size_t n, int how, int which)
{
	memset(b, 0, BUCKET);
	memcpy(b, p, n < BUCKET ? n : BUCKET);
	if (how & NAMED)
		memcpy(b + which % SLOTS * SLOT, key, sizeof key);
	for (int i = 0; how & SUMMED && i < SLOTS; i++) {
		uint32_t crc = epd_crc32c(SEED, b + i * SLOT, SLOT - 4);

		for (int k = 0; k < 4; k++)
			b[i * SLOT + SLOT - 4 + k] = (uint8_t)(crc >> 8 * k);
	}
}

/* What is in b is what the room finds. */
static void
look(const uint8_t b[BUCKET])
{
	struct epd_memo m;
	int rc = epd_memo_get(c, &file, &model, &m), found = 0;

	for (int i = 0; i < SLOTS && !found; i++) {
		const uint8_t *slot = b + i * SLOT;

		if (memcmp(slot, key, sizeof key) || !whole(slot))
			continue;
		found = 1;
		if (rc != 1 || memcmp(m.fp.b, slot + EPD_NAME, EPD_NAME))
			abort();
		for (int g = 0; g < 3; g++)
			if (m.grid[g] != get32(slot + 2 * EPD_NAME + 4 * g))
				abort();
	}
	if (rc != found)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	uint8_t b[BUCKET], after[BUCKET] = { 0 };
	int free_slots = 0, lost = 0;
	struct epd_memo m;
	size_t len = BUCKET;

	if (!c)
		learn();
	if (n < 2)
		return 0;
	fill(b, p + 2, n - 2, p[0], p[1]);
	if (p[0] & SHORT && n - 2 < BUCKET) {
		len = n - 2;
		memset(b + len, 0, BUCKET - len);
	}
	if (ftruncate(fd, 0) || ftruncate(fd, at + (off_t)len) ||
	    epd_file_pwrite(fd, b, len, (uint64_t)at))
		abort();
	look(b);
	if (epd_memo_put(c, &file, &model, &noted) ||
	    epd_memo_get(c, &file, &model, &m) != 1 ||
	    !epd_name_equal(&m.fp, &noted.fp) ||
	    memcmp(m.grid, noted.grid, sizeof m.grid))
		abort();
	if (epd_file_pread(fd, after, BUCKET, (uint64_t)at) < SLOT)
		abort();
	for (int i = 0; i < SLOTS; i++) {
		const uint8_t *was = b + i * SLOT;

		free_slots += !whole(was) || !memcmp(was, key, sizeof key);
		if (memcmp(was, after + i * SLOT, SLOT))
			lost += whole(was) && memcmp(was, key, sizeof key);
	}
	if (lost > (free_slots == 0))
		abort();
	return 0;
}
