/*
 * store_files.c - the small files of a store, the first byte saying which: what
 * marks it, its counters, a lock's holder, and the path in its memory folder.
 * The second byte says how: as they are, or laid over a sound one and perhaps
 * cut short; of the memory folder, what lies in it and who may.
 */
#include <errno.h>
#include <sys/stat.h>

#include "base/lock.h"
#include "tests/fuzz/store.h"
#include "tier/tier.h"

#define HEX "00112233445566778899aabbccddeeff"
#define OTHER "ffeeddccbbaa99887766554433221100"
static const char mark[] = "epd-store 1\nuuid " HEX "\n";

/* The bytes p laid over a sound file's, which they may outgrow. */
static void
lay(struct epd_buf *b, const void *sound, size_t size, const uint8_t *p, size_t n)
{
	epd_buf_put(b, sound, size);
	for (size_t i = 0; i < n && i < size; i++)
		b->p[i] ^= p[i];
	if (n > size)
		epd_buf_put(b, p + size, n - size);
}

static void
marked(int top, const uint8_t *p, size_t n, int how)
{
	struct epd_config config;
	char path[128], name[64];
	struct epd_store_options o = { .path = path, .config = &config };
	struct epd_buf b = { 0 }, after = { 0 };
	struct epd_why why = { "" };
	struct epd_store *s = NULL;
	int dir = epd_dir_make(top, "marked"), rc;

	o.create = how >> 1 & 1;
	epd_config_default(&config);
	snprintf(config.memory_dir, sizeof config.memory_dir, "%s/memory",
	    folder_path);
	snprintf(path, sizeof path, "%s/marked", folder_path);
	if (how & 1)
		lay(&b, mark, sizeof mark - 1, p, n);
	else
		epd_buf_put(&b, p, n);
	folder_put(dir, "store", b.p, b.n);
	rc = epd_store_open(&s, &o, &why);
	if (rc && ((rc != EPD_ECORRUPT && rc != EPD_EKIND) || !why.text[0]))
		abort();
	if (!rc) {
		char hex[33];

		epd_hex_format(hex, s->uuid, 16);
		if (b.n != sizeof mark - 1 || memcmp(b.p, mark, 17) ||
		    strncasecmp((char *)b.p + 17, hex, 32))
			abort();
		snprintf(name, sizeof name, "memory/epd-%s", hex);
		epd_store_close(s);
		epd_file_remove(top, name);
	}
	if (epd_file_read(dir, "store", 1 << 20, &after) || after.n != b.n ||
	    (b.n && memcmp(after.p, b.p, b.n)))
		abort();
	epd_buf_free(&after);
	epd_buf_free(&b);
	close(dir);
}

/* What reads the counters and no more: m's are those of the file, if it is fit. */
static struct epd_metrics *
copied(int dir, const struct epd_buf *b)
{
	struct epd_buf after = { 0 };
	struct epd_metrics *m;

	if (epd_metrics_read(&m, dir))
		abort();
	epd_count(m, EPD_M_MM_MISS, 1);
	if (epd_file_read(dir, "metrics", 1 << 20, &after) ||
	    after.n != b->n || (b->n && memcmp(after.p, b->p, b->n)))
		abort();
	epd_buf_free(&after);
	return m;
}

static void
counters(int top, const uint8_t *p, size_t n, int how)
{
	static struct epd_buf sound;
	struct epd_metrics *m, *again, *copy;
	struct epd_buf b = { 0 };
	uint64_t was;
	int dir = epd_dir_make(top, "counters");

	if (!sound.n) {
		if (epd_metrics_open(&m, dir))
			abort();
		epd_metrics_close(m);
		if (epd_file_read(dir, "metrics", 1 << 20, &sound))
			abort();
	}
	if (how & 1)
		lay(&b, sound.p, sound.n, p, n);
	else
		epd_buf_put(&b, p, n);
	if (how & 2 && n < b.n)
		b.n = n;
	unlinkat(dir, "metrics", 0);
	folder_put(dir, "metrics", b.p, b.n);
	copy = copied(dir, &b);
	if (epd_metrics_open(&m, dir) || epd_metrics_open(&again, dir))
		abort();
	for (enum epd_metric i = 0; i < EPD_M_COUNT; i++)
		if (epd_metrics_get(copy, i) != epd_metrics_get(m, i) +
		    (i == EPD_M_MM_MISS))
			abort();
	epd_metrics_close(copy);
	was = epd_metrics_get(m, EPD_M_MM_HIT);
	epd_count(m, EPD_M_MM_HIT, 1);
	if (epd_metrics_get(again, EPD_M_MM_HIT) != was + 1)
		abort();
	if (was && (b.n != sound.n || memcmp(b.p, sound.p, 64)))
		abort();
	epd_metrics_close(again);
	epd_metrics_close(m);
	epd_buf_free(&b);
	close(dir);
}

