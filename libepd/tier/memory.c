/*
 * memory.c - the memory tier's folder: claimed, handed out by workflow, swept.
 * Making room in it is in fit.c, what lies in it and is not ours in strange.c;
 * tier.h draws it.
 *
 * Invariants
 * 1. /dev/shm is everybody's: a folder counts as ours only after it was opened
 *    without following a link and seen to be ours and shut to others.
 * 2. A folder names its store before anything is put in it; one that does not
 *    yet is swept only when it is old.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "page/page.h"
#include "tier/inner.h"

#define SHM "/dev/shm"
#define PREFIX "epd-"
enum { PATH_MOST = 4096, YOUNG_S = 60 };

static int
shm_usable(void)
{
	struct statfs fs;

	return !statfs(SHM, &fs) && fs.f_type == TMPFS_MAGIC &&
	    !access(SHM, W_OK | X_OK);
}

static int
open_parent(const char *dir, const char *store_path, int make,
    struct epd_why *why)
{
	struct epd_buf path = { 0 };
	int fd;

	if (!*dir && shm_usable())
		dir = SHM;
	if (*dir) {
		epd_buf_str(&path, dir);
	} else {
		epd_buf_str(&path, store_path);
		epd_buf_str(&path, "/memory");
	}
	epd_buf_cstr(&path);
	fd = path.failed ? -ENOMEM : epd_dir_root((const char *)path.p, make);
	if (fd < 0)
		epd_why(why, fd, "%s: %s", path.failed ? dir :
		    (const char *)path.p, epd_strerror(fd));
	epd_buf_free(&path);
	return fd;
}

/* Open name in parent if it is a folder that only we can have filled. */
static int
open_ours(int parent, const char *name, struct epd_why *why)
{
	struct stat st;
	int fd = openat(parent, name,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd < 0 && (errno == ELOOP || errno == ENOTDIR))
		return epd_why(why, -EPERM, "%s: not a folder of ours", name);
	if (fd < 0)
		return epd_why(why, -errno, "%s: %s", name, strerror(errno));
	if (fstat(fd, &st)) {
		int rc = -errno;

		close(fd);
		return rc;
	}
	if (st.st_uid != geteuid() || st.st_mode & 077) {
		close(fd);
		return epd_why(why, -EPERM, "%s: belongs to user %u, mode %03o; "
		    "it has to be one's own, mode 700", name,
		    (unsigned)st.st_uid, (unsigned)st.st_mode & 0777);
	}
	return fd;
}

/* Write the store's path, unless it is there; a folder in its place goes. */
static int
sign(int dirfd, const char *store_path)
{
	struct epd_span part = epd_span_str(store_path);
	struct epd_buf b = { 0 };
	int rc = epd_file_read(dirfd, "store", PATH_MOST, &b);

	if (rc == -EISDIR)
		(void)epd_file_remove(dirfd, "store");
	if (rc || b.n != part.n || memcmp(b.p, part.p, part.n))
		rc = rc == -ENOMEM ? rc :
		    epd_file_replace(dirfd, "store", &part, 1, 0);
	epd_buf_free(&b);
	return rc;
}

/* Whether the store at path says it has this UUID; unsure counts as yes. */
static int
store_lives(const char *path, const char *hex)
{
	const char *const file[] = { "store", "uuid" };
	struct epd_buf b = { 0 };
	int fd = epd_dir_root(path, 0), rc = -ENOENT, lives;

	if (fd < 0)
		return fd != -ENOENT && fd != -ENOTDIR;
	for (size_t i = 0; rc == -ENOENT && i < 2; i++)
		rc = epd_file_read(fd, file[i], PATH_MOST, &b);
	close(fd);
	lives = rc ? rc != -ENOENT : strstr(epd_buf_cstr(&b), hex) != NULL;
	if (b.failed)
		lives = 1;
	epd_buf_free(&b);
	return lives;
}

/*
 * Whether the folder is that of another store that lives: a copy of ours, or the
 * one that ours is a copy of, with the same UUID.
 */
