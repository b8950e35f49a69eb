/*
 * mount_fsx.h - operations at random on the mount, in every way that a program
 * may look at a file, each compared with what is known.
 */
#ifndef TESTS_MOUNT_FSX_H
#define TESTS_MOUNT_FSX_H

#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>

#include "tests/fs/mount_known.h"

enum { FSX_FDS = 12, FSX_ROOM = 1 << 20 };

struct fsx {
	uint64_t r;
	const struct mt_file *f;	/* the file of this step */
	int fd;				/* open on it */
	int held[FSX_FDS];		/* kept open from step to step */
	const struct mt_file *of[FSX_FDS];
	uint8_t *buf;
	int tmp, pipe_[2];
	const char *op;
};

static inline uint64_t
fsx_r(struct fsx *x, uint64_t below)
{
	x->r = mt_mix(x->r);
	return below ? (x->r >> 8) % below : 0;
}

#define FSX_BAD(x, fmt, ...) mt_bad("%s: %s: " fmt " (%s)", (x)->op, \
	(x)->f ? (x)->f->path : "", __VA_ARGS__, strerror(errno))

/* Whether n bytes at off are what the file holds there. */
static inline void
fsx_same(struct fsx *x, const void *p, ssize_t n, uint64_t off, size_t asked)
{
	const struct mt_file *f = x->f;
	size_t want = off >= f->n ? 0 : f->n - off < asked ? f->n - off : asked;

	if (n < 0 || (size_t)n != want)
		FSX_BAD(x, "%zd bytes at %llu of %zu, not %zu", n,
		    (unsigned long long)off, f->n, want);
	else if (want && memcmp(p, f->p + off, want))
		FSX_BAD(x, "%zu other bytes at %llu", want,
		    (unsigned long long)off);
}

/* A file that is no link, and a descriptor: one that is held, or a new one. */
static inline int
fsx_take(struct fsx *x)
{
	const uint64_t slot = fsx_r(x, FSX_FDS);

	if (x->held[slot] >= 0 && fsx_r(x, 3)) {
		x->f = x->of[slot];
		x->fd = x->held[slot];
		return 0;
	}
	do
		x->f = mt_file + fsx_r(x, (uint64_t)mt_files);
	while (x->f->is_link);
	x->fd = open(mt_path("%s", x->f->path), O_RDONLY | O_CLOEXEC);
	if (x->fd < 0) {
		FSX_BAD(x, "open gave %d", x->fd);
		return -1;
	}
	if (x->held[slot] >= 0)
		close(x->held[slot]);
	x->held[slot] = x->fd;
	x->of[slot] = x->f;
	return 0;
}

static inline uint64_t
fsx_off(struct fsx *x)
{
	switch (fsx_r(x, 8)) {
	case 0: return x->f->n;
	case 1: return x->f->n + fsx_r(x, 100000);
	case 2: return fsx_r(x, 64);
	case 3: return fsx_r(x, x->f->n + 1) & ~(uint64_t)4095;
	case 4: return (uint64_t)1 << (20 + fsx_r(x, 30));
	default: return fsx_r(x, x->f->n + 1);
	}
}

static inline size_t
fsx_len(struct fsx *x)
{
	return (size_t)(fsx_r(x, 4) ? fsx_r(x, 20000) : fsx_r(x, FSX_ROOM + 1));
}

/* ---- reading ---- */

static inline void
fsx_pread(struct fsx *x)
{
	const uint64_t off = fsx_off(x);
	const size_t n = fsx_len(x);

	fsx_same(x, x->buf, pread(x->fd, x->buf, n, (off_t)off), off, n);
}

static inline void
fsx_whole(struct fsx *x)
{
	const size_t chunk = 1 + (size_t)fsx_r(x, fsx_r(x, 2) ? 4000 : FSX_ROOM);
	uint64_t off = 0;
	ssize_t n;
	int fd = open(mt_path("%s", x->f->path), O_RDONLY | O_CLOEXEC);

	if (x->f->n / chunk > 2000) {
		close(fd);
		return;
	}
	while ((n = read(fd, x->buf, chunk)) > 0) {
		fsx_same(x, x->buf, n, off, chunk);
		off += (uint64_t)n;
	}
	if (n < 0 || off != x->f->n)
		FSX_BAD(x, "%llu bytes in all, not %zu",
		    (unsigned long long)off, x->f->n);
	close(fd);
}

