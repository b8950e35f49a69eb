/*
 * folder.c - a tier's folder, memory's or the disk's: what lies there and is nobody's.
 * What is in a folder of no workflow goes with it, and is not told by itself.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "flow/folder.h"
#include "page/page.h"

#define LLU(x) ((unsigned long long)(x))

enum { YOUNG_MS = 1000 };	/* a run's record may be under way */

/* In a workflow's folder that goes as a whole. */
static int
is_adrift(const struct epd_store *s, const char *path)
{
	char name[NAME_MAX + 1];
	const char *end = strncmp(path, "w/", 2) ? NULL : strchr(path + 2, '/');

	if (!end)
		return 0;
	snprintf(name, sizeof name, "%.*s", (int)(end - path - 2), path + 2);
	return !epd_is_workflow(s, name);
}

struct strange {
	const struct epd_teller *t;
	const struct epd_folder *f;
	int index;		/* something else stands in its place */
};

static int
tell_strange(void *arg, int dirfd, const char *path)
{
	struct strange *k = arg;
	const char *last = strrchr(path, '/');
	struct stat st;

	if (is_adrift(k->t->s, path) || fstatat(dirfd, last ? last + 1 : path,
	    &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!strcmp(path, "pages")) {
		k->index = 1;
		epd_tell(k->t, EPD_LITTER, "%s: pages: %s, and no index",
		    k->f->name, epd_kind_of(st.st_mode));
	} else if (!strcmp(path, "store")) {
		epd_tell(k->t, EPD_LITTER, "%s: store: %s, and not the "
		    "store's path", k->f->name, epd_kind_of(st.st_mode));
	} else {
		epd_tell(k->t, EPD_LITTER, "%s: %.140s: no run, nor a folder "
		    "of runs", k->f->name, path);
	}
	return 0;
}

int
epd_folder_tell_strange(const struct epd_teller *t, const struct epd_folder *f,
    const char *workflow, int *index)
{
	struct strange k = { t, f, 0 };
	int rc = epd_memory_strange(f->m, workflow, tell_strange, &k);

	*index = k.index;
	return rc;
}

static int
tell_adrift(void *arg, const char *name)
{
	const struct strange *k = arg;

	if (!epd_is_workflow(k->t->s, name))
		epd_tell(k->t, EPD_LITTER, "%s: w/%.140s: of no workflow",
		    k->f->name, name);
	return 0;
}

int
epd_folder_tell_adrift(const struct epd_teller *t, const struct epd_folder *f)
{
	struct strange k = { t, f, 0 };

	return epd_memory_each(f->m, tell_adrift, &k);
}

/* Another user's is not ours to have. */
void
epd_folder_tell_shut(const struct epd_teller *t, const struct epd_folder *f)
{
	struct epd_why why = {{0}};
	struct stat st;

	if (fstat(t->s->dirfd, &st) == 0 && st.st_uid == geteuid() &&
	    epd_memory_shut(f->m, &why) < 0)
		epd_tell(t, EPD_FAULT, "%s: %s; nobody can write here until "
		    "that is gone", f->name, why.text);
}

void
epd_folder_tell_orphans(const struct epd_teller *t, const struct epd_folder *f,
    int dir, const struct epd_run_ids *o)
{
	const uint64_t now = epd_clock_wall_ms();
	char name[EPD_RUN_NAME], first[EPD_RUN_NAME] = "";
	uint64_t n = 0, bytes = 0;
	struct stat st;

	for (size_t i = 0; i < o->n; i++) {
		epd_run_format(name, o->v[i]);
		if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
		    (uint64_t)st.st_ctim.tv_sec * 1000 +
		    (uint64_t)st.st_ctim.tv_nsec / 1000000 + YOUNG_MS > now)
			continue;
		if (n++ == 0)
			memcpy(first, name, sizeof first);
		bytes += epd_bytes_back(&st);
	}
	if (n)
		epd_tell(t, EPD_LITTER, "%llu run%s%s that no version shows, "
		    "%llu bytes: %s%s", LLU(n), n == 1 ? "" : "s", f->where,
		    LLU(bytes), first, n > 1 ? " ..." : "");
}

/* ---- taken ---- */

struct taking {
	struct epd_store *s;
	const struct epd_folder *f;
	uint64_t *n, *bytes;
	epd_folder_failed_fn *failed;
	void *arg;
};

static int
take_strange(void *arg, int dirfd, const char *path)
{
	const struct taking *k = arg;
	const char *last = strrchr(path, '/');

	if (!is_adrift(k->s, path))
		epd_litter_remove(dirfd, last ? last + 1 : path, k->n,
		    k->bytes);
	return 0;
}

int
epd_folder_take_strange(struct epd_store *s, const struct epd_folder *f,
    uint64_t *n, uint64_t *bytes)
{
	struct taking k = { .s = s, .f = f, .n = n, .bytes = bytes };

	return epd_memory_strange(f->m, NULL, take_strange, &k);
}

static int
take_adrift(void *arg, const char *name)
{
	const struct taking *k = arg;
	uint64_t names, bytes = 0;
	char text[256];
	int rc, dir;

	if (epd_is_workflow(k->s, name))
		return 0;
	if ((dir = epd_memory_find(k->f->m, name)) >= 0) {
		(void)epd_memory_weigh(dir, &names, &bytes);
		close(dir);
	}
	if ((rc = epd_memory_remove(k->f->m, name)) < 0) {
		snprintf(text, sizeof text, "%s: w/%.140s: %s", k->f->name,
		    name, epd_strerror(rc));
		k->failed(k->arg, rc, text);
		return 0;
	}
	++*k->n;
	*k->bytes += bytes;
	return 0;
}

int
epd_folder_take_adrift(struct epd_store *s, const struct epd_folder *f,
    uint64_t *n, uint64_t *bytes, epd_folder_failed_fn *failed, void *arg)
{
	struct taking k = { s, f, n, bytes, failed, arg };

	return epd_memory_each(f->m, take_adrift, &k);
}
