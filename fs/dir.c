/* dir.c - directories of many: what is in them, found one by one or listed. */
#include "fs/dir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fs/text.h"

/* ---- numbers and names ---- */

int
epd_fs_number(const char *name, const char *prefix, uint32_t *out)
{
	size_t n = strlen(prefix), digits;
	unsigned long long v;

	if (strncmp(name, prefix, n))
		return -ENOENT;
	name += n;
	digits = strspn(name, "0123456789");
	if (!digits || digits > 10 || name[digits] ||
	    (*name == '0' && digits > 1))
		return -ENOENT;
	v = strtoull(name, NULL, 10);
	if (v > UINT32_MAX)
		return -ENOENT;
	*out = (uint32_t)v;
	return 0;
}

static int
hex(const char *name, void *out, size_t n)
{
	return strlen(name) == 2 * n && epd_hex_parse(out, n, name) == 0 &&
	    strspn(name, "0123456789abcdef") == 2 * n ? 0 : -ENOENT;
}

/* ---- workflows, states, versions ---- */

int
epd_fs_find_workflow(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	struct epd_fs_workflow *w;
	int rc = epd_fs_named(fs, name, &w, NULL);

	if (rc == EPD_ENOTHING)
		return rc;
	/* One that is damaged is there, and says what is wrong with it. */
	*out = epd_fs_in(dir, EPD_FS_WORKFLOW);
	snprintf(out->workflow, sizeof out->workflow, "%s", name);
	out->life = w->life;
	return 0;
}

int
epd_fs_list_workflows(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_WORKFLOW);
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < fs->workflows; i++) {
		const struct epd_fs_workflow *w = fs->workflow[i];

		strcpy(at.workflow, w->name);
		at.life = w->life;
		rc = fn(arg, w->name, &at);
	}
	return rc;
}

/* The state that a name is of. */
static int
state_of(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_state *st)
{
	struct epd_watch *w;
	uint32_t id;
	int rc = epd_fs_number(name, "s", &id);

	if (rc == 0)
		rc = epd_fs_watch(fs, dir, &w, NULL);
	return rc < 0 ? rc : epd_shard_state(epd_watch_shard(w), id, st);
}

/* All states, or those that have the directory's for their parent. */
static int
list_as(struct epd_fs *fs, const struct epd_fs_at *dir, enum epd_fs_id kind,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at = epd_fs_in(dir, kind);
	struct epd_watch *w;
	struct epd_state st = {0};
	char name[16];
	int rc = epd_fs_watch(fs, dir, &w, NULL);

	while (rc == 0 &&
	    (rc = epd_shard_next(epd_watch_shard(w), st.id, &st)) == 0) {
		if (kind == EPD_FS_CHILD && st.parent_state != dir->state)
			continue;
		*(kind == EPD_FS_CHILD ? &at.index : &at.state) = st.id;
		snprintf(name, sizeof name, "s%u", st.id);
		rc = fn(arg, name, &at);
	}
	return rc == EPD_ENOSTATE ? 0 : rc;
}

int
epd_fs_find_state(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out)
{
	struct epd_state st;
	int rc = state_of(fs, dir, name, &st);

	if (rc < 0)
		return rc;
	*out = epd_fs_in(dir, EPD_FS_STATE);
	out->state = st.id;
	return 0;
}

int
epd_fs_list_states(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	return list_as(fs, dir, EPD_FS_STATE, fn, arg);
}

int
epd_fs_find_child(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out)
{
	struct epd_state st;
	int rc = state_of(fs, dir, name, &st);

	if (rc < 0 || st.parent_state != dir->state)
		return rc < 0 ? rc : -ENOENT;
	*out = epd_fs_in(dir, EPD_FS_CHILD);
	out->index = st.id;
	return 0;
}

int
epd_fs_list_children(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	return list_as(fs, dir, EPD_FS_CHILD, fn, arg);
}

int
epd_fs_find_version(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	struct epd_watch *w;
	struct epd_state st;
	uint32_t k;
	int rc = epd_fs_number(name, "", &k);

	if (rc == 0)
		rc = epd_fs_watch(fs, dir, &w, NULL);
	if (rc == 0)
		rc = epd_shard_state(epd_watch_shard(w), dir->state, &st);
	if (rc == 0 && (!k || k > st.versions))
		rc = -ENOENT;
	if (rc == 0) {
		*out = epd_fs_in(dir, EPD_FS_VERSION);
		out->version = k;
	}
	return rc;
}