static inline void
fsx_vector(struct fsx *x)
{
	const uint64_t off = fsx_off(x);
	const size_t a = fsx_len(x) / 2, b = fsx_len(x) / 2;
	struct iovec v[] = { { x->buf, a }, { x->buf + a, b } };

	fsx_same(x, x->buf, preadv2(x->fd, v, 2, (off_t)off, 0), off, a + b);
	if (fsx_r(x, 2))
		(void)posix_fadvise(x->fd, 0, 0, POSIX_FADV_DONTNEED);
	else
		(void)readahead(x->fd, (off64_t)off, 65536);
}

static inline void
fsx_map(struct fsx *x)
{
	const int shared = fsx_r(x, 2) ? MAP_SHARED : MAP_PRIVATE;
	const int prot = shared == MAP_PRIVATE ? PROT_READ | PROT_WRITE :
	    PROT_READ;
	size_t n = x->f->n, at;
	uint8_t *p;

	if (!n)
		return;
	p = mmap(NULL, n, prot, shared, x->fd, 0);
	if (p == MAP_FAILED) {
		/* What may change is not to be shared with. */
		if (errno != ENODEV || x->f->is_fixed || shared != MAP_SHARED)
			FSX_BAD(x, "mmap %s", shared == MAP_SHARED ? "shared" :
			    "private");
		return;
	}
	at = (size_t)fsx_r(x, n);
	if (prot & PROT_WRITE)
		p[at] ^= 0x55;
	if (n > 65536) {
		size_t from = (size_t)fsx_r(x, n - 65535);

		if (memcmp(p + from, x->f->p + from, at >= from &&
		    at < from + 65536 && prot & PROT_WRITE ? at - from :
		    65536))
			FSX_BAD(x, "mapped otherwise near %zu", from);
	} else if (memcmp(p, x->f->p, prot & PROT_WRITE ? at : n)) {
		FSX_BAD(x, "mapped otherwise, of %zu", n);
	}
	for (size_t i = n; i % 4096; i++)
		if (p[i]) {
			FSX_BAD(x, "not zero behind its end, at %zu", i);
			break;
		}
	if (mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED, x->fd, 0) !=
	    MAP_FAILED)
		FSX_BAD(x, "mapped to be written: %d", 1);
	munmap(p, n);
}

static inline void
fsx_direct(struct fsx *x)
{
	const uint64_t off = fsx_off(x) & ~(uint64_t)4095;
	const size_t n = (fsx_len(x) & ~(size_t)4095) + 4096;
	int fd = open(mt_path("%s", x->f->path), O_RDONLY | O_CLOEXEC |
	    O_DIRECT);

	if (n > FSX_ROOM || fd < 0) {
		if (fd < 0)
			FSX_BAD(x, "O_DIRECT: %d", fd);
		else
			close(fd);
		return;
	}
	fsx_same(x, x->buf, pread(fd, x->buf, n, (off_t)off), off, n);
	close(fd);
}

/* ---- moving ---- */

/* What came into the temporary file is as it should be. */
static inline void
fsx_came(struct fsx *x, ssize_t n, uint64_t off, size_t asked)
{
	if (n > 0 && pread(x->tmp, x->buf, (size_t)n, 0) != n)
		FSX_BAD(x, "%zd bytes did not come", n);
	/* These may stop short of the end, but not before it begins. */
	if (n > 0 && (size_t)n < asked)
		asked = (size_t)n;
	fsx_same(x, x->buf, n, off, asked);
	(void)!ftruncate(x->tmp, 0);
	(void)lseek(x->tmp, 0, SEEK_SET);
}

static inline void
fsx_send(struct fsx *x)
{
	off_t off = (off_t)fsx_off(x);
	const uint64_t from = (uint64_t)off;
	const size_t n = 1 + fsx_len(x) % FSX_ROOM;

	fsx_came(x, sendfile(x->tmp, x->fd, &off, n), from, n);
}

