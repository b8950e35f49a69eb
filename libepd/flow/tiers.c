/*
 * tiers.c - the lower tiers' handles, and runs brought back.
 *
 * What is brought back is written as any run is: nameless, and linked when all of it
 * is there.  Who is at it holds a lock on a file beside, so that of several that want
 * the same one moves it and the others find it there.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/key.h"
#include "base/stop.h"
#include "flow/room.h"
#include "flow/tiers.h"
#include "flow/where.h"
#include "page/page.h"

#define MS UINT64_C(1000000)
enum { POLL_MS = 5 };

/* Both would have files of one name in one folder. */
static int
is_memorys(const struct epd_store *s)
{
	struct stat a, b;

	return !fstat(epd_memory_folder(s->memory), &a) &&
	    !fstat(epd_memory_folder(s->disk), &b) && a.st_dev == b.st_dev &&
	    a.st_ino == b.st_ino;
}

/* Who looks and found none looks again, for another may have made it. */
static void
look_again(struct epd_store *s)
{
	if (s->procs || !s->disk || epd_memory_folder(s->disk) >= 0 ||
	    s->lower[EPD_TIER_NVME])
		return;
	epd_memory_close(s->disk);
	s->disk = NULL;
}

struct epd_memory *
epd_store_disk(struct epd_store *s, int make)
{
	const char *dir = s->config.tier_nvme_dir;
	struct epd_buf own = { 0 };
	struct epd_why why = { "" };
	int rc;

	look_again(s);
	if (s->disk || s->no_disk || (!make && !*dir &&
	    faccessat(s->dirfd, EPD_DISK, F_OK, AT_SYMLINK_NOFOLLOW)))
		return s->disk;
	epd_buf_fmt(&own, "%s/" EPD_DISK, s->path);
	dir = *dir ? dir : epd_buf_cstr(&own);
	rc = own.failed ? -ENOMEM : (s->procs ? epd_memory_open :
	    epd_memory_look)(&s->disk, dir, s->uuid, s->path,
	    (uint64_t)s->config.tier_nvme_cap, &why);
	epd_buf_free(&own);
	if (rc == 0 && is_memorys(s)) {
		epd_memory_close(s->disk);
		rc = epd_why(&why, EPD_EUSAGE, "tier.nvme_dir is page.memory_dir");
	}
	if (rc < 0) {
		s->disk = NULL;
		s->no_disk = rc;
		epd_log(&s->log, "op=tier tier=nvme error=%s why=\"%s\"",
		    epd_errlabel(rc), why.text);
	}
	return s->disk;
}

static int
open_nvme(struct epd_store *s, struct epd_lower **out, struct epd_why *why)
{
	struct epd_nvme_options o = { .metrics = s->metrics };

	/* That there is no such folder is no state that is missing. */
	if (!(o.folder = epd_store_disk(s, 1)))
		return epd_why(why, s->no_disk == -ENOENT ? EPD_EUNSUPPORTED :
		    s->no_disk, "tier nvme: %s: %s",
		    *s->config.tier_nvme_dir ? s->config.tier_nvme_dir :
		    EPD_DISK, s->no_disk == EPD_EUSAGE ? "it is the folder of "
		    "page.memory_dir" : epd_strerror(s->no_disk));
	o.packing = (enum epd_packing)epd_word_parse(&epd_packings,
	    s->config.tier_compression);
	return epd_nvme_open(out, &o);
}

static const struct epd_words pins = EPD_WORDS(
    [EPD_MOONCAKE_PIN_NONE] = "none", [EPD_MOONCAKE_PIN_SOFT] = "soft",
    [EPD_MOONCAKE_PIN_HARD] = "hard");

