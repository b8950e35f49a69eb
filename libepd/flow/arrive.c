/*
 * arrive.c - pages land where they will stay: in a run that has no name yet.  Packed
 * ones land in memory of our own first.
 *
 * What has not come yet takes nothing from others: room is made in the tier when all
 * has, before the run gets its name.  Until then the run's bytes are above the cap, as
 * many as who asks for them is granted.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "flow/arrive.h"
#include "flow/room.h"

enum {
	BYTES_MAX = 1 << 30,		/* of one page */
	BUSY_MS = 2000,			/* the longest wait for a sweep */
};

struct epd_arrival {
	struct epd_store *s;
	int dirfd;			/* the folder, marked as being filled */
	struct epd_run *run;
	struct epd_run_shape shape;
	const struct epd_codec *codec;
	struct epd_page_entry *entry;
	void **page;			/* in the run */
	uint64_t *bytes, *sum;		/* as they travel */
	uint64_t *at;			/* packed, in memory */
	uint8_t *memory;
	uint32_t n;
};

static int
check(const struct epd_arrival *x, const struct epd_pages_ask *a,
    struct epd_why *why)
{
	const struct epd_run_shape *sh = &a->shape;
	const uint64_t size = sh->type ? 2 : 4, n = sh->bytes / size;
	const uint64_t most = x->codec ? x->codec->bound(sh->type, n) :
	    sh->bytes;

	if (sh->kind != EPD_OBJECT_KV_PAGE || sh->type > 1 ||
	    (sh->tokens != 16 && sh->tokens != 64) || !sh->bytes ||
	    sh->bytes > BYTES_MAX || sh->bytes % (size * EPD_CODEC_ROW))
		return epd_why(why, EPD_EFORMAT, "pages of a shape that none "
		    "have");
	for (uint32_t i = 0; i < a->n; i++) {
		const struct epd_page_ask *p = a->page + i;

		if (!p->there)
			continue;
		if (!p->entry.rows || p->entry.rows > sh->tokens ||
		    !p->bytes || p->bytes > most ||
		    (!x->codec && p->bytes != sh->bytes))
			return epd_why(why, EPD_EFORMAT, "page %u: %llu bytes, "
			    "%u rows", i, (unsigned long long)p->bytes,
			    p->entry.rows);
	}
	return 0;
}

/* The tier's cap bounds what anybody may ask for. */
static int
fits(const struct epd_arrival *x, struct epd_why *why)
{
	const uint64_t cap = epd_memory_cap(x->s->memory);

	return x->n <= cap / x->shape.bytes ? 0 :
	    epd_why(why, EPD_ETOOBIG, "%u pages of %llu bytes: the memory tier "
	    "holds %llu", x->n, (unsigned long long)x->shape.bytes,
	    (unsigned long long)cap);
}

/* Others give way to what has come. */
static int
make_room(const struct epd_arrival *x)
{
	struct epd_memory_fit fit;
	const int rc = epd_store_room(x->s, x->n * x->shape.bytes, &fit, NULL);

	return rc == 0 && fit.over ? -ENOSPC : rc;
}

/* Where the file system is full below the cap others give way too. */
static int
add_page(struct epd_arrival *x, void **page)
{
	int rc;

	do
		rc = epd_run_add(x->run, page);
	while (rc == -ENOSPC && epd_store_squeeze(x->s, x->shape.bytes) > 0);
	return rc;
}

static int
room(struct epd_arrival *x, const struct epd_pages_ask *a, struct epd_why *why)
{
	uint64_t at = 0, total = 0;
	uint32_t k = 0;
	int rc = fits(x, why);

	for (uint32_t i = 0; x->codec && i < a->n; i++)
		total += a->page[i].there ? a->page[i].bytes : 0;
	x->entry = epd_calloc(x->n + 1u, sizeof *x->entry);
	x->page = epd_calloc(x->n + 1u, sizeof *x->page);
	x->bytes = epd_calloc(x->n + 1u, sizeof *x->bytes);
	x->sum = epd_calloc(x->n + 1u, sizeof *x->sum);
	x->at = epd_calloc(x->n + 1u, sizeof *x->at);
	/* A guest may read what it is to write: nothing of others is in it. */
	x->memory = epd_calloc(1, (size_t)total + 1);
	if (rc == 0 && (!x->entry || !x->page || !x->bytes || !x->sum ||
	    !x->at || !x->memory))
		rc = -ENOMEM;
	if (rc == 0)
		rc = epd_run_new(&x->run, x->dirfd, &x->shape);
	for (uint32_t i = 0; rc == 0 && i < a->n; i++) {
		const struct epd_page_ask *p = a->page + i;

		if (!p->there)
			continue;
		if ((rc = add_page(x, x->page + k)) < 0)
			break;
		x->entry[k] = p->entry;
		if (a->as)
			x->entry[k].name = a->as[i];
		x->bytes[k] = p->bytes;
		x->sum[k] = p->packed_sum;
		x->at[k++] = at;
		at += x->codec ? p->bytes : 0;
	}
	return rc < 0 ? epd_why(why, rc, "memory tier: %s", epd_strerror(rc)) :
	    0;
}