static void
holder(int top, const uint8_t *p, size_t n)
{
	struct epd_why why = { "" };
	int a, b;

	folder_put(top, "lock", p, n);
	a = openat(top, "lock", O_RDWR | O_CLOEXEC);
	b = openat(top, "lock", O_RDWR | O_CLOEXEC);
	if (epd_lock_try(a) || epd_lock_take(b, 0, &why) != EPD_ELOCKED)
		abort();
	if (strncmp(why.text, "held by ", 8) ||
	    strspn(why.text + 8, "abcdefghijklmnopqrstuvwxyz 0123456789") !=
	    strlen(why.text + 8))
		abort();
	close(a);
	close(b);
}

#define OURS "shm/epd-" HEX

/* To look makes and writes nothing, whatever lies in the place of w/. */
static void
looked_at(int top, const char *shm, const uint8_t uuid[16], const char *path,
    const uint8_t *p, size_t n, int how)
{
	struct epd_buf b = { 0 };
	struct epd_memory *m;
	int fd;

	if (epd_file_remove(top, OURS "/w"))
		abort();
	if (how % 4 == 1)
		close(epd_dir_make(top, OURS "/w/w1"));
	if (how % 4 == 2)
		folder_put(top, OURS "/w", p, n);
	if (how % 4 == 3 && symlinkat("epd-" OTHER "/w", top, OURS "/w"))
		abort();
	if (how & 4 && fchmodat(top, OURS, 0755, 0))
		abort();
	if (epd_memory_look(&m, shm, uuid, path, 1 << 20, NULL))
		abort();
	fd = epd_memory_find(m, "w1");
	if (fd >= 0 ? how % 8 != 1 : fd != -ENOENT)
		abort();
	if (fd >= 0)
		close(fd);
	if (epd_memory_dir(m, "w2") >= 0 || (how % 4 == 0 &&
	    !faccessat(top, OURS "/w", F_OK, 0)))
		abort();
	epd_memory_close(m);
	if (epd_file_read(top, OURS "/store", 1 << 20, &b) || b.n != n ||
	    (n && memcmp(b.p, p, n)))
		abort();
	epd_buf_free(&b);
	if (fchmodat(top, OURS, 0700, 0) || epd_file_remove(top, OURS "/w"))
		abort();
}

static void
folders(int top, const uint8_t *p, size_t n, int how)
{
	uint8_t uuid[16];
	char path[128], shm[128];
	struct epd_buf b = { 0 };
	struct epd_memory *m;
	struct stat st;

	epd_hex_parse(uuid, 16, HEX);
	snprintf(path, sizeof path, "%s/lives", folder_path);
	snprintf(shm, sizeof shm, "%s/shm", folder_path);
	close(epd_dir_make(top, "lives"));
	close(epd_dir_make(top, OURS));
	close(epd_dir_make(top, "shm/epd-" OTHER "/w/w1"));
	folder_put(top, "lives/store", mark, sizeof mark - 1);
	folder_put(top, OURS "/store", p, n);
	folder_put(top, "shm/epd-" OTHER "/store", p, n);
	looked_at(top, shm, uuid, path, p, n, how);
	if (epd_memory_open(&m, shm, uuid, path, 1 << 20, NULL))
		abort();
	epd_memory_close(m);
	if (epd_memory_sweep(shm, NULL, NULL) < 0)
		abort();
	/* Ours has been signed, or is another's and then a new one has. */
	if (epd_file_read(top, OURS "/store", 8192, &b) ||
	    b.n != strlen(path) || memcmp(b.p, path, b.n))
		abort();
	if (!fstatat(top, "shm/epd-" OTHER, &st, 0) && !n)
		abort();
	epd_buf_free(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int top = folder();

	if (n < 2)
		return 0;
	switch (p[0] % 4) {
	case 0: marked(top, p + 2, n - 2, p[1]); break;
	case 1: counters(top, p + 2, n - 2, p[1]); break;
	case 2: holder(top, p + 2, n - 2); break;
	default: folders(top, p + 2, n - 2, p[1]);
	}
	return 0;
}