static int
open_mooncake(struct epd_store *s, struct epd_lower **out, struct epd_why *why)
{
	const struct epd_config *c = &s->config;
	struct epd_mooncake_options o = {
		.url = c->tier_mooncake_url, .master = c->tier_mooncake_master,
		.admin = c->tier_mooncake_admin,
		.most = (int)c->tier_mooncake_parallel,
		.page_ns = MS * (uint64_t)c->tier_mooncake_timeout_ms,
		.level = strcmp(c->tier_compression, "none") != 0,
		.metrics = s->metrics, .log = s->log,
		.pin = (enum epd_mooncake_pin)epd_word_parse(&pins,
		    c->tier_mooncake_pin),
	};
	struct epd_buf key = { 0 };
	int rc = 0;

	if (!*o.url && !*o.master)
		return epd_why(why, EPD_EUNSUPPORTED, "tier mooncake_store: "
		    "neither tier.mooncake_url nor tier.mooncake_master is set");
	if (*c->tier_key_file)
		rc = epd_key_read(&key, c->tier_key_file, why);
	if (rc == -ENOENT)
		rc = EPD_EUSAGE;
	o.key = epd_span(key.p, key.n);
	memcpy(o.store, s->uuid, sizeof o.store);
	if (rc == 0)
		rc = epd_mooncake_open(out, &o, why);
	if (key.p)
		explicit_bzero(key.p, key.n);
	epd_buf_free(&key);
	return rc;
}

int
epd_store_tier(struct epd_store *s, enum epd_tier tier, struct epd_lower **out,
    struct epd_why *why)
{
	int rc;

	if (s->lower[tier]) {
		*out = s->lower[tier];
		return 0;
	}
	switch (tier) {
	case EPD_TIER_NVME:
		rc = open_nvme(s, &s->lower[tier], why);
		break;
	case EPD_TIER_MOONCAKE:
		rc = open_mooncake(s, &s->lower[tier], why);
		break;
	default:
		rc = epd_why(why, EPD_EUNSUPPORTED, "tier %s: there is none here",
		    epd_tier_name(tier));
		break;
	}
	*out = s->lower[tier];
	return rc;
}

void
epd_store_tiers_close(struct epd_store *s)
{
	for (int t = 0; t < EPD_TIER_COUNT; t++) {
		if (s->lower[t])
			epd_lower_ops(s->lower[t])->close(s->lower[t]);
		s->lower[t] = NULL;
	}
	epd_memory_close(s->disk);
	s->disk = NULL;
}

uint64_t
epd_store_tier_end(const struct epd_store *s, enum epd_tier tier, long pages)
{
	const uint64_t each = tier == EPD_TIER_MOONCAKE ?
	    (uint64_t)s->config.tier_mooncake_timeout_ms : 0;

	return epd_clock_boot_ns() + MS * ((uint64_t)
	    s->config.transfer_timeout_ms + each * (uint64_t)pages);
}

/* ---- bringing back ---- */

struct fill {
	struct epd_store *s;
	const struct epd_workflow *w;
	const struct epd_lot *lot;
	struct epd_run *run;
	void **page, **want;
	uint8_t *had;
	long left;
	int needed;
};

/* Room for its pages, in memory and beneath the cap. */
static int
begin(struct fill *f)
{
	const size_t n = (size_t)f->lot->n;
	struct epd_memory_fit fit;
	int rc;

	f->page = epd_calloc(n, sizeof *f->page);
	f->want = epd_calloc(n, sizeof *f->want);
	f->had = epd_calloc(n, 1);
	if (!f->page || !f->want || !f->had)
		return -ENOMEM;
	/* What does not go in at all is not to cost the others their room. */
	if (!f->needed && n * f->lot->shape.bytes > epd_memory_cap(f->s->memory))
		return -ENOSPC;
	rc = epd_store_room(f->s, n * f->lot->shape.bytes, &fit, NULL);
	if (rc == 0 && fit.over && !f->needed)
		rc = -ENOSPC;
	if (rc == 0)
		rc = epd_run_new(&f->run, f->w->runs, &f->lot->shape);
	for (size_t i = 0; rc == 0 && i < n; i++) {
		do
			rc = epd_run_add(f->run, &f->page[i]);
		while (rc == -ENOSPC && epd_store_squeeze(f->s,
		    f->lot->shape.bytes) > 0);
	}
	f->left = f->lot->n;
	return rc;
}

