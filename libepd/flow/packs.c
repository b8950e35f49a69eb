/*
 * packs.c - packs held against the log.
 *
 *  1. What a pack is is asked of the tier: how many of a run's pages its front names.
 *     A whole pack names all of them; what names fewer is damaged, or another's.
 *  2. Bytes are had as a restore has them, and thrown away.  The time of the last use
 *     is put back, so that a proof keeps nothing from going.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/stop.h"
#include "flow/packs.h"
#include "flow/runs.h"
#include "flow/tiers.h"
#include "page/page.h"

#define LLU(x) ((unsigned long long)(x))

enum { AT_ONCE = 32 << 20 };	/* bytes of pages read together, or one page */

int
epd_packs_dir(struct epd_store *s, const char *workflow)
{
	struct epd_memory *disk = epd_store_disk(s, 0);
	int dir = disk ? epd_memory_find(disk, workflow) : -1;

	return dir < 0 ? -1 : dir;
}

int
epd_packs_list(struct epd_run_ids *out, struct epd_store *s,
    const char *workflow)
{
	int dir = epd_packs_dir(s, workflow), rc;

	if (dir < 0)
		return 0;
	rc = epd_run_ids_list(out, dir);
	close(dir);
	return rc == -ENOMEM ? rc : 0;
}

/* ---- each ---- */

struct walk {
	struct epd_run_ids packs;
	char *seen;
	const struct epd_workflow *w;
	struct epd_lower *tier;
	int dir;
	epd_pack_fn *fn;
	void *arg;
};