static int
anothers(const struct epd_memory *m, const char *name)
{
	char hex[33] = "";
	struct epd_buf b = { 0 };
	struct stat ours, theirs;
	int fd = open_ours(m->parent, name, NULL), other = 0;

	if (fd < 0)
		return 0;
	memcpy(hex, m->name + strlen(PREFIX), 32);
	if (!epd_file_read(fd, "store", PATH_MOST, &b) &&
	    !stat(epd_buf_cstr(&b), &theirs) && !stat(m->store_path, &ours))
		other = (ours.st_dev != theirs.st_dev ||
		    ours.st_ino != theirs.st_ino) &&
		    store_lives(epd_buf_cstr(&b), hex);
	epd_buf_free(&b);
	close(fd);
	return other;
}

/* The folder's name: by the UUID, and by the store's place too if that is taken. */
static void
choose(struct epd_memory *m)
{
	char own[EPD_MEMORY_NAME];
	struct stat st;

	if (stat(m->store_path, &st))
		return;
	snprintf(own, sizeof own, "%.36s-%016" PRIx64, m->name,
	    (uint64_t)st.st_ino ^ (uint64_t)st.st_dev << 40);
	if (!faccessat(m->parent, own, F_OK, AT_SYMLINK_NOFOLLOW) ||
	    anothers(m, m->name))
		memcpy(m->name, own, sizeof own);
}

static void
close_folder(struct epd_memory *m)
{
	if (m->w >= 0)
		close(m->w);
	if (m->dir >= 0)
		close(m->dir);
	m->w = m->dir = -1;
}

/* A folder of that name; what stands in its way, and is none, goes. */
static int
make_folder(int at, const char *name)
{
	int fd = epd_dir_make(at, name);

	if ((fd == -ENOTDIR || fd == -ELOOP) && !unlinkat(at, name, 0))
		fd = epd_dir_make(at, name);
	return fd;
}

/* The folder, made and signed, and w/ in it. */
static int
claim(struct epd_memory *m, struct epd_why *why)
{
	int fd, w, rc;

	if (mkdirat(m->parent, m->name, 0700) && errno != EEXIST)
		return epd_why(why, -errno, "%s: %s", m->name,
		    strerror(errno));
	fd = open_ours(m->parent, m->name, why);
	if (fd < 0)
		return fd;
	rc = sign(fd, m->store_path);
	w = rc ? rc : make_folder(fd, "w");
	if (w < 0) {
		close(fd);
		return epd_why(why, w, "%s: %s", m->name, epd_strerror(w));
	}
	close_folder(m);
	m->dir = fd;
	m->w = w;
	return 0;
}

/* A handle with nothing open, or NULL without memory. */
static struct epd_memory *
begin(const uint8_t store_uuid[16], const char *store_path, uint64_t cap)
{
	struct epd_memory *m = epd_calloc(1, sizeof *m);

	if (!m)
		return NULL;
	m->w = m->dir = m->parent = -1;
	m->cap = cap;
	memcpy(m->name, PREFIX, strlen(PREFIX));
	epd_hex_format(m->name + strlen(PREFIX), store_uuid, 16);
	m->store_path = epd_strdup(store_path);
	if (!m->store_path) {
		epd_free(m);
		return NULL;
	}
	return m;
}

static int
path_ok(const char *store_path, struct epd_why *why)
{
	if (store_path[0] == '/' && strlen(store_path) <= PATH_MOST)
		return 0;
	return epd_why(why, -EINVAL, "%s: not an absolute path", store_path);
}

int
epd_memory_open(struct epd_memory **out, const char *dir,
    const uint8_t store_uuid[16], const char *store_path, uint64_t cap,
    struct epd_why *why)
{
	struct epd_memory *m;
	int rc = path_ok(store_path, why);

	if (rc)
		return rc;
	m = begin(store_uuid, store_path, cap);
	if (!m)
		return -ENOMEM;
	m->parent = open_parent(dir, store_path, 1, why);
	if (m->parent >= 0)
		choose(m);
	rc = m->parent < 0 ? m->parent : claim(m, why);
	if (rc) {
		epd_memory_close(m);
		return rc;
	}
	*out = m;
	return 0;
}