/* What a tier has of what is still wanted. */
static void
ask(struct fill *f, enum epd_tier tier, struct epd_fill *sum)
{
	const uint64_t end = epd_store_tier_end(f->s, tier, f->left);
	/* mooncake_store counts for itself. */
	const uint64_t counts = tier == EPD_TIER_NVME;
	struct epd_why why = { "" };
	struct epd_lower *l;
	long n;

	if ((tier == EPD_TIER_NVME && !epd_store_disk(f->s, 0)) ||
	    epd_store_tier(f->s, tier, &l, &why) < 0)
		return;
	for (long i = 0; i < f->lot->n; i++)
		f->want[i] = f->had[i] ? NULL : f->page[i];
	n = epd_lower_ops(l)->get(l, f->lot, f->want, f->had, end, &why);
	if (n < 0) {
		epd_count(f->s->metrics, EPD_M_TIER_ERRORS, counts);
		epd_log(&f->s->log, "op=restore tier=%s run=%016llx error=%s "
		    "why=\"%s\"", epd_tier_name(tier),
		    (unsigned long long)f->lot->run, epd_errlabel((int)n),
		    why.text);
		return;
	}
	if (n > 0)
		sum->tiers |= 1u << tier;
	epd_count(f->s->metrics, EPD_M_TIER_HITS, counts * (uint64_t)n);
	epd_count(f->s->metrics, EPD_M_TIER_MISSES, counts *
	    (uint64_t)(f->left - n));
	f->left -= n;
}

/*
 * Link it; that its bytes are those of the log was looked at as they came.  It was given
 * if the log says so, or whoever had some of it.
 */
static int
publish(struct fill *f)
{
	const size_t n = (size_t)f->lot->n;
	struct epd_page_entry *e = epd_calloc(n, sizeof *e);
	int given, rc;

	if (!e)
		return -ENOMEM;
	given = f->lot->given;
	for (size_t i = 0; i < n; i++)
		given |= f->had[i] == EPD_HAD_GIVEN;
	if (given)
		epd_run_given(f->run);
	memcpy(e, f->lot->entry, n * sizeof *e);
	rc = epd_run_publish(f->run, f->lot->run, e, f->lot->n);
	if (rc == 0 && !given)
		epd_index_put(epd_store_index(f->s), f->w->name, f->lot->run,
		    f->lot->shape.tokens, f->lot->entry, f->lot->n);
	epd_free(e);
	return rc == -EEXIST ? 0 : rc;
}

static int
bring(struct epd_store *s, const struct epd_workflow *w,
    const struct epd_lot *lot, struct epd_fill *sum)
{
	struct fill f = { .s = s, .w = w, .lot = lot, .needed = sum->needed };
	int rc = begin(&f);

	for (enum epd_tier t = EPD_TIER_NVME; rc == 0 && f.left &&
	    t < EPD_TIER_COUNT; t++)
		ask(&f, t, sum);
	if (rc == 0 && f.left) {
		const long n = epd_where_pages(s, w, lot, f.page, f.had);

		f.left -= n;
		sum->peers += (uint64_t)n;
	}
	if (rc == 0 && f.left)
		rc = EPD_ENOTHING;
	if (rc == 0)
		rc = publish(&f);
	epd_run_close(f.run);
	epd_free(f.page);
	epd_free(f.want);
	epd_free(f.had);
	return rc;
}