int
epd_fs_list_versions(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_VERSION);
	struct epd_watch *w;
	struct epd_state st;
	char name[16];
	int rc = epd_fs_watch(fs, dir, &w, NULL);

	if (rc == 0)
		rc = epd_shard_state(epd_watch_shard(w), dir->state, &st);
	for (uint32_t k = 1; rc == 0 && k <= st.versions; k++) {
		at.version = k;
		snprintf(name, sizeof name, "%u", k);
		rc = fn(arg, name, &at);
	}
	return rc;
}

/* ---- a version's pages and features ---- */

struct picking {
	const struct epd_fs_at *dir;
	epd_fs_entry_fn *fn;
	void *arg;
	const char *name;	/* the one wanted, or NULL: all */
	struct epd_fs_at *out;
	uint32_t n;
};

enum { FOUND = 1 };

static int
pick(struct picking *p, const char *name, enum epd_fs_id kind,
    const struct epd_name *id)
{
	struct epd_fs_at at = epd_fs_in(p->dir, kind);

	at.id = *id;
	at.index = p->n++;
	if (!p->name)
		return p->fn(p->arg, name, &at);
	if (strcmp(name, p->name))
		return 0;
	*p->out = at;
	return FOUND;
}

static int
pick_page(void *arg, const struct epd_page_sight *s)
{
	struct picking *p = arg;
	char name[16];

	snprintf(name, sizeof name, "%04u", p->n);
	return pick(p, name, EPD_FS_TABLE_PAGE, &s->ref->name);
}

static int
pick_bundles(void *arg, const struct epd_sight *v)
{
	struct picking *p = arg;
	char name[16];
	int rc = 0;

	for (uint32_t i = 0; rc == 0 && i < v->line.images; i++) {
		snprintf(name, sizeof name, "%u", i);
		rc = pick(p, name, EPD_FS_BUNDLE, &v->images[i].fp);
	}
	return rc;
}

static int
pick_from(struct epd_fs *fs, struct picking *p)
{
	const struct epd_fs_at *dir = p->dir;
	struct epd_watch *w;
	int rc = epd_fs_watch(fs, dir, &w, NULL);

	if (rc == 0)
		rc = dir->kind == EPD_FS_TABLE ? epd_watch_table(w, dir->state,
		    dir->version, pick_page, p, NULL) : epd_watch_state(w,
		    dir->state, dir->version, pick_bundles, p, NULL);
	if (!p->name)
		return rc;
	return rc == FOUND ? 0 : rc == 0 ? -ENOENT : rc;
}

int
epd_fs_find_part(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	struct picking p = { .dir = dir, .name = name, .out = out };

	return pick_from(fs, &p);
}

int
epd_fs_list_parts(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct picking p = { .dir = dir, .fn = fn, .arg = arg };

	return pick_from(fs, &p);
}

/* ---- pages, features, hand-offs, tiers ---- */

int
epd_fs_find_page(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_PAGE);
	struct epd_fs_workflow *in;
	struct epd_fs_page p;
	int rc = hex(name, at.id.b, EPD_NAME);

	if (rc == 0)
		rc = epd_fs_page(fs, &at.id, &p, &in);
	if (rc == 0)
		*out = at;
	return rc;
}

int
epd_fs_list_pages(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_PAGE);
	struct epd_name *name = NULL;
	size_t n = 0;
	char text[2 * EPD_NAME + 1];
	int rc = epd_fs_page_names(fs, &name, &n);

	for (size_t i = 0; rc == 0 && i < n; i++) {
		at.id = name[i];
		epd_hex_format(text, at.id.b, EPD_NAME);
		rc = fn(arg, text, &at);
	}
	epd_free(name);
	return rc;
}

int
epd_fs_find_feature(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_FEATURE);
	struct epd_feature_meta m;
	int rc = hex(name, at.id.b, EPD_NAME);

	if (rc == 0)
		rc = epd_feature_meta(fs->store->features, &at.id, &m);
	if (rc == 0)
		*out = at;
	return rc;
}

static int
list_feature(void *arg, const struct epd_name *fp)
{
	struct picking *p = arg;
	char text[2 * EPD_NAME + 1];

	epd_hex_format(text, fp->b, EPD_NAME);
	return pick(p, text, EPD_FS_FEATURE, fp);
}

