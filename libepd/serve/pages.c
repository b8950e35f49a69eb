/* pages.c - pages that a guest reads, and pages that it brings. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "serve/guest.h"

/* ---- reading ---- */

static int
answer_have(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_page_ask *page;
	uint8_t *have;
	uint32_t n;
	int rc = epd_ask_pages_unpack(c, &page, &n);

	if (rc == 0 && epd_cur_left(c)) {
		epd_free(page);
		rc = EPD_EFORMAT;
	}
	if (rc < 0)
		return epd_why(why, rc, "a question that is none");
	have = epd_buf_add(answer, n);
	rc = have ? 0 : -ENOMEM;
	if (rc == 0)
		memset(have, 0, n);
	if (rc == 0)
		rc = epd_gift_have(g->s, page, n, have);
	epd_free(page);
	return rc;
}

static int
read_window(struct epd_guest *g, struct epd_pages_ask *a,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_window *w = epd_window_new(EPD_WINDOW_PAGES_OUT, a->n);
	int rc;

	if (!w)
		return epd_why(why, -ENOMEM, "no memory");
	rc = epd_guest_room(g, why);
	if (rc == 0)
		rc = epd_gift_find(&w->gift, g->s, g->s->codecs, a, why);
	if (rc == 0 && !g->near)
		epd_gift_look(w->gift, a);
	for (uint32_t i = 0; rc == 0 && i < a->n; i++)
		if (a->page[i].there)
			epd_gift_page(w->gift, i, w->extent + w->n++);
	if (rc < 0 || !w->n) {
		epd_window_free(g, w);
		a->window = 0;
		return rc;
	}
	epd_guest_holds(g, w, epd_gift_files(w->gift));
	epd_window_enter(g, w, opened);
	a->window = w->id;
	return 0;
}

static int
answer_read(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_pages_ask a;
	int rc = epd_pages_ask_unpack(c, &a);

	if (rc < 0 || epd_cur_left(c) || (*a.workflow &&
	    !epd_workflow_name_ok(a.workflow))) {
		epd_pages_ask_free(&a);
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	}
	rc = read_window(g, &a, opened, why);
	if (rc == 0)
		epd_pages_ask_pack(answer, &a);
	epd_pages_ask_free(&a);
	return rc;
}

/* ---- writing ---- */

/* The workflow it names by uuid is there. */
static int
check_workflow(struct epd_guest *g, const struct epd_pages_ask *a,
    struct epd_why *why)
{
	struct epd_workflow w;
	uint8_t uuid[16];
	int rc;

	if (!epd_workflow_name_ok(a->workflow))
		return epd_why(why, EPD_ENOTHING, "no such workflow");
	rc = epd_workflow_open(&w, g->s, a->workflow, 1, NULL);
	if (rc < 0)
		return epd_why(why, rc, "no such workflow");
	epd_shard_uuid(w.shard, uuid);
	epd_workflow_close(&w);
	return memcmp(uuid, a->uuid, 16) ? epd_why(why, EPD_ENOTHING,
	    "another workflow has its name") : 0;
}

/* What it takes here: the pages, and their packed form beside them. */
static uint64_t
charge_of(const struct epd_pages_ask *a)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < a->n; i++) {
		const struct epd_page_ask *p = a->page + i;
		const uint64_t each = p->there ? a->shape.bytes : 0;

		if (__builtin_add_overflow(sum, each, &sum) ||
		    (p->there && p->bytes != a->shape.bytes &&
		    __builtin_add_overflow(sum, p->bytes, &sum)))
			return UINT64_MAX;
	}
	return sum;
}

static int
write_window(struct epd_guest *g, const struct epd_pages_ask *a,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_window *w = epd_window_new(EPD_WINDOW_PAGES_IN, a->n);
	const uint64_t bytes = charge_of(a);
	int rc;

	if (!w)
		return epd_why(why, -ENOMEM, "no memory");
	rc = bytes ? epd_serving_take(g->of, bytes, why) :
	    epd_why(why, EPD_EFORMAT, "pages of no bytes");
	if (rc == 0) {
		w->charged = bytes;
		rc = epd_kept_take(epd_serving_kept(g->of), g, bytes, why);
	}
	if (rc == 0) {
		w->unnamed = bytes;
		rc = epd_arrival_open(&w->arrival, g->s, a->workflow,
		    g->s->codecs, a, why);
	}
	if (rc < 0) {
		epd_window_free(g, w);
		return rc;
	}
	w->n = epd_arrival_count(w->arrival);
	for (uint32_t i = 0; i < w->n; i++) {
		struct epd_extent *e = w->extent + i;

		*e = (struct epd_extent){ .fd = -1 };
		e->p = epd_arrival_place(w->arrival, i, &e->bytes);
	}
	memcpy(w->workflow, a->workflow, sizeof w->workflow);
	epd_window_enter(g, w, opened);
	return 0;
}

static int
answer_write(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_pages_ask a;
	uint32_t there = 0;
	int rc = epd_pages_ask_unpack(c, &a);

	for (uint32_t i = 0; rc == 0 && i < a.n; i++)
		there += a.page[i].there;
	if (rc < 0 || epd_cur_left(c) || !there) {
		epd_pages_ask_free(&a);
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	}
	rc = check_workflow(g, &a, why);
	if (rc == 0)
		rc = write_window(g, &a, opened, why);
	if (rc == 0)
		epd_pack_u64(answer, opened->id);
	epd_pages_ask_free(&a);
	return rc;
}