static inline void
fsx_splice(struct fsx *x)
{
	off64_t off = (off64_t)fsx_off(x);
	const uint64_t from = (uint64_t)off;
	const size_t n = 1 + fsx_len(x) % 60000;
	ssize_t got = splice(x->fd, &off, x->pipe_[1], NULL, n, 0), have = 0;

	while (have < got) {
		ssize_t more = read(x->pipe_[0], x->buf + have,
		    (size_t)(got - have));

		if (more <= 0)
			break;
		have += more;
	}
	fsx_same(x, x->buf, got, from, got > 0 && (size_t)got < n ?
	    (size_t)got : n);
}

static inline void
fsx_copy(struct fsx *x)
{
	off64_t off = (off64_t)fsx_off(x);
	const uint64_t from = (uint64_t)off;
	const size_t n = 1 + fsx_len(x) % FSX_ROOM;
	ssize_t got = copy_file_range(x->fd, &off, x->tmp, NULL, n, 0);

	/* The kernel copies between two file systems of one kind only. */
	if (got < 0 && (errno == EXDEV || errno == EOPNOTSUPP))
		return;
	fsx_came(x, got, from, n);
}

/* ---- asking ---- */

static inline void
fsx_seek(struct fsx *x)
{
	const off_t n = (off_t)x->f->n, at = n ? (off_t)fsx_r(x, (uint64_t)n) :
	    0;
	off_t got = lseek(x->fd, 0, SEEK_END);

	if (got != n)
		FSX_BAD(x, "SEEK_END gives %lld, not %zu", (long long)got,
		    x->f->n);
	if (n && (got = lseek(x->fd, at, SEEK_DATA)) != at)
		FSX_BAD(x, "SEEK_DATA of %lld gives %lld", (long long)at,
		    (long long)got);
	if (n && (got = lseek(x->fd, at, SEEK_HOLE)) != n)
		FSX_BAD(x, "SEEK_HOLE of %lld gives %lld", (long long)at,
		    (long long)got);
	if (lseek(x->fd, n + 1, SEEK_DATA) != -1 || errno != ENXIO)
		FSX_BAD(x, "SEEK_DATA behind %zu", x->f->n);
	lseek(x->fd, 0, SEEK_SET);
}

static inline void
fsx_stat(struct fsx *x)
{
	struct stat a, b;
	struct statx s;

	if (fstat(x->fd, &a) || stat(mt_path("%s", x->f->path), &b) ||
	    statx(AT_FDCWD, mt_path("%s", x->f->path),
	    AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &s)) {
		FSX_BAD(x, "stat, of %zu", x->f->n);
		return;
	}
	if (a.st_size != (off_t)x->f->n || b.st_size != a.st_size ||
	    s.stx_size != x->f->n || a.st_ino != b.st_ino ||
	    s.stx_ino != a.st_ino || a.st_mode != (S_IFREG | 0444) ||
	    a.st_nlink != 1 || a.st_mtim.tv_sec != b.st_mtim.tv_sec)
		FSX_BAD(x, "size %lld, %lld, %llu; mode %o, links %u",
		    (long long)a.st_size, (long long)b.st_size,
		    (unsigned long long)s.stx_size, a.st_mode,
		    (unsigned)a.st_nlink);
}

static inline void
fsx_xattr(struct fsx *x)
{
	const char *path = mt_path("%s", x->f->path);
	char v[256], want[32];
	ssize_t n = getxattr(path, "user.epd.checksum", v, sizeof v);

	if (!x->f->is_page) {
		if (n >= 0 || errno != ENODATA)
			FSX_BAD(x, "a checksum of %zd", n);
		return;
	}
	snprintf(want, sizeof want, "%016llx", (unsigned long long)x->f->sum);
	if (n != 16 || memcmp(v, want, 16))
		FSX_BAD(x, "checksum of %zd", n);
	if (getxattr(path, "user.epd.checksum", v, 8) != -1 ||
	    errno != ERANGE || getxattr(path, "user.epd.checksum", NULL, 0) !=
	    16)
		FSX_BAD(x, "its length, %d", 16);
	if (getxattr(path, "user.epd.tokens", v, sizeof v) != 2 ||
	    memcmp(v, "16", 2) || getxattr(path, "user.epd.tier", v,
	    sizeof v) != 3 || memcmp(v, "cpu", 3) ||
	    getxattr(path, "user.epd.leases", v, sizeof v) != 1 || *v != '0')
		FSX_BAD(x, "tokens, tier, leases: %.3s", v);
	if (getxattr(path, "user.epd.nope", v, sizeof v) != -1 ||
	    errno != ENODATA || setxattr(path, "user.epd.tokens", "1", 1, 0) !=
	    -1)
		FSX_BAD(x, "nope, or one set: %d", errno);
	if ((n = listxattr(path, v, sizeof v)) < 60 || v[n - 1])
		FSX_BAD(x, "a list of %zd", n);
}

