/*
 * tier_index.c - the index of pages as a file of any bytes: opened, asked for
 * the names that stand in it, mended, written.  The first byte says whether
 * header and sums are put right, so that what lies behind them is reached too.
 */
#include <errno.h>
#include <sys/stat.h>

#include "tests/fuzz/folder.h"
#include "tier/tier.h"

#define HEX "ab0102030405060708090a0b0c0d0e0f"
#define OURS "shm/epd-" HEX
enum { SET = 1024, SLOT = 128, SETS = 15, SIZE = (SETS + 1) * SET };

static struct epd_memory *m, *eye;
static int ours;

static void
begin(void)
{
	char path[128], shm[128];
	uint8_t uuid[16];
	int top = folder();

	epd_hex_parse(uuid, 16, HEX);
	snprintf(path, sizeof path, "%s/lives", folder_path);
	snprintf(shm, sizeof shm, "%s/shm", folder_path);
	close(epd_dir_make(top, "lives"));
	if (epd_memory_open(&m, shm, uuid, path, 1 << 20, NULL) ||
	    epd_memory_look(&eye, shm, uuid, path, 1 << 20, NULL))
		abort();
	ours = epd_file_open(top, OURS, O_RDONLY | O_DIRECTORY, 0);
}

static void
put_le(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

/* Put right what only a writer of ours gets right. */
static void
mend(uint8_t *b, size_t n, int how)
{
	if (how & 1 && n >= SET) {
		memcpy(b, "EPDIDX1\n", 8);
		put_le(b + 8, 1, 4);
		if (how & 2)
			put_le(b + 12, n / SET - 1, 4);
		memset(b + 16, 0, 64);
		memcpy(b + 16, "epd-" HEX, 36);
		put_le(b + SET - 4, epd_crc32c(0, b, SET - 4), 4);
	}
	for (size_t at = SET; how & 4 && at + SLOT <= n; at += SLOT)
		put_le(b + at + 120, epd_xxh3_64(b + at, 120), 8);
}

/* Whether it gives a hint for the name, and one that makes sense. */
static int
asked(const struct epd_index *x, const uint8_t *name)
{
	struct epd_index_hit hit;
	struct epd_name key;
	int fd;

	memcpy(key.b, name, EPD_NAME);
	if (!epd_index_find(x, &key, &hit))
		return 0;
	if (!hit.run || !memchr(hit.workflow, 0, sizeof hit.workflow))
		abort();
	fd = epd_memory_find(m, hit.workflow);
	if (fd != -ENOENT)
		abort();
	return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static uint8_t b[SIZE];
	struct epd_page_entry e = { .rows = 16 };
	struct epd_index_hit hit;
	struct epd_index *x;
	struct stat st;
	int how;

	if (n < 1 || n > SIZE)
		return 0;
	if (!m)
		begin();
	how = *p;
	memset(b, 0, sizeof b);
	memcpy(b, p + 1, n - 1);
	/* Most of a good file is holes. */
	n = how & 8 ? SIZE : n - 1;
	mend(b, n, how);
	folder_put(ours, "pages", b, n);
	if (!epd_index_open(&x, eye)) {
		for (size_t at = SET; at + SLOT <= n; at += SLOT)
			(void)asked(x, b + at);
		epd_index_close(x);
	}
	if (epd_index_open(&x, m) || fstatat(ours, "pages", &st, 0) ||
	    st.st_size != SIZE)
		abort();
	for (size_t at = SET; at + SLOT <= n; at += SLOT) {
		(void)asked(x, b + at);
		memcpy(e.name.b, b + at, EPD_NAME);
		epd_index_put(x, "w1", 0x1234, 16, &e, 1);
		if (!epd_index_find(x, &e.name, &hit) || hit.run != 0x1234 ||
		    hit.at || strcmp(hit.workflow, "w1"))
			abort();
	}
	epd_index_close(x);
	return 0;
}
