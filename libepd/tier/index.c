/*
 * index.c - the table of whole pages by name.
 *
 *	header | set 0 | set 1 | ...		1024 bytes each
 *
 * The header:
 *	   0   8  "EPDIDX1\n"
 *	   8   4  format, 1
 *	  12   4  count of sets
 *	  16  64  name of the memory folder, NULs behind it
 *	  80      zero
 *	1020   4  CRC32C of all before
 *
 * A set has eight slots; a page's is its name's first 8 bytes modulo the count.
 *	   0  32  name
 *	  32   8  run id
 *	  40   4  page within the run's file
 *	  44   4  zero
 *	  48   8  age: one more than the highest in the set when it was put
 *	  56  64  workflow, NULs behind it
 *	 120   8  XXH3-64 of all before
 *
 * Invariants
 * 1. A slot is read and written by one call and proves itself by its sum.  Of
 *    two writers that meet one is lost, which is a miss, and so is a torn slot.
 * 2. Nothing is mapped: a file cut short by a peer is a short read, and a full
 *    tmpfs an error of the write.  What was never written takes no room.
 * 3. A new file is filled under another name, then renamed over the old one.
 *    Who still writes the old one sees that it has no name any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tier/inner.h"

#define FILE_NAME "pages"
static const char magic[8] = "EPDIDX1\n";

enum {
	FORMAT = 1, SET = 1024, SLOT = 128, WAYS = SET / SLOT,
	SETS_AT = 12, TAG_AT = 16, TAG = 64, CRC_AT = SET - 4,
	RUN_AT = 32, PAGE_AT = 40, AGE_AT = 48, FLOW_AT = 56, SUM_AT = 120,
	HINTS = 2,		/* that a name has at most */
	A_SLOT = 16384,		/* bytes of cap for one */
	LEAST = 4096 / WAYS, MOST = 524288 / WAYS,	/* sets */
};

struct epd_index {
	struct epd_memory *m;
	int fd;
	uint32_t sets;
	epd_index_runs *runs;	/* NULL: all may be put in */
	void *arg;
};

/* As the cap asks, but no more than 1/64 of it, and a page of memory at least. */
static uint32_t
sets_of(uint64_t cap)
{
	uint64_t n = cap / A_SLOT / WAYS, limit = cap / 64 / SET;

	n = n < LEAST ? LEAST : n > MOST ? MOST : n;
	if (n >= limit)
		n = limit ? limit - 1 : 0;
	return n < 3 ? 3 : (uint32_t)n;
}

static uint64_t
size_of(uint32_t sets)
{
	return ((uint64_t)sets + 1) * SET;
}

