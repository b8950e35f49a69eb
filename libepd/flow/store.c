/*
 * store.c - opening a store.
 *
 *  1. The file `store` makes a directory one: "epd-store 1\nuuid HEX\n".  It is
 *     linked into place whole, so of several makers at once one wins and all
 *     use what it wrote.
 *  2. A directory that holds other things and no `store` is left alone.
 *  3. `cache` is needed for nothing: what else stands there goes, and where no
 *     folder can be had all is done without.
 *  4. Who looks at a store that cannot be written opens nothing for writing.  In
 *     one's own, looking makes what its maker died before (parts), counts
 *     (metrics), and settles what a crash left undecided in a log (see shard).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/said.h"
#include "flow/book.h"
#include "flow/inner.h"
#include "flow/tiers.h"

#define STORE_HEAD "epd-store 1\nuuid "

static int
foreign(void *arg, const char *name)
{
	(void)arg;
	return strncmp(name, ".tmp.", 5) ? 1 : 0;
}

/* Write the store file nobody has written yet; losing the race is fine. */
static int
found(int dirfd)
{
	char text[64], hex[33], name[40];
	uint8_t raw[24];
	int fd, rc;

	if (getrandom(raw, sizeof raw, 0) != sizeof raw)
		return -EIO;
	epd_hex_format(hex, raw, 16);
	snprintf(text, sizeof text, STORE_HEAD "%s\n", hex);
	epd_hex_format(hex, raw + 16, 8);
	snprintf(name, sizeof name, ".tmp.%s", hex);
	fd = epd_file_open(dirfd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0)
		return fd;
	rc = epd_file_pwrite(fd, text, strlen(text), 0);
	if (rc == 0)
		rc = epd_file_datasync(fd);
	close(fd);
	if (rc == 0 && linkat(dirfd, name, dirfd, "store", 0) < 0 &&
	    errno != EEXIST)
		rc = -errno;
	unlinkat(dirfd, name, 0);
	/* A folder that was there and empty may be open to others. */
	if (rc == 0 && fchmod(dirfd, 0700) < 0)
		rc = -errno;
	return rc < 0 ? rc : epd_dir_sync(dirfd);
}

static int
identify(struct epd_store *s, int create, struct epd_why *why)
{
	const size_t head = strlen(STORE_HEAD);
	struct epd_buf b = {0};
	char hex[33];
	int rc = epd_file_read(s->dirfd, "store", 256, &b);

	if (rc == -ENOENT && create) {
		/* A maker links `store` first, so what else there is came after. */
		int others = epd_dir_each(s->dirfd, foreign, NULL);

		rc = others < 0 ? others : others ? 0 : found(s->dirfd);
		/* One who was stopped in it may find it made, and his swept. */
		if (rc == 0 || rc == -ENOENT)
			rc = epd_file_read(s->dirfd, "store", 256, &b);
		if (rc == -ENOENT)
			return epd_why(why, EPD_EFORMAT,
			    "%s: holds other files and is not a store",
			    s->path);
	}
	if (rc == -ENOENT)
		return epd_why(why, EPD_ENOTHING, "%s: not a store", s->path);
	if (rc == EPD_ETOOBIG)
		rc = EPD_ECORRUPT;
	if (rc < 0)
		return epd_why(why, rc, "%s/store: %s", s->path,
		    epd_strerror(rc));
	if (b.n == head + 33 && !memcmp(b.p, STORE_HEAD, head)) {
		memcpy(hex, b.p + head, 32);
		hex[32] = 0;
		rc = epd_hex_parse(s->uuid, 16, hex);
	} else if (b.n > 10 && !memcmp(b.p, "epd-store ", 10)) {
		rc = EPD_EKIND;
	} else {
		rc = EPD_EFORMAT;
	}
	epd_buf_free(&b);
	if (rc < 0)
		return epd_why(why, rc == EPD_EKIND ? rc : EPD_ECORRUPT,
		    "%s/store: %s", s->path, rc == EPD_EKIND ?
		    epd_strerror(rc) : "is damaged");
	return 0;
}

static int
fail(struct epd_store *s, const char *part, int rc, struct epd_why *why)
{
	return epd_why(why, rc, "%s/%s: %s", s->path, part, epd_strerror(rc));
}

