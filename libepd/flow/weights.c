/*
 * weights.c - the snapshot id of a checkpoint: a hash of its weights, taken once.
 *
 * cache/weights-HEX remembers what a file hashed to, under its identity
 * (device, inode, size, mtime, ctime): the hash, then the XXH3-64 of identity
 * and hash, since a crash may leave a file of zeros.  A file changed within the
 * last two seconds is not remembered, since its next change might not show in
 * its times.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/hash.h"
#include "flow/inner.h"

static uint64_t
ns_of(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void
identity(const struct stat *st, char file[48])
{
	struct epd_namer n;
	struct epd_name name;
	char hex[33];

	epd_namer_begin(&n, "epd weights file");
	epd_namer_u64(&n, st->st_dev);
	epd_namer_u64(&n, st->st_ino);
	epd_namer_u64(&n, (uint64_t)st->st_size);
	epd_namer_u64(&n, ns_of(st->st_mtim));
	epd_namer_u64(&n, ns_of(st->st_ctim));
	epd_namer_end(&n, &name);
	epd_hex_format(hex, name.b, 16);
	snprintf(file, 48, "weights-%s", hex);
}

/* What a memo holds. */
static void
memo_of(const char *file, const uint8_t hash[16], uint8_t out[24])
{
	uint8_t all[64] = {0};
	uint64_t sum;

	memcpy(all, hash, 16);
	memcpy(all + 16, file, strlen(file));
	sum = epd_xxh3_64(all, sizeof all);
	memcpy(out, hash, 16);
	for (int i = 0; i < 8; i++)
		out[16 + i] = (uint8_t)(sum >> 8 * i);
}

int
epd_file_settled(const struct stat *st)
{
	uint64_t now = epd_clock_wall_ms() * 1000000u, c = ns_of(st->st_ctim);

	return now > c && now - c > 2000000000u;
}

/* The XXH3-128 of one weight file. */
static int
hash_file(struct epd_store *s, int dirfd, const char *name,
    struct epd_span bytes, uint8_t out[16])
{
	struct epd_buf b = {0};
	struct stat st;
	int old;
	uint8_t want[24];
	struct epd_span part = { want, sizeof want };
	char memo[48];
	int rc, known;

	if (fstatat(dirfd, name, &st, 0) < 0)
		return -errno;
	/* Judged now: hashing takes long enough to make any file look old. */
	old = epd_file_settled(&st);
	identity(&st, memo);
	rc = epd_file_read(s->cache, memo, 64, &b);
	known = rc >= 0 && b.n == sizeof want;
	if (known) {
		memo_of(memo, b.p, want);
		known = !memcmp(want, b.p, sizeof want);
	}
	epd_buf_free(&b);
	if (known) {
		memcpy(out, want, 16);
		return 0;
	}
	epd_xxh3_128(out, bytes.p, bytes.n);
	memo_of(memo, out, want);
	if (old)
		/* A memo that cannot be kept costs time only. */
		(void)epd_file_replace(s->cache, memo, &part, 1, 0);
	return 0;
}

int
epd_weights_snapshot(struct epd_store *s, const struct epd_model *m,
    char hex[33], struct epd_why *why)
{
	struct epd_namer n;
	struct epd_name name;
	struct epd_span bytes;
	const char *file;
	uint8_t sum[16];
	int rc;

	epd_namer_begin(&n, "epd weights");
	for (int i = 0; (bytes = epd_model_file(m, i, &file)).n; i++) {
		rc = hash_file(s, epd_model_dirfd(m), file, bytes, sum);
		if (rc < 0)
			return epd_why(why, rc, "%s/%s: %s", epd_model_path(m),
			    file, epd_strerror(rc));
		epd_namer_add(&n, sum, sizeof sum);
	}
	epd_namer_end(&n, &name);
	epd_hex_format(hex, name.b, 16);
	return 0;
}