/* Nothing is there, or nothing of ours; what of another's may be shut to us. */
static int
counts_as_empty(int rc, const char *store_path)
{
	struct stat st;

	return rc == -ENOENT || rc == -ENOTDIR || rc == -EPERM ||
	    rc == -ELOOP || (rc == -EACCES && !stat(store_path, &st) &&
	    st.st_uid != geteuid());
}

int
epd_memory_look(struct epd_memory **out, const char *dir,
    const uint8_t store_uuid[16], const char *store_path, uint64_t cap,
    struct epd_why *why)
{
	struct epd_why what = { "" };
	struct epd_memory *m;
	int rc = path_ok(store_path, why);

	if (rc)
		return rc;
	m = begin(store_uuid, store_path, cap);
	if (!m)
		return -ENOMEM;
	m->look = 1;
	m->parent = open_parent(dir, store_path, 0, &what);
	rc = m->parent;
	if (rc >= 0) {
		choose(m);
		rc = m->dir = open_ours(m->parent, m->name, &what);
	}
	if (rc >= 0)
		rc = m->w = epd_file_open(m->dir, "w", O_RDONLY | O_DIRECTORY,
		    0);
	if (rc < 0 && !counts_as_empty(rc, store_path)) {
		epd_memory_close(m);
		return epd_why(why, rc, "%s", *what.text ? what.text :
		    epd_strerror(rc));
	}
	*out = m;
	return 0;
}

int
epd_memory_shut(const struct epd_memory *m, struct epd_why *why)
{
	struct epd_why what = { "" };
	int fd = m->parent < 0 ? -ENOENT : open_ours(m->parent, m->name, &what);

	if (fd >= 0)
		close(fd);
	return fd == -EPERM ? epd_why(why, fd, "%s", what.text) : 0;
}

void
epd_memory_close(struct epd_memory *m)
{
	if (!m)
		return;
	close_folder(m);
	if (m->parent >= 0)
		close(m->parent);
	epd_free(m->store_path);
	epd_free(m);
}

uint64_t
epd_memory_cap(const struct epd_memory *m)
{
	return m->cap;
}

int
epd_memory_folder(const struct epd_memory *m)
{
	return m->dir;
}

int
epd_memory_name_ok(const char *s)
{
	return *s && *s != '.' && !strchr(s, '/') && strlen(s) <= NAME_MAX;
}

int
epd_memory_is_draft(const char *name)
{
	return !strncmp(name, EPD_DRAFT_PREFIX, strlen(EPD_DRAFT_PREFIX));
}

int
epd_memory_find(struct epd_memory *m, const char *workflow)
{
	if (!epd_memory_name_ok(workflow))
		return -EINVAL;
	if (m->w < 0)
		return -ENOENT;
	return epd_file_open(m->w, workflow, O_RDONLY | O_DIRECTORY, 0);
}

int
epd_memory_dir(struct epd_memory *m, const char *workflow)
{
	int fd, rc;

	if (!epd_memory_name_ok(workflow))
		return -EINVAL;
	if (m->look)
		return -EBADF;
	fd = make_folder(m->w, workflow);
	if (fd != -ENOENT)
		return fd;
	/* Swept away under us, as when the store was moved: begin anew. */
	rc = claim(m, NULL);
	return rc ? rc : make_folder(m->w, workflow);
}

int
epd_memory_remove(struct epd_memory *m, const char *workflow)
{
	if (!epd_memory_name_ok(workflow))
		return -EINVAL;
	return m->look ? -EBADF : epd_file_remove(m->w, workflow);
}

struct each {
	int w;
	int (*fn)(void *arg, const char *workflow);
	void *arg;
};

static int
each_name(void *arg, const char *name)
{
	struct each *e = arg;
	struct stat st;

	if (!epd_memory_name_ok(name) || fstatat(e->w, name, &st,
	    AT_SYMLINK_NOFOLLOW) || !S_ISDIR(st.st_mode))
		return 0;
	return e->fn(e->arg, name);
}