/* Where something else stands in a folder's place it is damage. */
static int
no_folder(struct epd_store *s, const char *part, int rc, struct epd_why *why)
{
	struct stat st;

	if (fstatat(s->dirfd, part, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    S_ISDIR(st.st_mode))
		return fail(s, part, rc, why);
	return epd_why(why, EPD_ECORRUPT, "%s/%s: no folder", s->path, part);
}

static int
open_cache(struct epd_store *s)
{
	int fd = epd_dir_make(s->dirfd, "cache");

	if ((fd == -ENOTDIR || fd == -ELOOP) &&
	    unlinkat(s->dirfd, "cache", 0) == 0)
		fd = epd_dir_make(s->dirfd, "cache");
	if (fd < 0 && fd != -ENOMEM && fd != -EMFILE && fd != -ENFILE)
		epd_log(&s->log, "op=cache error=%s", epd_errlabel(fd));
	return fd;
}

static int
parts(struct epd_store *s, struct epd_why *why)
{
	struct epd_features_options fo = {
		.ttl_ms = (uint64_t)s->config.feature_ttl_ms,
		.sync = s->config.state_sync,
	};
	int rc;

	if ((s->workflows = epd_dir_make(s->dirfd, "w")) < 0)
		return no_folder(s, "w", s->workflows, why);
	if ((s->cache = open_cache(s)) == -ENOMEM || s->cache == -EMFILE ||
	    s->cache == -ENFILE)
		return fail(s, "cache", s->cache, why);
	/* Where nothing can be counted the work is done uncounted. */
	if ((rc = epd_metrics_open(&s->metrics, s->dirfd)) == -ENOMEM)
		return fail(s, "metrics", rc, why);
	if ((rc = epd_procs_open(&s->procs, s->dirfd)) < 0)
		return fail(s, "procs", rc, why);
	fo.metrics = s->metrics;
	if ((rc = epd_features_open(&s->features, s->dirfd, &fo)) < 0)
		return no_folder(s, "features", rc, why);
	return epd_memory_open(&s->memory, s->config.memory_dir, s->uuid,
	    s->path, (uint64_t)s->config.memory_cap, why);
}

/* What looking needs of them; -ENOENT if one is not there yet. */
static int
parts_there(struct epd_store *s, struct epd_why *why)
{
	struct epd_features_options fo = { .look = 1 };
	int rc;

	s->workflows = epd_file_open(s->dirfd, "w", O_RDONLY | O_DIRECTORY, 0);
	if (s->workflows < 0)
		return no_folder(s, "w", s->workflows, why);
	rc = s->read_only ? epd_metrics_read(&s->metrics, s->dirfd) :
	    epd_metrics_open(&s->metrics, s->dirfd);
	if (rc == -ENOMEM)
		return fail(s, "metrics", rc, why);
	fo.metrics = s->metrics;
	if ((rc = epd_features_open(&s->features, s->dirfd, &fo)) < 0)
		return no_folder(s, "features", rc, why);
	return epd_memory_look(&s->memory, s->config.memory_dir, s->uuid,
	    s->path, (uint64_t)s->config.memory_cap, why);
}

/* Give back what parts() or parts_there() opened. */
static void
close_parts(struct epd_store *s)
{
	epd_index_close(s->index);
	epd_store_tiers_close(s);
	epd_dir_close(s->dir);
	s->dir = NULL;
	epd_memory_close(s->memory);
	epd_features_close(s->features);
	epd_procs_close(s->procs);
	epd_metrics_close(s->metrics);
	if (s->cache >= 0)
		close(s->cache);
	if (s->workflows >= 0)
		close(s->workflows);
	s->memory = NULL;
	s->features = NULL;
	s->procs = NULL;
	s->metrics = NULL;
	s->cache = s->workflows = -1;
}

static int
open_parts(struct epd_store *s, int look, struct epd_why *why)
{
	int rc = look ? parts_there(s, why) : -ENOENT;

	if (rc != -ENOENT || s->read_only)
		return rc;
	close_parts(s);
	if (why)
		*why->text = '\0';
	return parts(s, why);
}

/* The directory: absolute, ours or only seen, and nobody else writes there. */
static int
place(struct epd_store *s, const struct epd_store_options *o,
    struct epd_why *why)
{
	struct stat st;
	char *real;
	int rc;

	s->dirfd = epd_dir_root(o->path, o->create);
	if (s->dirfd < 0) {
		rc = s->dirfd == -ENOENT ? EPD_ENOTHING : s->dirfd;
		return epd_why(why, rc, "%s: %s", o->path,
		    rc == EPD_ENOTHING ? "no such store" : epd_strerror(rc));
	}
	if (fstat(s->dirfd, &st) < 0)
		return epd_why(why, -errno, "%s: %s", o->path,
		    strerror(errno));
	s->read_only = faccessat(s->dirfd, ".", W_OK, AT_EACCESS) < 0;
	/* Whom nothing keeps from writing there leaves files that are not his. */
	if (st.st_uid != geteuid() && o->look && !s->read_only)
		return epd_why(why, -EPERM, "%s: belongs to another user, "
		    "number %u, as whom it may be looked at", o->path,
		    (unsigned)st.st_uid);
	if (st.st_uid != geteuid() && !o->look)
		return epd_why(why, -EPERM, "%s: belongs to another user",
		    o->path);
	s->read_only |= o->look && o->still;
	if (st.st_mode & 022)
		return epd_why(why, -EPERM, "%s: others may write there",
		    o->path);
	if (!(real = realpath(o->path, NULL)))
		return epd_why(why, -errno, "%s: %s", o->path,
		    strerror(errno));
	s->path = epd_strdup(real);
	free(real);
	if (s->path && s->read_only && !o->look)
		return epd_why(why, -EROFS, "%s: the store is read-only",
		    o->path);
	return s->path ? 0 : -ENOMEM;
}

/*
 * A node says who it is, so that it is told where another has taken over.  The name is
 * said where an address or a folder could be, and shown to people elsewhere.
 */
static int
name_node(struct epd_store *s, struct epd_why *why)
{
	const char *name = s->config.directory_node;

	if (strcmp(s->config.directory_backend, "etcd"))
		return 0;
	if (!*name) {
		if (gethostname(s->node, sizeof s->node - 1))
			strcpy(s->node, "unnamed");
		epd_said_tidy(s->node, strlen(s->node));
		return 0;
	}
	if (strlen(name) >= sizeof s->node || strchr(name, '/') ||
	    !epd_all_shown(name))
		return epd_why(why, EPD_EUSAGE, "directory.node: no name of a "
		    "node: at most %zu bytes that can be shown, and no /",
		    sizeof s->node - 1);
	strcpy(s->node, name);
	return 0;
}

/* What lies in a store is its own, and a tier's folder there would be litter. */
static int
look_at_disk(const struct epd_store *s, struct epd_why *why)
{
	char path[EPD_CONFIG_STR], *slash = path;
	struct stat own;
	int fd = -1;

	strcpy(path, s->config.tier_nvme_dir);
	/* The nearest to it that is there. */
	while (slash && *path && (fd = open(path, O_PATH | O_CLOEXEC)) < 0)
		if ((slash = strrchr(path, '/')))
			*slash = '\0';
	if (fd < 0 || fstat(s->dirfd, &own) < 0 || !epd_file_lies_in(fd, &own))
		return 0;
	return epd_why(why, EPD_EUSAGE, "tier.nvme_dir: it lies in the store, "
	    "whose own folder for that is " EPD_DISK ": leave it empty");
}

int
epd_store_open(struct epd_store **out, const struct epd_store_options *o,
    struct epd_why *why)
{
	struct epd_store *s;
	int rc;

	/* Cut short it might be another tenant's. */
	if (o->tenant && strlen(o->tenant) >= sizeof s->tenant)
		return epd_why(why, EPD_EUSAGE, "%.20s...: a tenant's name has "
		    "at most %zu bytes", o->tenant, sizeof s->tenant - 1);
	if (!(s = epd_calloc(1, sizeof *s)))
		return epd_why(why, -ENOMEM, "%s", epd_strerror(-ENOMEM));
	s->dirfd = s->workflows = s->cache = -1;
	s->config = *o->config;
	s->transports = o->transports;
	s->codecs = o->codecs;
	s->listener = o->listener;
	s->log = o->log;
	snprintf(s->tenant, sizeof s->tenant, "%s", o->tenant ? o->tenant : "");
	if ((rc = name_node(s, why)) < 0 ||
	    (rc = place(s, o, why)) < 0 ||
	    (rc = look_at_disk(s, why)) < 0 ||
	    (rc = identify(s, o->create, why)) < 0 ||
	    (rc = open_parts(s, o->look, why)) < 0) {
		epd_store_close(s);
		if (why && !*why->text)
			epd_why(why, rc, "%s: %s", o->path, epd_strerror(rc));
		return rc;
	}
	*out = s;
	return 0;
}

void
epd_store_close(struct epd_store *s)
{
	if (!s)
		return;
	if (s->nowed)
		epd_store_settle(s);
	epd_free(s->owed);
	close_parts(s);
	if (s->dirfd >= 0)
		close(s->dirfd);
	epd_free(s->path);
	epd_free(s);
}

struct epd_index *
epd_store_index(struct epd_store *s)
{
	int rc;

	if (!s->indexed) {
		s->indexed = 1;
		rc = epd_index_open_of(&s->index, s->memory, epd_own_runs, s);
		if (rc < 0) {
			s->index = NULL;
			epd_log(&s->log, "op=index error=%s", epd_errlabel(rc));
		}
	}
	return s->index;
}
