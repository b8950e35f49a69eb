/* doctor.c - what this machine has, as one object; nothing is made or changed. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cmd/cli.h"
#include "cmd/doctor.h"

enum { TMPFS = 0x01021994 };

/* Entries of a directory: all, or those that are prefix and a number. */
static int
entries(const char *path, const char *prefix)
{
	DIR *d = opendir(path);
	struct dirent *e;
	size_t n = strlen(prefix);
	int count = 0;

	if (!d)
		return 0;
	while ((e = readdir(d)))
		count += e->d_name[0] != '.' && !strncmp(e->d_name, prefix, n) &&
		    (n == 0 || (e->d_name[n] >= '0' && e->d_name[n] <= '9'));
	closedir(d);
	return count;
}

static uint64_t
meminfo(const char *key)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	uint64_t kib = 0;
	size_t n = strlen(key);

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, key, n) && line[n] == ':')
			kib = strtoull(line + n + 1, NULL, 10);
	if (f)
		fclose(f);
	return kib * 1024;
}

static void
processor(struct cli *c, struct epd_jw *w)
{
	static const char *const names[] = { "scalar", "avx2", "avx512" };
	const struct epd_kern *k = epd_kern_get(c->isa);
	struct utsname u;
	cpu_set_t cpus;
	int cores = sched_getaffinity(0, sizeof cpus, &cpus) == 0 ?
	    CPU_COUNT(&cpus) : 1;

	epd_jw_begin(w, "processor", '{');
	epd_jw_str(w, "machine", uname(&u) == 0 ? u.machine : NULL);
	epd_jw_int(w, "cores", cores);
	epd_jw_begin(w, "instructions", '[');
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (epd_kern_get(names[i]))
			epd_jw_str(w, NULL, names[i]);
	epd_jw_end(w, ']');
	epd_jw_str(w, "chosen", k ? k->name : NULL);
	epd_jw_int(w, "threads", c->threads ? c->threads : c->config.threads ?
	    c->config.threads : cores);
	epd_jw_end(w, '}');
	if (!k)
		cli_fail(c, "--isa", EPD_EUNSUPPORTED, NULL);
}

static void
memory(struct cli *c, struct epd_jw *w)
{
	const char *dir = c->config.memory_dir[0] ? c->config.memory_dir :
	    "/dev/shm";
	struct statfs fs;

	epd_jw_begin(w, "memory", '{');
	epd_jw_uint(w, "total", meminfo("MemTotal"));
	epd_jw_uint(w, "available", meminfo("MemAvailable"));
	epd_jw_end(w, '}');
	epd_jw_begin(w, "memory_tier", '{');
	epd_jw_str(w, "folder", dir);
	if (statfs(dir, &fs) == 0) {
		uint64_t unit = (uint64_t)fs.f_bsize;

		epd_jw_bool(w, "tmpfs", fs.f_type == TMPFS);
		epd_jw_bool(w, "writable", access(dir, W_OK) == 0);
		epd_jw_uint(w, "bytes", fs.f_blocks * unit);
		epd_jw_uint(w, "free", fs.f_bavail * unit);
	}
	epd_jw_int(w, "cap", c->config.memory_cap);
	epd_jw_end(w, '}');
}

static void
devices(struct epd_jw *w)
{
	epd_jw_begin(w, "devices", '{');
	epd_jw_int(w, "gpus", entries("/dev", "nvidia"));
	epd_jw_int(w, "rdma", entries("/sys/class/infiniband", ""));
	epd_jw_bool(w, "fuse", access("/dev/fuse", R_OK | W_OK) == 0);
	epd_jw_end(w, '}');
}

/* Whether there is a program of that name to run. */
static int
in_path(const char *name)
{
	const char *p = getenv("PATH");
	char file[4096];

	for (size_t n; p && *p; p += n + (p[n] == ':')) {
		n = strcspn(p, ":");
		snprintf(file, sizeof file, "%.*s/%s", (int)n, p, name);
		if (n && access(file, X_OK) == 0)
			return 1;
	}
	return 0;
}

/* Whether this process may mount by itself: CAP_SYS_ADMIN. */
static int
may_mount(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[128];
	uint64_t caps = 0;

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "CapEff:", 7))
			caps = strtoull(line + 7, NULL, 16);
	if (f)
		fclose(f);
	return caps >> 21 & 1;
}

