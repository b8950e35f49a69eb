/*
 * dir.c - the doors of the room: what is asked is looked at, counted, and handed to the
 * back end that the configuration names.
 */
#include "dir/dir.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "dir/ask.h"
#include "dir/memory.h"

enum { LEASE_MOST_MS = 24 * 3600 * 1000 };

static const struct epd_dir_backend *const backends[] = {
	&epd_dir_local, &epd_dir_etcd,
};

static int
take_options(struct epd_dir *d, const struct epd_dir_options *o,
    struct epd_why *why)
{
	const struct epd_config *c = o->config;
	size_t n = strlen(c->directory_prefix);

	d->o = *o;
	d->o.config = NULL;
	if (o->log)
		d->log = *o->log;
	d->bound_ns = (uint64_t)c->bounded_staleness_ms * 1000000;
	d->timeout_ns = (uint64_t)c->directory_timeout_ms * 1000000;
	d->lease_ms = (uint64_t)c->directory_lease_ms;
	d->salt = epd_xxh3_64(o->self.uuid, sizeof o->self.uuid);
	memcpy(d->prefix, c->directory_prefix, n + 1);
	if (!n || d->prefix[n - 1] != '/')
		strcat(d->prefix, "/");
	if (!*d->o.self.name)
		snprintf(d->o.self.name, sizeof d->o.self.name, "%.63s",
		    c->directory_node);
	if (!*d->o.self.name &&
	    gethostname(d->o.self.name, sizeof d->o.self.name - 1))
		d->o.self.name[0] = '\0';
	if (*o->self.address && strncmp(o->self.address, "tcp://", 6))
		return epd_why(why, EPD_EUSAGE,
		    "%.100s: no address of a data server", o->self.address);
	for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
		if (!strcmp(backends[i]->name, c->directory_backend))
			d->backend = backends[i];
	return d->backend ? 0 : epd_why(why, EPD_EUSAGE,
	    "no directory is called %.100s", c->directory_backend);
}

/* Signals are not for it; it begins to ask when it is known who it is. */
static int
begin_thread(struct epd_dir *d)
{
	int rc;

	pthread_mutex_lock(&d->lock);
	rc = epd_thread_begin(&d->thread, d->backend->watch, d);
	d->has_thread = !rc;
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int
epd_dir_open(struct epd_dir **out, const struct epd_dir_options *o,
    struct epd_why *why)
{
	struct epd_dir *d = epd_calloc(1, sizeof *d);
	int rc;

	if (!d)
		return -ENOMEM;
	pthread_mutex_init(&d->lock, NULL);
	d->last = &d->first;
	rc = take_options(d, o, why);
	if (!rc && d->backend->open)
		rc = d->backend->open(d, o->config, why);
	if (!rc && d->backend->watch && o->stays)
		rc = begin_thread(d);
	if (rc) {
		epd_dir_close(d);
		return rc;
	}
	*out = d;
	return 0;
}

void
epd_dir_close(struct epd_dir *d)
{
	if (!d)
		return;
	d->closing = 1;
	if (d->has_thread)
		pthread_join(d->thread, NULL);
	d->has_thread = 0;
	if (d->backend && d->backend->close)
		d->backend->close(d);
	epd_map_clear(&d->told);
	epd_map_clear(&d->heard);
	epd_free(d->claims);
	pthread_mutex_destroy(&d->lock);
	epd_free(d);
}

int
epd_dir_is_away(struct epd_dir *d)
{
	int away;

	pthread_mutex_lock(&d->lock);
	away = d->away;
	pthread_mutex_unlock(&d->lock);
	return away;
}

uint64_t
epd_dir_lease(struct epd_dir *d)
{
	uint64_t lease;

	pthread_mutex_lock(&d->lock);
	lease = d->lease;
	pthread_mutex_unlock(&d->lock);
	return lease;
}

static int
path_of(char path[EPD_ETCD_KEY], enum epd_hint_kind kind, const char *key,
    struct epd_why *why)
{
	return epd_hint_path(path, kind, key) ? epd_why(why, EPD_EUSAGE,
	    "%.100s: no key of the directory", key) : 0;
}

int
epd_dir_put(struct epd_dir *d, const struct epd_hint *hint,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_hint h = *hint;
	char path[EPD_ETCD_KEY];
	int rc = path_of(path, h.kind, h.key, why);

	if (rc)
		return rc;
	if (h.lease_ms > LEASE_MOST_MS)
		return epd_why(why, EPD_EUSAGE, "a lease of more than a day");
	memcpy(h.owner, d->o.self.uuid, sizeof h.owner);
	memcpy(h.address, d->o.self.address, sizeof h.address);
	h.wall_ms = epd_clock_wall_ms();
	pthread_mutex_lock(&d->lock);
	rc = epd_told_put(d, path, &h);
	pthread_mutex_unlock(&d->lock);
	/* Who stays has told it, or its thread will. */
	if (rc < 0 || (rc == 0 && d->o.stays))
		return rc;
	return d->backend->tell(d, path, deadline_ns, why);
}

int
epd_dir_remove(struct epd_dir *d, enum epd_hint_kind kind, const char *key,
    uint64_t deadline_ns, struct epd_why *why)
{
	char path[EPD_ETCD_KEY];
	int rc = path_of(path, kind, key, why);

	if (rc)
		return rc;
	pthread_mutex_lock(&d->lock);
	rc = epd_told_remove(d, path);
	pthread_mutex_unlock(&d->lock);
	return rc < 0 ? rc : d->backend->tell(d, path, deadline_ns, why);
}

int
epd_dir_find(struct epd_dir *d, enum epd_hint_kind kind, const char *key,
    int again, struct epd_hint *out, int max, uint64_t deadline_ns,
    struct epd_why *why)
{
	char path[EPD_ETCD_KEY];
	int n = path_of(path, kind, key, why);

	if (n)
		return n;
	epd_count(d->o.metrics, EPD_M_DIR_LOOKUPS, 1);
	n = d->backend->find(d, path, again, out, max, deadline_ns, why);
	epd_count(d->o.metrics, EPD_M_DIR_HITS, n > 0);
	for (int i = 0; i < n; i++)
		epd_count_max(d->o.metrics, EPD_M_DIR_AGE_MAX_NS,
		    out[i].age_ns);
	return n;
}

int
epd_dir_nodes(struct epd_dir *d,
    int (*fn)(void *arg, const struct epd_node_info *n), void *arg,
    uint64_t deadline_ns, struct epd_why *why)
{
	return d->backend->nodes(d, fn, arg, deadline_ns, why);
}

int
epd_dir_claim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t least, uint64_t *term, uint64_t deadline_ns, struct epd_why *why)
{
	return d->backend->claim(d, workflow, least, term, deadline_ns, why);
}

int
epd_dir_owner(struct epd_dir *d, const uint8_t workflow[16],
    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
    struct epd_why *why)
{
	return d->backend->owner(d, workflow, out, term, deadline_ns, why);
}

int
epd_dir_disclaim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t deadline_ns, struct epd_why *why)
{
	return d->backend->disclaim(d, workflow, deadline_ns, why);
}
