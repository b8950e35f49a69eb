/*
 * view.h - for tests of views and housekeeping: a store made by hand, whose
 * states have pages in memory, with no model and no engine.
 */
#ifndef TESTS_VIEW_H
#define TESTS_VIEW_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "engine/engine.h"
#include "flow/store.h"
#include "flow/view.h"
#include "page/page.h"
#include "tests/check.h"

enum { T = 16, PAGE = 4096, TOKENS = 40, PAGES = 3 };

struct fixture {
	char dir[64];
	struct epd_store *s;
	struct epd_name base;
};

static const struct epd_run_shape shape = {
	.kind = EPD_OBJECT_KV_PAGE, .type = EPD_BF16, .tokens = T,
	.bytes = PAGE,
};

/* A run of pages named as their tokens say. */
static inline int
publish(struct fixture *f, struct epd_workflow *w, const int32_t *ids,
    struct epd_page_ref *ref, uint64_t *run)
{
	struct epd_page_entry e[PAGES];
	struct epd_name up = f->base;
	struct epd_run *r;
	int rc = epd_run_new(&r, w->runs, &shape);

	for (int i = 0; rc == 0 && i < PAGES; i++) {
		uint32_t rows = i < PAGES - 1 ? T : TOKENS - 1 - 2 * T;
		void *page;

		if ((rc = epd_run_add(r, &page)) < 0)
			break;
		memset(page, i + 1, PAGE);
		e[i].rows = rows;
		epd_page_name(&e[i].name, &up, ids + i * T, rows, NULL, 0);
		up = e[i].name;
	}
	if (rc == 0 && (rc = epd_run_id(run)) == 0)
		rc = epd_run_publish(r, *run, e, PAGES);
	for (int i = 0; rc == 0 && i < PAGES; i++)
		ref[i] = (struct epd_page_ref){ e[i].name, e[i].rows,
		    e[i].sum };
	epd_run_close(r);
	return rc;
}

static inline int
make_state(struct fixture *f, const char *workflow, uint64_t ttl)
{
	struct epd_workflow w;
	char name[EPD_WORKFLOW];
	int32_t ids[TOKENS];
	struct epd_page_ref pages[PAGES];
	struct epd_version v = { .ids = ids, .nids = TOKENS,
	    .pages = pages, .npages = PAGES, .next_pos = TOKENS };
	struct epd_state st = { .page_tokens = T, .kv_type = EPD_BF16,
	    .page_bytes = PAGE, .base = f->base, .model_path = "/m",
	    .tenant = "", .fingerprint = "{\"merge\": 2}",
	    .ttl_deadline_ms = ttl };
	uint32_t id;
	int rc = epd_workflow_make(f->s, workflow, name, NULL);

	for (int i = 0; i < TOKENS; i++)
		ids[i] = i;
	if (rc == 0)
		rc = epd_workflow_open(&w, f->s, name, 0, NULL);
	if (rc < 0)
		return rc;
	rc = publish(f, &w, ids, pages, &v.run);
	if (rc == 0)
		rc = epd_shard_create(w.shard, &st, &v, &id, NULL);
	if (rc == 0 && !ttl) {
		struct epd_version next = { .ids = ids, .nids = 1,
		    .first_page = PAGES - 1, .next_pos = TOKENS + 1 };
		uint32_t version;

		next.npages = 0;
		rc = epd_shard_advance(w.shard, id, 1, 0, &next, &version,
		    NULL);
	}
	epd_workflow_close(&w);
	return rc;
}

static inline int
open_store(struct fixture *f, int look)
{
	struct epd_config c;
	struct epd_store_options o = { .config = &c, .create = !look,
	    .look = look };
	char store[128];

	epd_config_default(&c);
	c.log_keep = -1;
	snprintf(c.memory_dir, sizeof c.memory_dir, "%s/memory", f->dir);
	snprintf(store, sizeof store, "%s/store", f->dir);
	c.state_sync = 0;
	o.path = store;
	return epd_store_open(&f->s, &o, NULL);
}

static inline int
begin(struct fixture *f)
{
	const char *tmp = getenv("TMPDIR");
	char path[128];
	int fd;

	memset(f, 0, sizeof *f);
	snprintf(f->dir, sizeof f->dir, "%s/epd-view-XXXXXX",
	    tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(f->dir))
		return -errno;
	snprintf(path, sizeof path, "%s/memory", f->dir);
	if ((fd = epd_dir_root(path, 1)) < 0)
		return fd;
	close(fd);
	memset(f->base.b, 7, sizeof f->base.b);
	return open_store(f, 0);
}

static inline void
end(struct fixture *f)
{
	int fd = open("/", O_RDONLY | O_DIRECTORY);

	epd_store_close(f->s);
	epd_file_remove(fd, f->dir + 1);
	close(fd);
}

static inline int
count(void *arg, const struct epd_state_line *l)
{
	(void)l;
	++*(int *)arg;
	return 0;
}

static inline void
tally(void *arg, const char *text)
{
	printf("# %s\n", text);
	++*(int *)arg;
}

#endif