static void
put_le(uint8_t *p, uint64_t v, int bytes)
{
	for (int i = 0; i < bytes; i++)
		p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t
get_le(const uint8_t *p, int bytes)
{
	uint64_t v = 0;

	for (int i = 0; i < bytes; i++)
		v |= (uint64_t)p[i] << 8 * i;
	return v;
}

/* ---- slots ---- */

static int
valid(const uint8_t *slot)
{
	const char *flow = (const char *)slot + FLOW_AT;

	return get_le(slot + RUN_AT, 8) &&
	    get_le(slot + SUM_AT, 8) == epd_xxh3_64(slot, SUM_AT) &&
	    memchr(flow, 0, EPD_INDEX_WORKFLOW) && epd_memory_name_ok(flow);
}

static uint64_t
age(const uint8_t *slot)
{
	return get_le(slot + AGE_AT, 8);
}

static uint64_t
set_at(const struct epd_index *x, const struct epd_name *name)
{
	return (1 + get_le(name->b, 8) % x->sets) * SET;
}

/* What the file does not have is zero, and so not valid. */
static int
read_set(const struct epd_index *x, const struct epd_name *name, uint8_t *b)
{
	ssize_t n;

	memset(b, 0, SET);
	n = epd_file_pread(x->fd, b, SET, set_at(x, name));
	return n < 0 ? (int)n : 0;
}

/* The name's slot of a set; if it has several, the one put last.  Or NULL. */
static const uint8_t *
slot_of(const uint8_t *set, const struct epd_name *name)
{
	const uint8_t *best = NULL;

	for (const uint8_t *s = set; s < set + SET; s += SLOT)
		if (!memcmp(s, name->b, EPD_NAME) && valid(s) &&
		    (!best || age(s) > age(best)))
			best = s;
	return best;
}

/* The slot of a name's page in one run, or NULL. */
static const uint8_t *
slot_in(const uint8_t *set, const struct epd_name *name, const char *workflow,
    uint64_t run)
{
	for (const uint8_t *s = set; s < set + SET; s += SLOT)
		if (!memcmp(s, name->b, EPD_NAME) && valid(s) &&
		    get_le(s + RUN_AT, 8) == run &&
		    !strcmp((const char *)s + FLOW_AT, workflow))
			return s;
	return NULL;
}

/*
 * Where a name goes: the slot it has for this run, the older of its two, a free
 * one, or the oldest of all.
 */
static const uint8_t *
place(const uint8_t *set, const struct epd_name *name, const char *workflow,
    uint64_t run)
{
	const uint8_t *at = slot_in(set, name, workflow, run), *oldest = set;
	const uint8_t *older = NULL;
	int has = 0;

	if (at)
		return at;
	for (const uint8_t *s = set; s < set + SET; s += SLOT) {
		if (!valid(s)) {
			at = at ? at : s;
			continue;
		}
		if (!memcmp(s, name->b, EPD_NAME)) {
			has++;
			older = !older || age(s) < age(older) ? s : older;
		}
		oldest = !valid(oldest) || age(s) < age(oldest) ? s : oldest;
	}
	return has >= HINTS ? older : at ? at : oldest;
}

/* Or 0, where there is none left. */
static uint64_t
next_age(const uint8_t *set)
{
	uint64_t most = 0;

	for (const uint8_t *s = set; s < set + SET; s += SLOT)
		if (valid(s) && age(s) > most)
			most = age(s);
	return most + 1;
}

/* Ages that are used up are a liar's: the set begins again. */
static int
begin_again(struct epd_index *x, const struct epd_name *name, uint8_t *set)
{
	memset(set, 0, SET);
	return epd_file_pwrite(x->fd, set, SET, set_at(x, name));
}

static int
put_page(struct epd_index *x, const struct epd_name *name, uint64_t run,
    uint32_t at, const char *workflow)
{
	uint8_t set[SET], slot[SLOT] = { 0 };
	int rc = read_set(x, name, set);

	if (!rc && !next_age(set))
		rc = begin_again(x, name, set);
	if (rc)
		return rc;
	memcpy(slot, name->b, EPD_NAME);
	put_le(slot + RUN_AT, run, 8);
	put_le(slot + PAGE_AT, at, 4);
	put_le(slot + AGE_AT, next_age(set), 8);
	memcpy(slot + FLOW_AT, workflow, strlen(workflow));
	put_le(slot + SUM_AT, epd_xxh3_64(slot, SUM_AT), 8);
	return epd_file_pwrite(x->fd, slot, SLOT, set_at(x, name) +
	    (uint64_t)(place(set, name, workflow, run) - set));
}

/* The full pages of a run.  Their count, or -errno. */
static long
put_run(struct epd_index *x, const char *workflow, uint64_t run,
    uint32_t page_tokens, const struct epd_page_entry *e, long n)
{
	long done = 0;

	if (strlen(workflow) >= EPD_INDEX_WORKFLOW || !run ||
	    !epd_memory_name_ok(workflow))
		return 0;
	for (long i = 0; i < n && i <= UINT32_MAX; i++) {
		int rc = e[i].rows != page_tokens ? 0 :
		    put_page(x, &e[i].name, run, (uint32_t)i, workflow);

		if (rc)
			return rc;
		done += e[i].rows == page_tokens;
	}
	return done;
}

/* ---- a new one ---- */

struct fill {
	struct epd_index *to;
	const char *workflow;
	uint64_t *run;		/* that may be put in, ascending */
	size_t n;
	int dir;
	long pages;
};

static int
by_run(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static int
may(const struct fill *f, uint64_t run)
{
	return !f->to->runs || (f->n &&
	    bsearch(&run, f->run, f->n, sizeof run, by_run));
}

/* Errors that are ours and not a run's. */
static int
grave(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

static int
fill_run(void *arg, uint64_t run, uint64_t bytes)
{
	struct fill *f = arg;
	struct epd_run_shape shape;
	struct epd_run *r;
	long n = 0;
	int rc;

	(void)bytes;
	if (!may(f, run))
		return 0;
	rc = epd_run_table(&r, f->dir, run, &shape, NULL);
	if (rc)
		return grave(rc) ? rc : 0;
	if (!epd_run_is_given(r))
		n = put_run(f->to, f->workflow, run, shape.tokens,
		    epd_run_entries(r), epd_run_count(r));
	epd_run_close(r);
	if (n < 0)
		return (int)n;
	f->pages += n;
	return 0;
}

static int
fill_workflow(void *arg, const char *workflow)
{
	struct fill *f = arg;
	int rc = 0;

	f->workflow = workflow;
	f->dir = epd_memory_find(f->to->m, workflow);
	if (f->dir < 0)
		return grave(f->dir) ? f->dir : 0;
	f->run = NULL;
	f->n = 0;
	if (f->to->runs)
		rc = f->to->runs(f->to->arg, workflow, &f->run, &f->n);
	if (rc == 0 && f->n)
		qsort(f->run, f->n, sizeof *f->run, by_run);
	if (rc == 0)
		rc = epd_run_each(f->dir, fill_run, f);
	epd_free(f->run);
	close(f->dir);
	return rc;
}

static int
write_head(const struct epd_index *x)
{
	uint8_t b[SET] = { 0 };

	memcpy(b, magic, sizeof magic);
	put_le(b + sizeof magic, FORMAT, 4);
	put_le(b + SETS_AT, x->sets, 4);
	memcpy(b + TAG_AT, x->m->name, strlen(x->m->name));
	put_le(b + CRC_AT, epd_crc32c(0, b, CRC_AT), 4);
	if (ftruncate(x->fd, (off_t)size_of(x->sets)))
		return -errno;
	return epd_file_pwrite(x->fd, b, SET, 0);
}

static int
rename_over(int dir, const char *temp)
{
	if (!renameat(dir, temp, dir, FILE_NAME))
		return 0;
	if (errno == EISDIR && !epd_file_remove(dir, FILE_NAME) &&
	    !renameat(dir, temp, dir, FILE_NAME))
		return 0;
	return -errno;
}

/* A fresh file in place of whatever is there, all runs in it. */
static long
make(struct epd_index *x)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct epd_index y = *x;
	struct fill f = { .to = &y };
	char temp[EPD_TEMP];
	int rc;

	y.sets = sets_of(x->m->cap);
	y.fd = epd_file_temp(x->m->dir, temp);
	if (y.fd < 0)
		return y.fd;
	/* By this epd_run_sweep sees that its maker lives. */
	fcntl(y.fd, F_OFD_SETLK, &lock);
	fcntl(y.fd, F_SETFL, O_NOATIME);
	rc = write_head(&y);
	if (!rc)
		rc = epd_memory_each(y.m, fill_workflow, &f);
	if (!rc)
		rc = rename_over(y.m->dir, temp);
	if (rc) {
		close(y.fd);
		unlinkat(x->m->dir, temp, 0);
		return rc;
	}
	if (x->fd >= 0)
		close(x->fd);
	*x = y;
	return f.pages;
}

/* ---- the one that is there ---- */

/* Take the file open at fd for x's, if it is one. */
static int
adopt(struct epd_index *x, int fd)
{
	uint8_t b[SET];
	char tag[TAG] = "";
	struct stat st;
	uint32_t sets;
	ssize_t n;

	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return EPD_ECORRUPT;
	n = epd_file_pread(fd, b, SET, 0);
	if (n < 0)
		return (int)n;
	if (n != SET || memcmp(b, magic, sizeof magic) ||
	    get_le(b + sizeof magic, 4) != FORMAT ||
	    get_le(b + CRC_AT, 4) != epd_crc32c(0, b, CRC_AT))
		return EPD_ECORRUPT;
	sets = (uint32_t)get_le(b + SETS_AT, 4);
	memcpy(tag, x->m->name, strlen(x->m->name));
	if (!sets || sets > MOST || (uint64_t)st.st_size != size_of(sets) ||
	    memcmp(b + TAG_AT, tag, TAG) ||
	    (!x->m->look && sets != sets_of(x->m->cap)))
		return EPD_ECORRUPT;
	if (x->fd >= 0)
		close(x->fd);
	x->fd = fd;
	x->sets = sets;
	return 0;
}

/* Not to hang on a pipe that lies there. */
static int
open_file(const struct epd_memory *m)
{
	const int how = O_NONBLOCK | O_NOCTTY | O_NOATIME;

	if (m->dir < 0)
		return -ENOENT;
	return epd_file_open(m->dir, FILE_NAME,
	    how | (m->look ? O_RDONLY : O_RDWR), 0);
}

static int
attach(struct epd_index *x)
{
	int fd = open_file(x->m), rc = fd;
	long n;

	if (fd >= 0) {
		rc = adopt(x, fd);
		if (!rc)
			return 0;
		close(fd);
	}
	if (x->m->look || grave(rc))
		return rc;
	n = make(x);
	return n < 0 ? (int)n : 0;
}

int
epd_index_open(struct epd_index **out, struct epd_memory *m)
{
	return epd_index_open_of(out, m, NULL, NULL);
}

int
epd_index_open_of(struct epd_index **out, struct epd_memory *m,
    epd_index_runs *runs, void *arg)
{
	struct epd_index *x = epd_calloc(1, sizeof *x);
	int rc;

	if (!x)
		return -ENOMEM;
	x->m = m;
	x->fd = -1;
	x->runs = runs;
	x->arg = arg;
	rc = attach(x);
	if (rc) {
		epd_index_close(x);
		return rc;
	}
	*out = x;
	return 0;
}

int
epd_index_check(const struct epd_memory *m)
{
	struct epd_memory eye = *m;
	struct epd_index x = { .m = &eye, .fd = -1 };
	int rc;

	eye.look = 1;
	rc = attach(&x);
	if (x.fd >= 0)
		close(x.fd);
	return rc;
}

void
epd_index_close(struct epd_index *x)
{
	if (!x)
		return;
	if (x->fd >= 0)
		close(x->fd);
	epd_free(x);
}

/* Whether the file still has its name and its size. */
static int
stands(const struct epd_index *x)
{
	struct stat st;

	return !fstat(x->fd, &st) && st.st_nlink &&
	    (uint64_t)st.st_size == size_of(x->sets);
}

void
epd_index_put(struct epd_index *x, const char *workflow, uint64_t run,
    uint32_t page_tokens, const struct epd_page_entry *e, long n)
{
	if (x && !x->m->look && (stands(x) || !attach(x)))
		(void)put_run(x, workflow, run, page_tokens, e, n);
}

int
epd_index_find(const struct epd_index *x, const struct epd_name *name,
    struct epd_index_hit *out)
{
	uint8_t set[SET];
	const uint8_t *s = !x || read_set(x, name, set) ? NULL :
	    slot_of(set, name);

	if (!s)
		return 0;
	memcpy(out->workflow, s + FLOW_AT, EPD_INDEX_WORKFLOW);
	out->run = get_le(s + RUN_AT, 8);
	out->at = (uint32_t)get_le(s + PAGE_AT, 4);
	return 1;
}

void
epd_index_forget(struct epd_index *x, const struct epd_name *name,
    const struct epd_index_hit *hit)
{
	static const uint8_t none[SLOT];
	uint8_t set[SET];
	const uint8_t *s;

	if (!x || x->m->look || read_set(x, name, set))
		return;
	s = slot_in(set, name, hit->workflow, hit->run);
	if (s)
		(void)epd_file_pwrite(x->fd, none, SLOT, set_at(x, name) +
		    (uint64_t)(s - set));
}

long
epd_index_rebuild(struct epd_index *x)
{
	return !x || x->m->look ? -EBADF : make(x);
}

uint64_t
epd_index_measure(int dir)
{
	struct stat st;

	if (dir < 0 || fstatat(dir, FILE_NAME, &st, AT_SYMLINK_NOFOLLOW) ||
	    !S_ISREG(st.st_mode))
		return 0;
	return (uint64_t)st.st_blocks * 512;
}

uint64_t
epd_index_bytes(const struct epd_memory *m)
{
	return epd_index_measure(m->dir);
}