/* The first time that a run with a pack is met: its place, else -1. */
static long
meet(struct walk *k, uint64_t run)
{
	size_t lo = 0, hi = k->packs.n;

	while (lo < hi) {
		const size_t mid = lo + (hi - lo) / 2;

		if (k->packs.v[mid] < run)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < k->packs.n && k->packs.v[lo] == run && !k->seen[lo] ?
	    (long)lo : -1;
}

/* To look is no use of it, though the file system may take it for one. */
static int
look(struct walk *k, const struct epd_lot *lot)
{
	struct timespec used[2] = { { 0 }, { .tv_nsec = UTIME_OMIT } };
	char name[EPD_RUN_NAME];
	struct stat st;
	int rc;

	epd_run_format(name, lot->run);
	if (fstatat(k->dir, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	rc = k->fn(k->arg, lot, k->dir, k->tier);
	used[0] = st.st_atim;
	(void)utimensat(k->dir, name, used, AT_SYMLINK_NOFOLLOW);
	return rc;
}

static int
node(struct walk *k, const struct epd_state *st, uint64_t id)
{
	struct epd_lot lot = { .workflow = k->w->name, .shape = {
		EPD_OBJECT_KV_PAGE, st->kv_type, st->page_tokens,
		st->page_bytes } };
	struct epd_page_entry *e = NULL;
	struct epd_version v;
	uint32_t done = 0;
	int rc = epd_shard_node(k->w->shard, id, &v);

	for (uint32_t i = 0; rc == 0 && done < v.npages; i++) {
		const uint32_t n = epd_version_pages(&v, i);
		const long at = meet(k, epd_version_run(&v, i));

		if (at >= 0 && !e && !(e = epd_version_entries(&v)))
			rc = -ENOMEM;
		if (at >= 0 && rc == 0) {
			k->seen[at] = 1;
			lot.run = k->packs.v[at];
			lot.entry = e + done;
			lot.n = n;
			lot.given = v.given;
			rc = look(k, &lot);
		}
		done += n;
	}
	epd_free(e);
	return rc;
}

static int
nodes(struct walk *k, struct epd_why *why)
{
	struct epd_shard *s = k->w->shard;
	struct epd_book b = { .n = 0 };
	struct epd_outline o = { 0 };
	struct epd_state st;
	int rc = epd_book_open(&b, k->w, NULL, why);

	while (rc == 0 && (rc = epd_shard_outline_next(s, o.node, &o)) == 0) {
		const struct epd_book_node *n = epd_book_find(&b, o.node);

		/* Some may have expired meanwhile. */
		if (n && n->states && (o.nlinks || meet(k, o.run) >= 0) &&
		    epd_shard_state(s, n->first, &st) == 0)
			rc = node(k, &st, o.node);
	}
	epd_book_close(&b);
	return rc == -ENOENT ? 0 : rc;
}

int
epd_packs_each(struct epd_store *s, const struct epd_workflow *w,
    epd_pack_fn *fn, void *arg, struct epd_why *why)
{
	struct walk k = { .w = w, .fn = fn, .arg = arg };
	int rc;

	k.dir = epd_packs_dir(s, w->name);
	if (k.dir < 0)
		return 0;
	rc = epd_run_ids_list(&k.packs, k.dir);
	if (rc == 0 && k.packs.n)
		rc = epd_store_tier(s, EPD_TIER_NVME, &k.tier, why);
	if (rc == 0 && k.packs.n)
		rc = (k.seen = epd_calloc(k.packs.n, 1)) ? nodes(&k, why) :
		    -ENOMEM;
	epd_free(k.seen);
	epd_run_ids_free(&k.packs);
	close(k.dir);
	return rc;
}

/* ---- proven ---- */

struct prove {
	const struct epd_teller *t;
	struct epd_packs_proof *sum;
	int quick;
};

/* What ends a proof, as it says nothing of what is proven. */
static int
is_ours(long rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE || rc == -EINTR;
}

/* Of pages [from, to) of a lot those that cannot be had, added to *lost. */
static int
read_some(struct epd_lower *l, const struct epd_lot *lot, long from, long to,
    uint64_t *lost)
{
	const size_t n = (size_t)lot->n, bytes = (size_t)lot->shape.bytes;
	uint8_t *room = epd_malloc((size_t)(to - from) * bytes);
	uint8_t *had = epd_calloc(n, 1);
	void **out = epd_calloc(n, sizeof *out);
	long rc = room && had && out ? 0 : -ENOMEM;

	for (long i = from; rc == 0 && i < to; i++)
		out[i] = room + (size_t)(i - from) * bytes;
	if (rc == 0)
		rc = epd_lower_ops(l)->get(l, lot, out, had, UINT64_MAX, NULL);
	for (long i = from; !is_ours(rc) && i < to; i++)
		*lost += !had[i];
	epd_free(room);
	epd_free(had);
	epd_free(out);
	return is_ours(rc) ? (int)rc : 0;
}

static int
read_all(struct epd_lower *l, const struct epd_lot *lot, uint64_t *lost)
{
	const long most = (long)(AT_ONCE / lot->shape.bytes);
	const long step = most > 0 ? most : 1;
	int rc = 0;

	for (long i = 0; rc == 0 && i < lot->n; i += step)
		rc = epd_is_stopped() ? -EINTR : read_some(l, lot, i,
		    lot->n - i < step ? lot->n : i + step, lost);
	return rc;
}

static int
prove(void *arg, const struct epd_lot *lot, int dir, struct epd_lower *l)
{
	struct prove *x = arg;
	struct epd_why why = { "" };
	uint64_t lost = 0;
	long n = epd_lower_ops(l)->has(l, lot, UINT64_MAX, &why);
	int rc = 0;

	(void)dir;
	if (is_ours(n) || n == -ENOENT)
		return n == -ENOENT ? 0 : (int)n;
	x->sum->runs++;
	if (n >= 0 && n < lot->n) {
		x->sum->lost += (uint64_t)lot->n;
		epd_tell(x->t, EPD_LITTER, "nvme: %016llx: no whole pack of "
		    "that run", LLU(lot->run));
		return 0;
	}
	if (n > 0 && !x->quick)
		rc = read_all(l, lot, &lost);
	if (n < 0)
		lost = (uint64_t)lot->n;
	x->sum->pages += (uint64_t)lot->n - lost;
	x->sum->lost += lost;
	if (lost)
		epd_tell(x->t, EPD_LOST, "nvme: run %016llx: %llu of %ld pages "
		    "%s, and would be computed again", LLU(lot->run),
		    LLU(lost), lot->n, n < 0 ? epd_strerror((int)n) :
		    "are damaged, or cannot be read");
	return rc;
}

int
epd_packs_prove(const struct epd_teller *t, const struct epd_workflow *w,
    int quick, struct epd_packs_proof *out, struct epd_why *why)
{
	struct prove x = { t, out, quick };

	return epd_packs_each(t->s, w, prove, &x, why);
}

/* ---- taken ---- */

struct taking {
	uint64_t *runs, *bytes;
};

static int
take(void *arg, const struct epd_lot *lot, int dir, struct epd_lower *l)
{
	const struct taking *x = arg;
	struct stat was, is;
	char name[EPD_RUN_NAME];
	long n;

	epd_run_format(name, lot->run);
	if (fstatat(dir, name, &was, AT_SYMLINK_NOFOLLOW))
		return 0;
	n = epd_lower_ops(l)->has(l, lot, UINT64_MAX, NULL);
	/* What cannot be read may be read again; another may have come for it. */
	if (n < 0 || n >= lot->n || fstatat(dir, name, &is,
	    AT_SYMLINK_NOFOLLOW) || is.st_ino != was.st_ino ||
	    unlinkat(dir, name, 0))
		return is_ours(n) ? (int)n : 0;
	++*x->runs;
	*x->bytes += epd_bytes_back(&is);
	return 0;
}

int
epd_packs_take(struct epd_store *s, const struct epd_workflow *w,
    uint64_t *runs, uint64_t *bytes, struct epd_why *why)
{
	struct taking x = { runs, bytes };

	return epd_packs_each(s, w, take, &x, why);
}

/* ---- counted ---- */

int
epd_packs_count(struct epd_shard *s, const struct epd_book *b,
    const struct epd_run_ids *packs, uint64_t head, uint64_t *out)
{
	struct epd_page_row *row = NULL;
	uint64_t n = 0;
	int rc = packs->n ? epd_book_pages(s, head, &row, &n) : 0;

	*out = 0;
	for (uint64_t i = 0; rc == 0 && i < n; i++)
		*out += !epd_book_run(b, row[i].run) &&
		    epd_run_ids_has(packs, row[i].run);
	epd_free(row);
	return rc;
}
