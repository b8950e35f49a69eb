/*
 * memo.c - the memo: one file of 256 buckets of 4096 bytes, 51 slots each.
 *
 *	 0  32  key: hash of the file's identity and the model
 *	32  32  fp
 *	64  12  grid
 *	76   4  CRC32C of all before, begun from SEED
 *
 * A slot is read and written by one call and proves itself by its checksum, so
 * writers need no lock: of two that meet one is lost, which is a miss, and a
 * torn slot is an empty one.  A full bucket forgets a slot picked by the key.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "feature/inner.h"

enum {
	BUCKETS = 256, BUCKET = 4096, SLOT = 80, SLOTS = BUCKET / SLOT,
	SEED = 0x0ede0001,	/* another format is another seed */
};
static const int64_t young_ns = 2000000000;

static void
key_of(struct epd_name *out, const struct epd_memo_key *k,
    const struct epd_name *model)
{
	struct epd_namer n;

	epd_namer_begin(&n, "epd memo 1");
	epd_namer_add(&n, model->b, sizeof model->b);
	epd_namer_u64(&n, k->dev);
	epd_namer_u64(&n, k->ino);
	epd_namer_u64(&n, k->size);
	epd_namer_u64(&n, (uint64_t)k->mtime_ns);
	epd_namer_u64(&n, (uint64_t)k->ctime_ns);
	epd_namer_end(&n, out);
}

static int
valid(const uint8_t *slot)
{
	struct epd_cur c = epd_cur(epd_span(slot + SLOT - 4, 4));

	return epd_unpack_u32(&c) == epd_crc32c(SEED, slot, SLOT - 4);
}

static uint64_t
bucket_at(const struct epd_name *key)
{
	return (uint64_t)key->b[0] % BUCKETS * BUCKET;
}

/* A bucket; what the file does not have yet is zero, and so not valid. */
static int
read_bucket(int fd, const struct epd_name *key, uint8_t *b)
{
	ssize_t n;

	memset(b, 0, BUCKET);
	n = epd_file_pread(fd, b, BUCKET, bucket_at(key));
	return n < 0 ? (int)n : 0;
}

/* Index of the key's slot, or -1. */
static int
find(const uint8_t *b, const struct epd_name *key)
{
	for (int i = 0; i < SLOTS; i++)
		if (!memcmp(b + i * SLOT, key->b, EPD_NAME) &&
		    valid(b + i * SLOT))
			return i;
	return -1;
}

int
epd_memo_get(struct epd_features *c, const struct epd_memo_key *k,
    const struct epd_name *model, struct epd_memo *out)
{
	uint8_t b[BUCKET];
	struct epd_name key;
	struct epd_cur cur;
	int fd, rc, i;

	key_of(&key, k, model);
	fd = epd_file_open(c->dirfd, "memo", O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	rc = read_bucket(fd, &key, b);
	close(fd);
	if (rc)
		return rc;
	i = find(b, &key);
	if (i < 0)
		return 0;
	memcpy(out->fp.b, b + i * SLOT + EPD_NAME, EPD_NAME);
	cur = epd_cur(epd_span(b + i * SLOT + 2 * EPD_NAME, 12));
	for (int g = 0; g < 3; g++)
		out->grid[g] = epd_unpack_u32(&cur);
	epd_count(c->metrics, EPD_M_MM_MEMO_HIT, 1);
	return 1;
}

static void
put_u32(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static int
place(const uint8_t *b, const struct epd_name *key)
{
	int i = find(b, key);

	for (int k = 0; i < 0 && k < SLOTS; k++)
		if (!valid(b + k * SLOT))
			i = k;
	return i < 0 ? key->b[1] % SLOTS : i;
}

int
epd_memo_put(struct epd_features *c, const struct epd_memo_key *k,
    const struct epd_name *model, const struct epd_memo *m)
{
	int64_t newest = k->mtime_ns > k->ctime_ns ? k->mtime_ns : k->ctime_ns;
	uint8_t b[BUCKET], slot[SLOT];
	struct epd_name key;
	int fd, rc;

	if (newest > (int64_t)epd_clock_wall_ms() * 1000000 - young_ns)
		return 0;
	key_of(&key, k, model);
	memcpy(slot, key.b, EPD_NAME);
	memcpy(slot + EPD_NAME, m->fp.b, EPD_NAME);
	for (int g = 0; g < 3; g++)
		put_u32(slot + 2 * EPD_NAME + 4 * g, m->grid[g]);
	put_u32(slot + SLOT - 4, epd_crc32c(SEED, slot, SLOT - 4));
	fd = epd_file_open(c->dirfd, "memo", O_RDWR | O_CREAT | O_NONBLOCK,
	    0600);
	if (fd < 0)
		return fd;
	rc = read_bucket(fd, &key, b);
	if (!rc)
		rc = epd_file_pwrite(fd, slot, SLOT,
		    bucket_at(&key) + (uint64_t)(place(b, &key) * SLOT));
	close(fd);
	return rc;
}