/* A lock file of our own making, that still has its name once it is ours. */
static int
lock_fill(const struct epd_store *s, int dir, uint64_t run, char name[64])
{
	const uint64_t end = epd_clock_boot_ns() + MS *
	    (uint64_t)s->config.transfer_timeout_ms;
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };

	snprintf(name, 64, EPD_TEMP_PREFIX "fill.%016llx",
	    (unsigned long long)run);
	while (epd_clock_boot_ns() < end && !epd_is_stopped()) {
		struct stat ours, there;
		int fd = epd_file_open(dir, name, O_RDWR | O_CREAT, 0600);

		if (fd < 0)
			return fd;
		if (fcntl(fd, F_OFD_SETLK, &lock) == 0 && !fstat(fd, &ours) &&
		    !fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) &&
		    ours.st_ino == there.st_ino)
			return fd;
		close(fd);
		epd_clock_sleep_ns(POLL_MS * MS);
	}
	return EPD_ELOCKED;
}

int
epd_store_tiered(struct epd_store *s)
{
	return *s->config.tier_mooncake_url || *s->config.tier_mooncake_master ||
	    epd_store_disk(s, 0) || (s->transports && *s->node);
}

int
epd_fill_run(struct epd_store *s, const struct epd_workflow *w,
    const struct epd_lot *lot, struct epd_fill *sum, struct epd_why *why)
{
	const uint64_t from = epd_clock_boot_ns();
	char name[64];
	int rc, fd;

	if (!epd_store_tiered(s) || w->runs < 0) {
		sum->missing += (uint64_t)lot->n;
		return EPD_ENOTHING;
	}
	fd = lock_fill(s, w->runs, lot->run, name);
	if (fd < 0)
		return epd_why(why, fd, "run %016llx: %s",
		    (unsigned long long)lot->run, fd == EPD_ELOCKED ?
		    "another process brings it back, and takes long" :
		    epd_strerror(fd));
	rc = epd_run_is_in(w->runs, lot->run) ? 1 : bring(s, w, lot, sum);
	unlinkat(w->runs, name, 0);
	close(fd);
	if (rc == EPD_ENOTHING)
		sum->missing += (uint64_t)lot->n;
	if (rc < 0)
		return epd_why(why, rc, "run %016llx: %s",
		    (unsigned long long)lot->run, epd_strerror(rc));
	if (rc == 1)
		return 0;
	sum->runs++;
	sum->pages += (uint64_t)lot->n;
	sum->bytes += (uint64_t)lot->n * lot->shape.bytes;
	sum->ns += epd_clock_boot_ns() - from;
	epd_count(s->metrics, EPD_M_RESTORE_RUNS, 1);
	epd_count(s->metrics, EPD_M_RESTORE_BYTES, (uint64_t)lot->n *
	    lot->shape.bytes);
	epd_count(s->metrics, EPD_M_RESTORE_NS, epd_clock_boot_ns() - from);
	return 0;
}

int
epd_fill_heard(struct epd_store *s, const char *workflow, uint64_t run)
{
	struct epd_memory *disk = epd_store_disk(s, 0);
	struct epd_workflow w = { .dirfd = -1, .runs = -1 };
	struct epd_lot lot = { .workflow = w.name, .run = run };
	struct epd_page_entry *e = NULL;
	struct epd_fill f = { 0 };
	int rc = disk && strlen(workflow) < sizeof w.name ? 0 : EPD_ENOTHING;

	if (rc == 0)
		rc = epd_nvme_table(disk, workflow, run, &lot.shape, &e, &lot.n,
		    &lot.given);
	if (rc == 0 && lot.given)
		rc = EPD_ENOTHING;
	if (rc == 0) {
		strcpy(w.name, workflow);
		lot.entry = e;
		rc = w.runs = epd_memory_dir(s->memory, workflow);
	}
	if (rc >= 0)
		rc = epd_fill_run(s, &w, &lot, &f, NULL);
	if (w.runs >= 0)
		close(w.runs);
	epd_free(e);
	return rc;
}

void
epd_workflow_drop(const struct epd_workflow *w, uint64_t run)
{
	struct epd_memory *disk = w->store ? epd_store_disk(w->store, 0) : NULL;
	int dir;

	if (w->runs >= 0)
		(void)epd_run_free(w->runs, run);
	if (!disk || (dir = epd_memory_find(disk, w->name)) < 0)
		return;
	(void)epd_run_free(dir, run);
	close(dir);
}
