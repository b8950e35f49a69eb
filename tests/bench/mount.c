/*
 * mount.c - what a mount is measured with.
 *
 *	mount fill STORE PAGES BYTES
 *		a state of so many pages, each of so many bytes
 *	mount read|held DIR ROUNDS
 *		every file of a directory read whole, opened each time or once
 *		and for all; seconds a round
 *	mount stat DIR SECONDS
 *		its first thousand files, over and over; stats a second
 *	mount copy DIR TO
 *		its files as plain ones
 *
 * One JSON line.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "epd.h"
#include "flow/inner.h"
#include "page/page.h"

#include "tests/bench/measure.h"

enum { TOKENS = 16, CHUNK = 1 << 20, MANY = 1000 };

/* ---- fill ---- */

static void
fill(const char *path, long n, uint64_t bytes)
{
	static struct epd_config config;
	struct epd_store_options o = { .path = path, .config = &config,
	    .tenant = "", .create = 1 };
	const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, EPD_BF16,
	    TOKENS, bytes };
	struct epd_state st = { .page_tokens = TOKENS, .kv_type = EPD_BF16,
	    .page_bytes = bytes, .model_path = "/models/mid", .tenant = "",
	    .fingerprint = "{}" };
	struct epd_page_entry *e = calloc((size_t)n, sizeof *e);
	struct epd_page_ref *ref = calloc((size_t)n, sizeof *ref);
	int32_t *ids = calloc((size_t)n * TOKENS + 1, sizeof *ids);
	struct epd_name parent = {{0}};
	struct epd_version v = { .ids = ids, .pages = ref,
	    .nids = (uint32_t)n * TOKENS + 1, .npages = (uint32_t)n,
	    .next_pos = n * TOKENS + 1 };
	char name[EPD_WORKFLOW];
	struct epd_workflow w;
	struct epd_store *s;
	struct epd_run *r;
	uint64_t *page;
	uint32_t id;

	epd_config_default(&config);
	must(epd_store_open(&s, &o, &why), path);
	must(epd_workflow_make(s, "", name, &why), "workflow");
	must(epd_workflow_open(&w, s, name, 0, &why), name);
	must(epd_run_new(&r, w.runs, &shape), "run");
	for (long i = 0; i < n; i++) {
		must(epd_run_add(r, (void **)&page), "page");
		for (uint64_t k = 0; k < bytes / 8; k++)
			page[k] = (uint64_t)i * 0x9e3779b97f4a7c15u + k;
		for (long k = 0; k < TOKENS; k++)
			ids[i * TOKENS + k] = (int32_t)((i + k) % 1000);
		epd_page_name(&e[i].name, i ? &e[i - 1].name : &parent,
		    ids + i * TOKENS, TOKENS, NULL, 0);
		e[i].rows = TOKENS;
	}
	must(epd_run_id(&v.run), "run id");
	must(epd_run_publish(r, v.run, e, n), "publish");
	for (long i = 0; i < n; i++)
		ref[i] = (struct epd_page_ref){ e[i].name, TOKENS, e[i].sum };
	must(epd_shard_create(w.shard, &st, &v, &id, &why), "create");
	epd_run_close(r);
	epd_workflow_close(&w);
	epd_store_close(s);
}

/* ---- files ---- */

struct files {
	int dir;
	char (*name)[256];
	long n;
};

static struct files
files(const char *path)
{
	struct files f = { open(path, O_RDONLY | O_DIRECTORY), NULL, 0 };
	DIR *d = f.dir < 0 ? NULL : fdopendir(dup(f.dir));
	struct dirent *e;

	must(d ? 0 : -1, path);
	while ((e = readdir(d))) {
		if (*e->d_name == '.')
			continue;
		f.name = realloc(f.name, (size_t)(f.n + 1) * sizeof *f.name);
		snprintf(f.name[f.n++], sizeof *f.name, "%s", e->d_name);
	}
	closedir(d);
	return f;
}

static int
opened(const struct files *f, long i)
{
	int fd = openat(f->dir, f->name[i], O_RDONLY);

	must(fd < 0 ? -1 : 0, f->name[i]);
	return fd;
}

static uint64_t
whole(int fd, int to)
{
	static char buf[CHUNK];
	uint64_t sum = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof buf, (off_t)sum)) > 0) {
		if (to >= 0 && write(to, buf, (size_t)n) != n)
			must(-1, "write");
		sum += (uint64_t)n;
	}
	must((int)n, "read");
	return sum;
}

static void
read_all(const char *path, int rounds, int hold)
{
	struct files f = files(path);
	int *held = calloc((size_t)f.n + 1, sizeof *held), fd;
	uint64_t bytes = 0;

	for (long i = 0; hold && i < f.n; i++)
		held[i] = opened(&f, i);

	printf("{\"read\":[");
	for (int k = 0; k < rounds; k++) {
		double t = now();

		bytes = 0;
		for (long i = 0; i < f.n; i++) {
			fd = hold ? held[i] : opened(&f, i);
			bytes += whole(fd, -1);
			if (!hold)
				close(fd);
		}
		printf("%s%.6g", k ? "," : "", now() - t);
	}
	printf("],\"files\":%ld,\"bytes\":%llu}\n", f.n,
	    (unsigned long long)bytes);
}

static void
stats(const char *path, double seconds)
{
	struct files f = files(path);
	struct stat st;
	double from = now(), t = from;
	long n = 0;

	if (f.n > MANY)
		f.n = MANY;
	while ((t = now()) < from + seconds)
		for (long i = 0; i < f.n; i++, n++)
			must(fstatat(f.dir, f.name[i], &st, 0), f.name[i]);
	printf("{\"stats\":%.6g}\n", (double)n / (t - from));
}

static void
copy(const char *path, const char *to)
{
	struct files f = files(path);

	must(mkdir(to, 0700), to);
	for (long i = 0; i < f.n; i++) {
		char name[512];
		int fd, from = opened(&f, i);

		snprintf(name, sizeof name, "%s/%s", to, f.name[i]);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		must(fd < 0 ? -1 : 0, name);
		whole(from, fd);
		close(from);
		close(fd);
	}
}

int
main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "fill"))
		fill(argv[2], atol(argv[3]), strtoull(argv[4], NULL, 10));
	else if (argc == 4 && (!strcmp(argv[1], "read") ||
	    !strcmp(argv[1], "held")))
		read_all(argv[2], atoi(argv[3]), *argv[1] == 'h');
	else if (argc == 4 && !strcmp(argv[1], "stat"))
		stats(argv[2], atof(argv[3]));
	else if (argc == 4 && !strcmp(argv[1], "copy"))
		copy(argv[2], argv[3]);
	else
		return 2;
	return 0;
}