static inline void
fsx_access(struct fsx *x)
{
	char path[1024];

	snprintf(path, sizeof path, "%s", mt_path("%s", x->f->path));
	if (access(path, R_OK) || !access(path, X_OK) || errno != EACCES)
		FSX_BAD(x, "access %d", R_OK);
	switch (fsx_r(x, 7)) {
	case 0:
		if (open(path, O_RDWR | O_CLOEXEC) != -1 || errno != EACCES)
			FSX_BAD(x, "opened, flags %x", O_RDWR);
		break;
	case 1:
		if (open(path, O_WRONLY | O_TRUNC | O_CLOEXEC) != -1)
			FSX_BAD(x, "opened, flags %x", O_TRUNC);
		break;
	case 2:
		if (open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600) != -1 ||
		    errno != EEXIST)
			FSX_BAD(x, "made, flags %x", O_EXCL);
		break;
	case 3:
		if (unlink(path) != -1 || errno != EPERM)
			FSX_BAD(x, "unlinked %d", 1);
		break;
	case 4:
		if (truncate(path, 0) != -1 || errno != EPERM)
			FSX_BAD(x, "cut to %d", 0);
		break;
	case 5:
		if (rename(path, mt_path("x")) != -1 || errno != EPERM)
			FSX_BAD(x, "renamed %d", 1);
		break;
	default:
		if (chmod(path, 0777) != -1 || errno != EPERM)
			FSX_BAD(x, "mode %o", 0777);
		break;
	}
}

static inline void
fsx_poll(struct fsx *x)
{
	struct pollfd p = { .fd = x->fd, .events = POLLIN };
	struct statvfs s;
	const char *name = strrchr(x->f->path, '/');
	const int grows = !x->f->is_fixed && !strcmp(name, "/text");
	int rc = poll(&p, 1, grows ? 0 : 5000);

	/* At the end of what may grow there is nothing to be read. */
	if ((rc != 1 || !(p.revents & POLLIN)) && !grows)
		FSX_BAD(x, "poll gave %d", rc);
	if (fstatvfs(x->fd, &s) || s.f_namemax != 255 || !s.f_blocks ||
	    s.f_bfree > s.f_blocks)
		FSX_BAD(x, "statfs, blocks %llu",
		    (unsigned long long)s.f_blocks);
}

/* ---- names ---- */

static inline void
fsx_link(struct fsx *x)
{
	char to[512];
	ssize_t n;

	do
		x->f = mt_file + fsx_r(x, (uint64_t)mt_files);
	while (!x->f->is_link);
	n = readlink(mt_path("%s", x->f->path), to, sizeof to);
	if (n != (ssize_t)x->f->n || memcmp(to, x->f->p, x->f->n))
		FSX_BAD(x, "leads to %.*s", (int)(n < 0 ? 0 : n), to);
	/* It leads to a page. */
	if (access(mt_path("%s", x->f->path), R_OK))
		FSX_BAD(x, "leads nowhere: %d", errno);
}

/* Where name i of a folder is among those read; telldir and back now and then. */
static inline void
fsx_list(struct fsx *x)
{
	const struct mt_folder *want = mt_folder + fsx_r(x,
	    (uint64_t)mt_folders);
	DIR *d = opendir(mt_path("%s", want->path));
	struct dirent *e;
	int found = 0, dots = 0, back = 0, more = 0;
	long at = -1;
	char seen[256] = "";

	x->f = NULL;
	x->op = want->path;
	if (!d) {
		FSX_BAD(x, "opendir of %d names", want->n);
		return;
	}
	for (; (e = readdir(d)); ) {
		if (back == 1 && strcmp(e->d_name, seen))
			FSX_BAD(x, "seekdir gave %s, not %s", e->d_name, seen);
		back += back == 1;
		if (*e->d_name == '.') {
			dots++;
		} else if (want->grows) {
			for (int i = 0; i < want->n; i++)
				if (!strcmp(want->name[i], e->d_name))
					found++, more--;
			more++;
		} else if (found >= want->n || strcmp(want->name[found],
		    e->d_name)) {
			more++;
		} else {
			found++;
		}
		if (at < 0 && !fsx_r(x, 6)) {	/* the next one, marked */
			at = telldir(d);
			if (!(e = readdir(d)))
				break;
			snprintf(seen, sizeof seen, "%s", e->d_name);
			seekdir(d, at);
			back = 1;
		}
	}
	if (found != want->n || dots != 2 || (more && !want->grows))
		FSX_BAD(x, "%d of %d, %d more, %d dots", found, want->n, more,
		    dots);
	if (fsx_r(x, 2)) {
		rewinddir(d);
		if (!(e = readdir(d)) || strcmp(e->d_name, "."))
			FSX_BAD(x, "rewound to %s", e ? e->d_name : "nothing");
	}
	closedir(d);
}