int
epd_fs_list_features(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct picking p = { .dir = dir, .fn = fn, .arg = arg };

	return epd_feature_each(fs->store->features, "", list_feature, &p);
}

int
epd_fs_find_handoff(struct epd_fs *fs, const struct epd_fs_at *dir,
    const char *name, struct epd_fs_at *out)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_HANDOFF);
	struct epd_handoff h;
	struct epd_watch *w;
	int rc = hex(name, at.id.b, sizeof h.id);

	if (rc == 0)
		rc = epd_fs_watch(fs, dir, &w, NULL);
	if (rc == 0)
		rc = epd_shard_handoff(epd_watch_shard(w), at.id.b, &h);
	if (rc == 0)
		*out = at;
	return rc;
}

int
epd_fs_list_handoffs(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at = epd_fs_in(dir, EPD_FS_HANDOFF);
	struct epd_handoff h = {0};
	struct epd_watch *w;
	char text[2 * sizeof h.id + 1];
	int rc = epd_fs_watch(fs, dir, &w, NULL);

	while (rc == 0 && (rc = epd_shard_handoff_next(epd_watch_shard(w),
	    h.lsn, &h)) == 0) {
		memcpy(at.id.b, h.id, sizeof h.id);
		epd_hex_format(text, h.id, sizeof h.id);
		rc = fn(arg, text, &at);
	}
	return rc == -ENOENT ? 0 : rc;
}

static const enum epd_tier tiers[] = { EPD_TIER_CPU, EPD_TIER_NVME };
enum { TIERS = sizeof tiers / sizeof *tiers };

static int
tier_at(struct epd_fs *fs, const struct epd_fs_at *dir, int i,
    struct epd_fs_at *out)
{
	struct epd_tier_sight sight;
	int rc = epd_view_tier(fs->store, tiers[i], 0, &sight);

	*out = epd_fs_in(dir, EPD_FS_TIER);
	out->index = (uint32_t)tiers[i];
	return rc;
}

int
epd_fs_find_tier(struct epd_fs *fs, const struct epd_fs_at *dir, const char *name,
    struct epd_fs_at *out)
{
	int i = 0;

	while (i < TIERS && strcmp(epd_tier_name(tiers[i]), name))
		i++;
	return i < TIERS ? tier_at(fs, dir, i, out) : -ENOENT;
}

int
epd_fs_list_tiers(struct epd_fs *fs, const struct epd_fs_at *dir,
    epd_fs_entry_fn *fn, void *arg)
{
	struct epd_fs_at at;
	int rc = 0;

	for (int i = 0; rc == 0 && i < TIERS; i++)
		if (tier_at(fs, dir, i, &at) == 0)
			rc = fn(arg, epd_tier_name(tiers[i]), &at);
	return rc;
}

/* ---- sizes that need no text ---- */

int
epd_fs_size_page(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	struct epd_fs_workflow *in;
	struct epd_fs_page p;
	int rc = epd_fs_page(fs, &at->id, &p, &in);

	if (rc == 0)
		*out = p.bytes;
	return rc;
}

int
epd_fs_size_blob(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	int fd = epd_feature_blob(fs->store->features, &at->id);
	struct stat st;
	int rc = fd < 0 ? fd : fstat(fd, &st) < 0 ? -errno : 0;

	/* A picture whose rows are not kept has no bytes; opening it says so. */
	*out = rc == 0 ? (uint64_t)st.st_size : 0;
	if (rc == -ENOENT)
		rc = 0;
	if (fd >= 0)
		close(fd);
	return rc;
}

int
epd_fs_size_log(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	struct epd_fs_workflow *w;
	int rc = epd_fs_followed(fs, at, &w, NULL);

	if (rc == 0)
		*out = epd_fs_stream_size(&w->log);
	return rc;
}

int
epd_fs_size_events(struct epd_fs *fs, const struct epd_fs_at *at, uint64_t *out)
{
	struct epd_fs_workflow *w;
	int rc = *at->workflow ? epd_fs_workflow(fs, at, &w, NULL) : 0;

	if (rc == 0)
		*out = epd_fs_stream_size(*at->workflow ? &w->events :
		    &fs->events);
	return rc;
}