static struct epd_window *
take_window(struct epd_guest *g, struct epd_cur *c, enum epd_window_kind kind)
{
	struct epd_window *w = epd_window_find(g, epd_unpack_u64(c));

	return c->failed || epd_cur_left(c) || !w || w->kind != kind ? NULL : w;
}

/*
 * What is a run now is no memory to be written, and goes when the run has a name in the
 * log, though the window may stay.
 */
static void
lead_nowhere(struct epd_window *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		w->extent[i].p = NULL;
		w->extent[i].fd = -1;
	}
}

static int
answer_keep(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_window *w = take_window(g, c, EPD_WINDOW_PAGES_IN);
	struct epd_kept k = { .by = g };
	int rc;

	if (!w || !w->arrival)
		return epd_why(why, EPD_EFORMAT, "no such window");
	k.bytes = w->unnamed;
	lead_nowhere(w);
	rc = epd_arrival_keep(w->arrival, g->s->config.trust_peers, &k.run,
	    why);
	if (rc < 0)
		return rc;
	k.arrival = w->arrival;
	memcpy(k.workflow, w->workflow, sizeof w->workflow);
	epd_kept_add(epd_serving_kept(g->of), &k);
	w->unnamed = 0;
	w->arrival = NULL;
	epd_pack_u64(answer, k.run);
	return 0;
}

/* ---- linking ---- */

/* A file that the guest's process has open, for reading; only if it is this user's and plain. */
static int
open_anothers(pid_t pid, uint32_t fd)
{
	char path[48];
	struct stat st;
	int look, file;

	snprintf(path, sizeof path, "/proc/%ld/fd/%u", (long)pid, fd);
	/* What it is must be known before it is opened: it may be anything. */
	if ((look = open(path, O_PATH | O_CLOEXEC)) < 0)
		return -errno;
	if (fstat(look, &st) || !S_ISREG(st.st_mode) ||
	    st.st_uid != geteuid()) {
		close(look);
		return -EPERM;
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", look);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0)
		file = -errno;
	close(look);
	return file;
}

/* An open file, linked under an id of ours. */
static int
link_run(struct epd_guest *g, const char *workflow, int file, uint64_t *run)
{
	struct epd_kept_list *l = epd_serving_kept(g->of);
	const int dirfd = epd_guest_mark(g, workflow);
	struct epd_kept k = { .by = g };
	struct stat st;
	int rc;

	if (dirfd < 0)
		return dirfd;
	if (fstat(file, &st))
		return -errno;
	k.bytes = (uint64_t)st.st_size;
	if ((rc = epd_kept_take(l, g, k.bytes, NULL)) < 0)
		return rc;
	rc = epd_run_id(&k.run);
	if (rc >= 0)
		rc = epd_run_adopt(file, dirfd, k.run);
	if (rc < 0) {
		epd_kept_give(l, g, k.bytes);
		return rc;
	}
	memcpy(k.workflow, workflow, strlen(workflow) + 1);
	epd_kept_add(l, &k);
	*run = k.run;
	return 0;
}

static int
adopt(struct epd_guest *g, const char *workflow, uint32_t fd, uint64_t *run)
{
	const int file = open_anothers(g->near, fd);
	int rc;

	if (file < 0)
		return file;
	rc = link_run(g, workflow, file, run);
	close(file);
	return rc;
}

static int
answer_adopt(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_pages_ask a = { .n = 0 };
	uint32_t n;
	int rc;

	if (!g->near)
		return epd_why(why, EPD_EUNSUPPORTED, "files go between "
		    "processes of one machine");
	(void)epd_ask_take_str(c, a.workflow, sizeof a.workflow);
	for (size_t i = 0; i < sizeof a.uuid; i++)
		a.uuid[i] = epd_unpack_u8(c);
	n = epd_unpack_u32(c);
	if (c->failed || n > EPD_ASK_FILES || epd_cur_left(c) != n * 4u)
		return epd_why(why, EPD_EFORMAT, "a question that is none");
	if ((rc = check_workflow(g, &a, why)) < 0)
		return rc;
	for (uint32_t i = 0; i < n; i++) {
		uint64_t run = 0;

		/* One that cannot be is sent instead. */
		if (adopt(g, a.workflow, epd_unpack_u32(c), &run) < 0)
			run = 0;
		epd_pack_u64(answer, run);
	}
	return 0;
}

int
epd_guest_pages(struct epd_guest *g, enum epd_ask verb, struct epd_cur *c,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why)
{
	switch (verb) {
	case EPD_ASK_HAVE: return answer_have(g, c, answer, why);
	case EPD_ASK_READ_PAGES: return answer_read(g, c, answer, opened, why);
	case EPD_ASK_WRITE_PAGES:
		return answer_write(g, c, answer, opened, why);
	case EPD_ASK_ADOPT_PAGES: return answer_adopt(g, c, answer, why);
	default: return answer_keep(g, c, answer, why);
	}
}