int
epd_memory_each(struct epd_memory *m,
    int (*fn)(void *arg, const char *workflow), void *arg)
{
	struct each e = { m->w, fn, arg };

	return m->w < 0 ? 0 : epd_dir_each(m->w, each_name, &e);
}

/* ---- sweep ---- */

/* Whether the folder open at fd has lost its store. */
static int
forsaken(int fd, const char *hex)
{
	struct epd_buf b = { 0 };
	struct stat st;
	int rc = epd_file_read(fd, "store", PATH_MOST, &b), gone = 0;

	if (!rc)
		gone = !store_lives(epd_buf_cstr(&b), hex) && !b.failed;
	else if (rc == -ENOENT && !fstat(fd, &st))
		gone = (uint64_t)st.st_mtime + YOUNG_S <=
		    epd_clock_wall_ms() / 1000;
	epd_buf_free(&b);
	return gone;
}

struct sweep {
	int root, w;
	int gone, failed;
	uint64_t bytes;
	epd_memory_unseen_fn *fn;	/* NULL: they are removed */
	void *arg;
};

static int
sweep_workflow(void *arg, const char *name)
{
	struct sweep *s = arg;
	int fd = epd_file_open(s->w, name, O_RDONLY | O_DIRECTORY, 0);

	if (fd >= 0) {
		epd_run_sweep(fd);
		close(fd);
	}
	return 0;
}

static int
sweep_folder(void *arg, const char *name)
{
	const size_t prefix = strlen(PREFIX);
	struct sweep *s = arg;
	uint8_t uuid[16];
	uint64_t bytes = 0;
	char hex[33];
	int fd, rc = 0;

	if (strncmp(name, PREFIX, prefix) || (strlen(name) != prefix + 32 &&
	    (strlen(name) != EPD_MEMORY_NAME - 1 || name[prefix + 32] != '-')))
		return 0;
	memcpy(hex, name + prefix, 32);
	hex[32] = 0;
	if (epd_hex_parse(uuid, sizeof uuid, hex))
		return 0;
	fd = open_ours(s->root, name, NULL);
	if (fd < 0)
		return 0;
	s->w = epd_file_open(fd, "w", O_RDONLY | O_DIRECTORY, 0);
	if (s->fn) {
		if (forsaken(fd, hex))
			s->fn(s->arg, name);
	} else if (forsaken(fd, hex)) {
		if (s->w >= 0)
			rc = epd_memory_alone(s->w, &bytes);
		bytes += epd_index_measure(fd);
		if (!rc)
			rc = epd_file_remove(s->root, name);
		if (!rc) {
			s->gone++;
			s->bytes += bytes;
		}
	} else if (s->w >= 0) {
		epd_run_sweep(fd);
		rc = epd_dir_each(s->w, sweep_workflow, s);
	}
	if (s->w >= 0)
		close(s->w);
	close(fd);
	if (rc && !s->failed)
		s->failed = rc;
	return 0;
}

int
epd_memory_sweep(const char *dir, uint64_t *bytes, int *failed)
{
	struct sweep s = { .w = -1 };
	int rc;

	if (failed)
		*failed = 0;
	s.root = epd_dir_root(*dir ? dir : SHM, 0);
	if (s.root < 0)
		return s.root == -ENOENT ? 0 : s.root;
	rc = epd_dir_each(s.root, sweep_folder, &s);
	close(s.root);
	if (bytes)
		*bytes = s.bytes;
	if (failed)
		*failed = s.failed;
	return rc ? rc : s.gone;
}

int
epd_memory_unseen(const char *dir, epd_memory_unseen_fn *fn, void *arg)
{
	struct sweep s = { .w = -1, .fn = fn, .arg = arg };
	int rc;

	s.root = epd_dir_root(*dir ? dir : SHM, 0);
	if (s.root < 0)
		return s.root == -ENOENT ? 0 : s.root;
	rc = epd_dir_each(s.root, sweep_folder, &s);
	close(s.root);
	return rc;
}