/* Names that are there, and names that only look so. */
static inline void
fsx_names(struct fsx *x)
{
	static const struct { const char *in, *name; int err; } all[] = {
		{ "workflows/known/states", "s1", 0 },
		{ "workflows/known/states", ".", 0 },
		{ "workflows/known/states", "s1/../s2/./versions/../tokens", 0 },
		{ "workflows/known/states", "s1/versions/2/../../../..", 0 },
		{ "workflows/known/states", "s01", ENOENT },
		{ "workflows/known/states", "s0", ENOENT },
		{ "workflows/known/states", "s", ENOENT },
		{ "workflows/known/states", "S1", ENOENT },
		{ "workflows/known/states", "s-1", ENOENT },
		{ "workflows/known/states", "s+1", ENOENT },
		{ "workflows/known/states", "s1 ", ENOENT },
		{ "workflows/known/states", " s1", ENOENT },
		{ "workflows/known/states", "s1\n", ENOENT },
		{ "workflows/known/states", "s1.", ENOENT },
		{ "workflows/known/states", "s4294967297", ENOENT },
		{ "workflows/known/states", "s18446744073709551617", ENOENT },
		{ "workflows/known/states", "s99999999999999999999999", ENOENT },
		{ "workflows/known/states", "s1/state.json/x", ENOTDIR },
		{ "workflows/known/states", "s1/state.json/..", ENOTDIR },
		{ "workflows/known/states", "s1/versions/0", ENOENT },
		{ "workflows/known/states", "s1/versions/01", ENOENT },
		{ "workflows/known/states", "s1/versions/4", ENOENT },
		{ "workflows/known/states", "s1/versions/x", ENOENT },
		{ "workflows/known/states", "s1/pages/0", ENOENT },
		{ "workflows/known/states", "s1/pages/00000", ENOENT },
		{ "workflows/known/states", "s1/pages/9999", ENOENT },
		{ "workflows/known/states", "s1/children/s1", ENOENT },
		{ "workflows/known/states", "s1/forks/x", ENOENT },
		{ "workflows/known/states", "s1/parent", ENOENT },
		{ "workflows", "known/../../workflows/known", 0 },
		{ "workflows", "..", 0 }, { "workflows", "../..", 0 },
		{ "workflows", "Known", ENOENT }, { "workflows", "know", ENOENT },
		{ "workflows", "known\xff", ENOENT }, { "workflows", "", ENOENT },
		{ "workflows", "%s%n%s", ENOENT }, { "workflows", "...", ENOENT },
		{ "pages", "0000", ENOENT }, { "features", "f:00", ENOENT },
		{ "pages", "..%2f", ENOENT }, { "tiers", "gpu", ENOENT },
		{ "", "store", ENOENT }, { "", ".fuse_hidden0001", ENOENT },
	};
	const size_t i = (size_t)fsx_r(x, sizeof all / sizeof *all + 3);
	const size_t n = sizeof all / sizeof *all;
	char name[300];
	int dir, fd, err = i < n ? all[i].err : i == n ? ENOENT :
	    i == n + 1 ? ENAMETOOLONG : ENOENT;

	x->f = NULL;
	snprintf(name, sizeof name, "%s", i < n ? all[i].name : "");
	if (i == n || i == n + 1) {
		memset(name, 'x', i == n ? 255 : 256);
		name[i == n ? 255 : 256] = '\0';
	} else if (i == n + 2) {	/* a page by its name in capitals */
		do
			x->f = mt_file + fsx_r(x, (uint64_t)mt_files);
		while (!x->f->is_page);
		snprintf(name, sizeof name, "%s", x->f->path + 6);
		for (char *p = name; *p; p++)
			*p = (char)(*p >= 'a' ? *p - 32 : *p);
		err = strcmp(name, x->f->path + 6) ? ENOENT : 0;
	}
	dir = open(mt_path("%s", i < n ? all[i].in : "pages"), O_RDONLY |
	    O_DIRECTORY | O_CLOEXEC);
	errno = 0;
	fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	if ((fd < 0 ? errno : 0) != err)
		FSX_BAD(x, "%.80s", name);
	if (fd >= 0)
		close(fd);
	close(dir);
}