int
epd_arrival_open(struct epd_arrival **out, struct epd_store *s,
    const char *workflow, const struct epd_codecs *codecs,
    const struct epd_pages_ask *a, struct epd_why *why)
{
	struct epd_arrival *x = epd_calloc(1, sizeof *x);
	int rc;

	if (!x)
		return epd_why(why, -ENOMEM, "no memory");
	x->s = s;
	x->shape = a->shape;
	x->codec = epd_codec_of(codecs, a->codec);
	x->dirfd = -1;
	for (uint32_t i = 0; i < a->n; i++)
		x->n += a->page[i].there;
	if (!x->codec && *a->codec && strcmp(a->codec, "none"))
		rc = epd_why(why, EPD_EUNSUPPORTED, "%.15s: no such codec "
		    "here", a->codec);
	else
		rc = check(x, a, why);
	if (rc == 0 && (rc = x->dirfd = epd_memory_dir(s->memory,
	    workflow)) < 0)
		epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	if (rc >= 0) {
		/* A sweep that sees it leaves what no record names yet. */
		rc = epd_lock_share(x->dirfd, BUSY_MS);
		rc = rc < 0 ? epd_why(why, rc, "memory tier: %s",
		    epd_strerror(rc)) : room(x, a, why);
	}
	if (rc < 0) {
		epd_arrival_free(x);
		return rc;
	}
	*out = x;
	return 0;
}

void
epd_arrival_free(struct epd_arrival *x)
{
	if (!x)
		return;
	epd_run_close(x->run);
	if (x->dirfd >= 0)
		close(x->dirfd);
	epd_free(x->entry);
	epd_free(x->page);
	epd_free(x->bytes);
	epd_free(x->sum);
	epd_free(x->at);
	epd_free(x->memory);
	epd_free(x);
}

uint32_t
epd_arrival_count(const struct epd_arrival *x)
{
	return x->n;
}

void *
epd_arrival_place(const struct epd_arrival *x, uint32_t i, uint64_t *bytes)
{
	*bytes = x->bytes[i];
	return x->codec ? x->memory + x->at[i] : x->page[i];
}

static int
unpack(struct epd_arrival *x, struct epd_why *why)
{
	const uint64_t n = x->shape.bytes / (x->shape.type ? 2 : 4);
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && x->codec && i < x->n; i++) {
		const uint8_t *p = x->memory + x->at[i];

		if (epd_xxh3_64(p, (size_t)x->bytes[i]) != x->sum[i])
			rc = EPD_ECORRUPT;
		else
			rc = x->codec->unpack(x->page[i], x->shape.type, n, p,
			    x->bytes[i]);
	}
	return rc < 0 ? epd_why(why, rc, "packed pages: %s",
	    epd_strerror(rc)) : 0;
}

int
epd_arrival_keep(struct epd_arrival *x, int trusted, uint64_t *run,
    struct epd_why *why)
{
	uint64_t id;
	int rc = unpack(x, why);

	for (uint32_t i = 0; rc == 0 && i < x->n; i++)
		if (epd_xxh3_64(x->page[i], (size_t)x->shape.bytes) !=
		    x->entry[i].sum) {
			epd_count(x->s->metrics, EPD_M_CHECKSUM_FAILURES, 1);
			rc = epd_why(why, EPD_ECORRUPT, "page %u came damaged",
			    i);
		}
	if (rc < 0 || (rc = epd_run_id(&id)) < 0)
		return rc;
	if ((rc = make_room(x)) < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	if (!trusted || x->codec)
		epd_run_given(x->run);
	rc = epd_run_publish(x->run, id, x->entry, (long)x->n);
	if (rc < 0)
		return epd_why(why, rc, "memory tier: %s", epd_strerror(rc));
	*run = id;
	return 0;
}

void
epd_arrival_undo(struct epd_store *s, const char *workflow, uint64_t run)
{
	const int fd = epd_memory_find(s->memory, workflow);

	if (fd < 0)
		return;
	(void)epd_run_free(fd, run);
	close(fd);
}
