/* doctor_tiers.c - the tiers below memory and the directory: what answers, and if not why. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/http.h"
#include "cmd/cli.h"
#include "cmd/doctor.h"

#define MS UINT64_C(1000000)
enum { PATIENCE_MS = 1000 };

/* "answers", and where it does not the reason. */
static void
answers(struct epd_jw *w, int rc, const struct epd_why *why)
{
	epd_jw_bool(w, "answers", rc >= 0);
	if (rc < 0)
		epd_jw_str(w, "error", *why->text ? why->text :
		    epd_strerror(rc));
}

/* A folder that is not there is made when the first pages come. */
static void
nvme(struct cli *c, struct epd_jw *w)
{
	const char *dir = c->config.tier_nvme_dir;
	struct epd_buf own = {0};
	struct statvfs fs;

	cli_store_path(c, &own);
	epd_buf_str(&own, "/disk");
	if (!*dir)
		dir = epd_buf_cstr(&own);
	epd_jw_begin(w, "nvme", '{');
	epd_jw_str(w, "folder", dir);
	if (access(dir, F_OK) == 0 || errno == ENOENT)
		epd_jw_bool(w, "exists", access(dir, F_OK) == 0);
	else
		epd_jw_str(w, "error", strerror(errno));
	if (statvfs(dir, &fs) == 0) {
		epd_jw_bool(w, "writable", access(dir, W_OK) == 0);
		epd_jw_uint(w, "bytes", fs.f_blocks * fs.f_frsize);
		epd_jw_uint(w, "free", fs.f_bavail * fs.f_frsize);
	}
	epd_jw_int(w, "cap", c->config.tier_nvme_cap);
	epd_jw_end(w, '}');
	epd_buf_free(&own);
}

/* Whether there is such a page as there is none of. */
static int
ask_mooncake(const char *url, struct epd_why *why)
{
	struct epd_http_request r = { .method = "GET",
		.path = "/api/exist/epd-doctor", .most = 1 << 16,
		.deadline_ns = epd_clock_boot_ns() + PATIENCE_MS * MS };
	struct epd_http_done d;
	struct epd_http *h;
	int rc = epd_http_open(&h, url, 1, why);

	if (rc < 0)
		return rc;
	rc = epd_http_do(h, &r, &d, why);
	epd_http_close(h);
	if (rc < 0)
		return rc;
	epd_buf_free(&d.answer);
	return d.status == 200 ? 0 : epd_why(why, EPD_EPEER,
	    "the service says %ld", d.status);
}

static void
mooncake(struct cli *c, struct epd_jw *w)
{
	const char *url = c->config.tier_mooncake_url;
	struct epd_why why = {0};

	epd_jw_begin(w, "mooncake_store", '{');
	epd_jw_str(w, "url", *url ? url : NULL);
	epd_jw_str(w, "master", *c->config.tier_mooncake_master ?
	    c->config.tier_mooncake_master : NULL);
	if (*url)
		answers(w, ask_mooncake(url, &why), &why);
	epd_jw_end(w, '}');
}

void
doctor_tiers(struct cli *c, struct epd_jw *w)
{
	epd_jw_begin(w, "tiers", '{');
	nvme(c, w);
	mooncake(c, w);
	epd_jw_end(w, '}');
}

/* ---- the directory ---- */

static int
count(void *arg, const struct epd_node_info *n)
{
	(void)n;
	++*(int *)arg;
	return 0;
}

static int
ask_directory(struct cli *c, int *nodes, struct epd_why *why)
{
	const struct epd_dir_options o = { .config = &c->config };
	const uint64_t end = epd_clock_boot_ns() + PATIENCE_MS * MS;
	struct epd_dir *d;
	int rc = epd_dir_open(&d, &o, why);

	if (rc < 0)
		return rc;
	rc = epd_dir_nodes(d, count, nodes, end, why);
	epd_dir_close(d);
	return rc;
}

void
doctor_directory(struct cli *c, struct epd_jw *w)
{
	struct epd_why why = {0};
	int rc, nodes = 0;

	epd_jw_begin(w, "directory", '{');
	epd_jw_str(w, "backend", c->config.directory_backend);
	if (!strcmp(c->config.directory_backend, "etcd")) {
		epd_jw_str(w, "endpoints", c->config.directory_endpoints);
		rc = ask_directory(c, &nodes, &why);
		answers(w, rc, &why);
		if (rc >= 0)
			epd_jw_int(w, "nodes", nodes);
	}
	epd_jw_end(w, '}');
}