/* ---- all of them ---- */

static const struct {
	const char *name;
	void (*fn)(struct fsx *x);
	int weight, needs;
} fsx_ops[] = {
	{ "pread", fsx_pread, 30, 1 }, { "read", fsx_whole, 5, 1 },
	{ "preadv2", fsx_vector, 8, 1 }, { "mmap", fsx_map, 10, 1 },
	{ "O_DIRECT", fsx_direct, 4, 1 }, { "sendfile", fsx_send, 5, 1 },
	{ "splice", fsx_splice, 5, 1 }, { "copy_file_range", fsx_copy, 3, 1 },
	{ "lseek", fsx_seek, 6, 1 }, { "stat", fsx_stat, 8, 1 },
	{ "xattr", fsx_xattr, 4, 1 }, { "access", fsx_access, 4, 1 },
	{ "poll", fsx_poll, 2, 1 }, { "readlink", fsx_link, 4, 0 },
	{ "readdir", fsx_list, 5, 0 }, { "names", fsx_names, 6, 0 },
};
enum { FSX_OPS = sizeof fsx_ops / sizeof *fsx_ops };

static inline int
fsx_begin(struct fsx *x, uint64_t seed)
{
	char path[160];

	*x = (struct fsx){ .r = seed, .pipe_ = { -1, -1 } };
	for (int i = 0; i < FSX_FDS; i++)
		x->held[i] = -1;
	snprintf(path, sizeof path, "%s/tmp.%d", mt.dir, (int)getpid());
	x->tmp = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	unlink(path);
	return x->tmp < 0 || pipe2(x->pipe_, O_CLOEXEC) < 0 ||
	    posix_memalign((void **)&x->buf, 4096, FSX_ROOM + 4096) ? -1 : 0;
}

static inline void
fsx_end(struct fsx *x)
{
	for (int i = 0; i < FSX_FDS; i++)
		if (x->held[i] >= 0)
			close(x->held[i]);
	close(x->tmp);
	close(x->pipe_[0]);
	close(x->pipe_[1]);
	free(x->buf);
}

static inline void
fsx_step(struct fsx *x)
{
	int all = 0, k = 0;
	int64_t at;

	for (int i = 0; i < FSX_OPS; i++)
		all += fsx_ops[i].weight;
	at = (int64_t)fsx_r(x, (uint64_t)all);
	while ((at -= fsx_ops[k].weight) >= 0)
		k++;
	x->op = fsx_ops[k].name;
	errno = 0;
	if (fsx_ops[k].needs && fsx_take(x) < 0)
		return;
	fsx_ops[k].fn(x);
	atomic_fetch_add(&mt.sh->ops, 1);
	atomic_fetch_add(&mt.sh->done[k], 1);
}

/* So many, or (0) until it is told to stop. */
static inline int
fsx_run(uint64_t seed, long n)
{
	struct fsx x;

	if (fsx_begin(&x, seed) < 0)
		return 1;
	for (long i = 0; n ? i < n : !atomic_load(&mt.sh->stop); i++)
		fsx_step(&x);
	fsx_end(&x);
	return 0;
}

/* By so many processes at once.  0 if all of them ended well. */
static inline int
fsx_all(int processes, long ops)
{
	pid_t pid[16];
	int bad = 0;

	for (int i = 0; i < processes; i++)
		if ((pid[i] = mt_fork()) == 0)
			_exit(fsx_run(mt_mix(mt.seed * 64 + (uint64_t)i),
			    ops / processes));
	for (int i = 0; i < processes; i++)
		bad |= mt_wait(pid[i], 1800000);
	return bad;
}

#endif