/* Can a store be mounted, and if not, why. */
static void
mounting(struct epd_jw *w)
{
	char *bin = cli_beside("epd-mount", "epd-mount");
	const int built = bin != NULL;
	const int device = access("/dev/fuse", R_OK | W_OK) == 0;
	const int helper = in_path("fusermount3"), may = may_mount();
	const char *why = !built ? "epd-mount is not built: no fuse3" :
	    !device ? access("/dev/fuse", F_OK) == 0 ?
	    "/dev/fuse may not be opened" : "no /dev/fuse" :
	    !may && !helper ? "not root, and no fusermount3" : NULL;

	epd_jw_begin(w, "mount", '{');
	epd_jw_bool(w, "possible", !why);
	epd_jw_bool(w, "built", built);
	epd_jw_bool(w, "device", device);
	epd_jw_bool(w, "may_mount", may);
	epd_jw_bool(w, "fusermount3", helper);
	if (why)
		epd_jw_str(w, "error", why);
	epd_jw_end(w, '}');
	free(bin);
}

static void
limits(struct epd_jw *w)
{
	static const struct {
		const char *name;
		__rlimit_resource_t what;
	} all[] = {
		{ "open_files", RLIMIT_NOFILE },
		{ "locked_memory", RLIMIT_MEMLOCK },
		{ "address_space", RLIMIT_AS },
		{ "file_size", RLIMIT_FSIZE },
	};
	struct rlimit l;

	epd_jw_begin(w, "limits", '{');
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		if (getrlimit(all[i].what, &l) < 0)
			continue;
		if (l.rlim_cur == RLIM_INFINITY)
			epd_jw_str(w, all[i].name, "unlimited");
		else
			epd_jw_uint(w, all[i].name, l.rlim_cur);
	}
	epd_jw_end(w, '}');
}

static void
store(struct cli *c, struct epd_jw *w)
{
	struct epd_buf path = {0}, file = {0};
	struct statvfs fs;
	int rc;

	cli_store_path(c, &path);
	epd_buf_fmt(&file, "%s/store", epd_buf_cstr(&path));
	epd_jw_begin(w, "store", '{');
	epd_jw_str(w, "path", epd_buf_cstr(&path));
	rc = access(epd_buf_cstr(&file), R_OK) < 0 ? -errno : 0;
	if (rc == 0 || rc == -ENOENT || rc == -ENOTDIR)
		epd_jw_bool(w, "exists", rc == 0);
	else
		epd_jw_str(w, "error", strerror(-rc));
	if (statvfs(epd_buf_cstr(&path), &fs) == 0)
		epd_jw_uint(w, "free", fs.f_bavail * fs.f_frsize);
	epd_jw_end(w, '}');
	if (rc < 0 && rc != -ENOENT && rc != -ENOTDIR)
		cli_fail(c, epd_buf_cstr(&path), rc, NULL);
	epd_buf_free(&path);
	epd_buf_free(&file);
}

static void
model(struct cli *c, struct epd_jw *w)
{
	char *path = cli_model(c);
	struct epd_model *m = NULL;
	struct epd_why why = {0};
	int rc = path ? epd_model_open(&m, path, &why) : EPD_ENOTHING;

	epd_jw_begin(w, "model", '{');
	epd_jw_str(w, "path", path);
	if (rc == 0) {
		const struct epd_model_info *i = epd_model_info(m);

		epd_jw_str(w, "family", i->model_type);
		epd_jw_int(w, "layers", i->layers);
		epd_jw_int(w, "hidden", i->hidden);
		epd_jw_int(w, "vocabulary", i->vocab);
		epd_jw_int(w, "positions", i->max_position);
	}
	epd_jw_end(w, '}');
	if (path && rc < 0)
		cli_fail(c, path, rc, &why);
	epd_model_close(m);
}

int
epd_doctor(struct cli *c)
{
	struct epd_buf b = {0}, text = {0};
	struct epd_json *j = NULL;
	struct epd_jw w;

	cli_config(c);
	cli_object(&w, &b);
	epd_jw_str(&w, "version", EPD_VERSION);
	processor(c, &w);
	memory(c, &w);
	devices(&w);
	mounting(&w);
	store(c, &w);
	doctor_tiers(c, &w);
	doctor_directory(c, &w);
	model(c, &w);
	limits(&w);
	if (c->json) {
		cli_object_end(c, &w);
	} else {
		epd_jw_end(&w, '}');
		if (epd_json_parse(&j, epd_span(b.p, b.n), "doctor", NULL) == 0)
			cli_show(&text, j);
		cli_out(c, epd_span(text.p, text.n));
	}
	epd_json_free(j);
	epd_buf_free(&text);
	epd_buf_free(&b);
	return cli_end(c);
}
