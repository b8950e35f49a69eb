/*
 * open.c - tokenizer.json from a directory, by way of a compiled form kept in
 * a cache where there is one.
 *
 * The model's directory is one a person named, so symbolic links in it are
 * followed: Hugging Face's own cache is made of them.
 *
 * 1. A flat form is used only if it was made from a file of the same identity.
 * 2. It is kept only if that identity could not have hidden a change: the same
 *    before and after reading, and older than the clock's coarseness.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "engine/token/flat.h"

enum {
	MOST = 128 << 20,	/* bytes of a tokenizer.json */
	SETTLED_MS = 50		/* times of files go by the kernel's tick */
};

static uint64_t
ns(struct timespec t)
{
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int
identify(int fd, struct epd_flat_key *key, struct epd_why *why)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (!S_ISREG(st.st_mode))
		return epd_why(why, EPD_EFORMAT,
		    "tokenizer.json is not a regular file");
	*key = (struct epd_flat_key){
		.dev = st.st_dev, .ino = st.st_ino,
		.size = (uint64_t)st.st_size,
		.mtime_ns = ns(st.st_mtim), .ctime_ns = ns(st.st_ctim),
	};
	return 0;
}

static int
is_same(const struct epd_flat_key *a, const struct epd_flat_key *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	    a->mtime_ns == b->mtime_ns && a->ctime_ns == b->ctime_ns;
}

static int
open_file(int dirfd, struct epd_flat_key *key, struct epd_why *why)
{
	int fd, rc;

	do
		fd = openat(dirfd, "tokenizer.json",
		    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	if (fd < 0) {
		rc = -errno;
		return epd_why(why, rc, "tokenizer.json: %s", epd_strerror(rc));
	}
	rc = identify(fd, key, why);
	if (rc) {
		close(fd);
		return rc;
	}
	return fd;
}

static int
compile(struct epd_buf *flat, int fd, const struct epd_flat_key *key,
    struct epd_why *why)
{
	struct epd_buf json = { 0 };
	int rc = epd_file_slurp(fd, MOST, &json);

	if (rc)
		rc = epd_why(why, rc, "tokenizer.json: %s", epd_strerror(rc));
	else
		rc = epd_flat_compile(flat, epd_span(json.p, json.n), key,
		    why);
	epd_buf_free(&json);
	return rc;
}

static void
unmap(void *base, size_t n)
{
	munmap(base, n);
}

/* Nothing said of why not: the tokenizer is built anew then. */
static int
open_flat(struct epd_tokenizer **out, int cachefd, const char *name,
    const struct epd_flat_key *key)
{
	int fd = epd_file_open(cachefd, name, O_RDONLY | O_NONBLOCK, 0);
	struct epd_tokenizer *t;
	struct stat st;
	void *base;
	size_t n;
	int rc;

	if (fd < 0)
		return fd;
	base = MAP_FAILED;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size > 0 &&
	    st.st_size <= INT32_MAX)
		base = mmap(NULL, (size_t)st.st_size, PROT_READ,
		    MAP_PRIVATE | MAP_POPULATE, fd, 0);
	close(fd);
	if (base == MAP_FAILED)
		return -ENODATA;
	n = (size_t)st.st_size;
	rc = epd_flat_adopt(&t, base, n, unmap);
	if (rc) {
		munmap(base, n);
		return rc;
	}
	if (!is_same(&t->head->key, key)) {
		epd_tokenizer_close(t);
		return -ESTALE;
	}
	*out = t;
	return 0;
}

static void
keep_flat(int cachefd, const char *name, int fd,
    const struct epd_flat_key *key, const struct epd_buf *flat)
{
	struct epd_span part = epd_span(flat->p, flat->n);
	struct epd_flat_key after;

	if (identify(fd, &after, NULL) || !is_same(key, &after) ||
	    epd_clock_wall_ms() - key->ctime_ns / 1000000 < SETTLED_MS)
		return;
	(void)epd_file_replace(cachefd, name, &part, 1, 0);
}

int
epd_tokenizer_open_cached(struct epd_tokenizer **out, int dirfd,
    int cachefd, const char *name, struct epd_why *why)
{
	struct epd_buf flat = { 0 };
	struct epd_flat_key key;
	int fd = open_file(dirfd, &key, why), rc;

	if (fd < 0)
		return fd;
	if (cachefd >= 0 && !open_flat(out, cachefd, name, &key)) {
		close(fd);
		return 0;
	}
	rc = compile(&flat, fd, &key, why);
	if (!rc && cachefd >= 0)
		keep_flat(cachefd, name, fd, &key, &flat);
	close(fd);
	if (!rc)
		rc = epd_flat_adopt(out, flat.p, flat.n, epd_flat_free);
	if (rc)
		epd_buf_free(&flat);
	return rc;
}

int
epd_tokenizer_open(struct epd_tokenizer **out, int dirfd, struct epd_why *why)
{
	return epd_tokenizer_open_cached(out, dirfd, -1, NULL, why);
}
