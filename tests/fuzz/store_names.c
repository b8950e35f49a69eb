/*
 * store_names.c - any name of a file, met wherever a folder is listed: what is
 * taken for one of ours is spelt as ours are.
 */
#include <errno.h>

#include "page/page.h"
#include "shard/wal.h"
#include "tests/fuzz/store.h"

static const char *met;		/* the name that is there */
static int seen;

static int
feature(void *arg, const struct epd_name *fp)
{
	char name[2 * EPD_NAME + 6];

	(void)arg;
	epd_hex_format(name, fp->b, EPD_NAME);
	for (int i = 0; i < STORE_FEATURES; i++)
		if (!strcmp(name, store_features[i]))
			return 0;
	strcat(name, ".meta");
	if (strcmp(name, met) || strncmp(name, "ab", 2))
		abort();
	return 0;
}

static int
workflow(void *arg, const char *name)
{
	(void)arg;
	if (strcmp(name, met) || !epd_workflow_name_ok(name))
		abort();
	seen++;
	return 0;
}

static int
run(void *arg, uint64_t id, uint64_t bytes)
{
	char name[EPD_RUN_NAME];

	(void)arg;
	epd_run_format(name, id);
	if (strcmp(name, met) || bytes != 1)
		abort();
	seen++;
	return 0;
}

static void
as_file(int top)
{
	int dir = epd_dir_make(top, "alone"), log;
	uint32_t first, last;
	char name[16];
	uint64_t id;
	int rc;

	folder_put(dir, met, "x", 1);
	seen = 0;
	if (epd_run_each(dir, run, NULL) || seen != !epd_run_parse(met, &id))
		abort();
	rc = epd_wal_range(dir, &first, &last);
	log = !strncmp(met, "log.", 4) && strlen(met) == 12 &&
	    strspn(met + 4, "0123456789") == 8 && strcmp(met, "log.00000000");
	if (rc != (log ? 0 : -ENOENT))
		abort();
	if (!rc) {
		snprintf(name, sizeof name, "log.%08u", first);
		if (first != last || strcmp(name, met))
			abort();
	}
	if (epd_run_sweep(dir) < 0)
		abort();
	unlinkat(dir, met, 0);
	close(dir);
}

static void
as_folder(struct epd_store *s)
{
	char made[EPD_WORKFLOW];

	if (mkdirat(s->workflows, met, 0700))
		abort();
	seen = 0;
	if (epd_workflow_each(s, workflow, NULL) ||
	    seen != epd_workflow_name_ok(met))
		abort();
	if (epd_workflow_make(s, "", made, NULL) || !strcmp(made, met) ||
	    unlinkat(s->workflows, made, AT_REMOVEDIR) ||
	    unlinkat(s->workflows, met, AT_REMOVEDIR))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_store *s = store();
	char name[256], path[300];

	if (n < 1 || n >= sizeof name)
		return 0;
	memcpy(name, p, n);
	name[n] = '\0';
	if (!*name || strchr(name, '/') || !strcmp(name, ".") ||
	    !strcmp(name, ".."))
		return 0;
	met = name;
	as_file(folder());
	as_folder(s);
	snprintf(path, sizeof path, "ab/%s", name);
	for (int i = 0; i < STORE_FEATURES; i++)
		if (!strncmp(name, store_features[i], 2 * EPD_NAME))
			return 0;
	folder_put(s->features->dirfd, path, "", 0);
	if (epd_feature_each(s->features, "ab", feature, NULL))
		abort();
	unlinkat(s->features->dirfd, path, 0);
	return 0;
}
