/* strange.c - what lies in the memory folder and is not the tier's. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "page/page.h"
#include "tier/inner.h"

struct strange {
	epd_memory_strange_fn *fn;
	void *arg;
	int top, w, dir;
	const char *workflow;	/* only this one's; NULL: all */
	const char *folder;	/* that dir is */
};

static int
tell(struct strange *k, int dirfd, const char *above, const char *name)
{
	char path[2 + 2 * (NAME_MAX + 1) + 1];

	snprintf(path, sizeof path, "%s%s%s", above, *above ? "/" : "", name);
	return k->fn(k->arg, dirfd, path);
}

static int
strange_run(void *arg, const char *name)
{
	struct strange *k = arg;
	char above[2 + NAME_MAX + 1];
	struct stat st;
	uint64_t run;

	if (fstatat(k->dir, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    (S_ISREG(st.st_mode) &&
	    (epd_is_temp(name) || !epd_run_parse(name, &run))))
		return 0;
	snprintf(above, sizeof above, "w/%s", k->folder);
	return tell(k, k->dir, above, name);
}

static int
strange_folder(void *arg, const char *name)
{
	struct strange *k = arg;
	struct stat st;
	int rc;

	if ((k->workflow && strcmp(k->workflow, name)) ||
	    fstatat(k->w, name, &st, AT_SYMLINK_NOFOLLOW))
		return 0;
	if (!S_ISDIR(st.st_mode) || !epd_memory_name_ok(name))
		return tell(k, k->w, "w", name);
	k->dir = epd_file_open(k->w, name, O_RDONLY | O_DIRECTORY, 0);
	if (k->dir < 0)
		return k->dir == -ENOENT ? 0 : k->dir;
	k->folder = name;
	rc = epd_dir_each(k->dir, strange_run, k);
	close(k->dir);
	return rc;
}

static int
strange_top(void *arg, const char *name)
{
	struct strange *k = arg;
	const int file = !strcmp(name, "store") || !strcmp(name, "pages");
	struct stat st;

	if (!strcmp(name, "w") || epd_is_temp(name) || (file &&
	    (fstatat(k->top, name, &st, AT_SYMLINK_NOFOLLOW) ||
	    S_ISREG(st.st_mode))))
		return 0;
	return tell(k, k->top, "", name);
}

int
epd_memory_strange(struct epd_memory *m, const char *workflow,
    epd_memory_strange_fn *fn, void *arg)
{
	struct strange k = {
		.fn = fn, .arg = arg, .top = m->dir, .w = m->w,
		.workflow = workflow,
	};
	int rc = m->w < 0 ? 0 : epd_dir_each(m->w, strange_folder, &k);

	return rc || workflow || m->dir < 0 ? rc :
	    epd_dir_each(m->dir, strange_top, &k);
}
