/*
 * etcd.c - the back end that nodes share: hints and nodes as keys in etcd.
 *
 * 1. Who tells does so by a lease: the node's, or the hint's own.  A node's that lives
 *    is found with its key, so that a short command's hints stand as long as the node.
 * 2. The youngest is the one that etcd took last, by its revisions: no clock of a
 *    machine is compared with another's.
 * 3. What an answer says was so at some moment since the question was asked, so its
 *    age is told from there.
 */
#include "dir/ask.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/stop.h"
#include "dir/memory.h"

#define MS 1000000ull

enum { NODES_AT_ONCE = 128, NODES_MOST = 4096, LEASE_LOOK_MS = 5 };

void
epd_etcd_node_key(char key[EPD_ETCD_KEY], const struct epd_dir *d)
{
	strcpy(key, "nodes/");
	epd_etcd_node_id(key + 6, &d->o.self);
}

int
epd_etcd_grant(struct epd_dir *d, uint64_t ms, uint64_t *lease,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_json *answer;
	struct epd_ask a;
	uint64_t revision, id;
	int rc;

	epd_ask_begin(&a, d);
	epd_jw_uint(&a.w, "TTL", ms / 1000 + (ms % 1000 != 0));
	rc = epd_ask(&a, "lease/grant", deadline_ns, &answer, &revision, why);
	if (rc)
		return rc;
	id = epd_etcd_number(epd_json_get(answer, "ID"));
	epd_json_free(answer);
	if (!id) {
		epd_ask_wrong(d);
		return epd_why(why, EPD_EPEER, "etcd grants no lease");
	}
	*lease = id;
	return 0;
}

/* The lease of the node that lives, of another process that stays; 0: none. */
static int
find_lease(struct epd_dir *d, uint64_t *lease, uint64_t deadline_ns,
    struct epd_why *why)
{
	char key[EPD_ETCD_KEY];
	struct epd_json *answer;
	struct epd_ask a;
	uint64_t revision;
	int rc;

	epd_etcd_node_key(key, d);
	epd_ask_begin(&a, d);
	epd_ask_key(&a, "key", key);
	rc = epd_ask(&a, "kv/range", deadline_ns, &answer, &revision, why);
	if (rc)
		return rc;
	*lease = epd_etcd_number(epd_json_get(epd_json_at(
	    epd_json_get(answer, "kvs"), 0), "lease"));
	epd_json_free(answer);
	return 0;
}

int
epd_etcd_lease(struct epd_dir *d, uint64_t *lease, uint64_t deadline_ns,
    struct epd_why *why)
{
	uint64_t id;
	int rc = 0;

	if (d->o.stays && !*d->o.self.address)
		return epd_why(why, EPD_EUSAGE,
		    "a node that serves nobody has no lease");
	for (;;) {
		pthread_mutex_lock(&d->lock);
		id = d->lease;
		pthread_mutex_unlock(&d->lock);
		if (id || !d->o.stays)
			break;
		/* The thread is about to get it. */
		if (epd_ask_not(d))
			return epd_why(why, EPD_EPEER, "the directory is away");
		if (epd_is_stopped())
			return epd_why(why, -ECANCELED, "called off");
		if (epd_clock_boot_ns() >= deadline_ns)
			return epd_why(why, EPD_ETIMEOUT,
			    "this node has no lease yet");
		epd_clock_sleep_ns(LEASE_LOOK_MS * MS);
	}
	if (!id)
		rc = find_lease(d, &id, deadline_ns, why);
	if (!rc && !id)
		rc = epd_etcd_grant(d, d->lease_ms, &id, deadline_ns, why);
	if (rc)
		return rc;
	pthread_mutex_lock(&d->lock);
	d->lease = id;
	pthread_mutex_unlock(&d->lock);
	*lease = id;
	return 0;
}

static void
own_key(const struct epd_dir *d, char key[EPD_ETCD_KEY], const char *path)
{
	char owner[EPD_ETCD_OWNER];

	epd_etcd_node_id(owner, &d->o.self);
	snprintf(key, EPD_ETCD_KEY, "hints/%s/%s", path, owner);
}

static int
tell_gone(struct epd_dir *d, const char *path, uint64_t deadline_ns,
    struct epd_why *why)
{
	char key[EPD_ETCD_KEY];
	struct epd_ask a;

	own_key(d, key, path);
	epd_ask_begin(&a, d);
	epd_ask_key(&a, "key", key);
	return epd_ask_only(&a, "kv/deleterange", deadline_ns, why);
}

static int
tell_hint(struct epd_dir *d, const char *path, const struct epd_hint *h,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_buf value = { 0 };
	char key[EPD_ETCD_KEY];
	struct epd_ask a;
	uint64_t lease;
	int rc = h->lease_ms ?
	    epd_etcd_grant(d, h->lease_ms, &lease, deadline_ns, why) :
	    epd_etcd_lease(d, &lease, deadline_ns, why);

	if (rc)
		return rc;
	own_key(d, key, path);
	epd_hint_format(&value, h);
	epd_ask_begin(&a, d);
	epd_ask_put(&a, key, &value, lease);
	epd_buf_free(&value);
	rc = epd_ask_only(&a, "kv/put", deadline_ns, why);
	if (rc != EPD_ELEASE || h->lease_ms)
		return rc;
	/* The node's lease is over: it, or who asks next, gets another. */
	pthread_mutex_lock(&d->lock);
	if (d->lease == lease)
		d->lease = 0;
	pthread_mutex_unlock(&d->lock);
	return rc;
}

int
epd_etcd_tell(struct epd_dir *d, struct epd_told *t, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_hint h;
	uint64_t turn;
	int gone, over, rc = 0;

	pthread_mutex_lock(&d->lock);
	h = t->hint;
	turn = t->turn;
	gone = t->gone;
	over = !gone && t->until_ns && epd_clock_boot_ns() >= t->until_ns;
	pthread_mutex_unlock(&d->lock);
	if (gone)
		rc = tell_gone(d, t->at.key, deadline_ns, why);
	else if (!over)
		rc = tell_hint(d, t->at.key, &h, deadline_ns, why);
	pthread_mutex_lock(&d->lock);
	t->busy = 0;
	if (rc)
		epd_told_wait(d, t);
	else
		epd_heard_drop(d, t->at.key, UINT64_MAX);
	if (!rc && t->turn == turn && (gone || over))
		epd_told_drop(d, t);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* Who stays lets the thread tell; for others all that waits is told here. */
static int
etcd_tell(struct epd_dir *d, const char *path, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_map_node *n;
	struct epd_told *t;
	int rc = 0, tries = 2;

	if (!*d->o.self.address)
		return epd_dir_local.tell(d, path, deadline_ns, why);
	pthread_mutex_lock(&d->lock);
	n = epd_map_get(&d->told, path);
	if (n)
		epd_told_wait(d, (struct epd_told *)(void *)n);
	pthread_mutex_unlock(&d->lock);
	while (!d->o.stays && !rc && !epd_ask_not(d)) {
		pthread_mutex_lock(&d->lock);
		t = epd_told_next(d);
		pthread_mutex_unlock(&d->lock);
		if (!t)
			break;
		rc = epd_etcd_tell(d, t, deadline_ns, why);
		if (rc == EPD_ELEASE)
			rc = --tries ? 0 : EPD_EPEER;
	}
	return rc;
}

/* Hints of an answer, those that hold together; how many. */
static int
read_hints(struct epd_dir *d, const struct epd_json *answer,
    const char *path, struct epd_hint *out, int max)
{
	const struct epd_json *kvs = epd_json_get(answer, "kvs");
	const size_t count = epd_json_count(kvs);
	int n = 0;

	for (size_t i = 0; i < count && n < max; i++) {
		struct epd_etcd_kv kv;
		char is[EPD_ETCD_KEY];

		if (epd_etcd_kv(&kv, epd_json_at(kvs, i))) {
			epd_ask_wrong(d);
			continue;
		}
		if (epd_hint_parse(&out[n], &kv, d->prefix) ||
		    epd_hint_path(is, out[n].kind, out[n].key) ||
		    strcmp(is, path))
			epd_ask_wrong(d);
		else
			n++;
		epd_buf_free(&kv.value);
	}
	return n;
}

/* Ask etcd: how many; -EAGAIN: the answer is older than the bound. */
static int
find_there(struct epd_dir *d, const char *path, struct epd_hint *hint,
    uint64_t deadline_ns, struct epd_why *why)
{
	const uint64_t asked = epd_clock_boot_ns();
	char folder[EPD_ETCD_KEY];
	struct epd_json *answer;
	struct epd_ask a;
	uint64_t revision, age;
	int rc;

	snprintf(folder, sizeof folder, "hints/%s/", path);
	epd_ask_begin(&a, d);
	epd_ask_folder(&a, folder);
	epd_jw_int(&a.w, "limit", EPD_DIR_OWNERS);
	epd_jw_str(&a.w, "sort_order", "DESCEND");
	epd_jw_str(&a.w, "sort_target", "MOD");
	rc = epd_ask(&a, "kv/range", deadline_ns, &answer, &revision, why);
	if (rc)
		return rc;
	rc = read_hints(d, answer, path, hint, EPD_DIR_OWNERS);
	epd_json_free(answer);
	age = epd_clock_boot_ns() - asked;
	for (int i = 0; i < rc; i++)
		hint[i].age_ns = age;
	if (d->bound_ns && age > d->bound_ns)
		return -EAGAIN;
	pthread_mutex_lock(&d->lock);
	epd_heard_keep(d, path, hint, rc, asked, revision);
	pthread_mutex_unlock(&d->lock);
	return rc;
}

static int
etcd_find(struct epd_dir *d, const char *path, int again,
    struct epd_hint *out, int max, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_hint *hint;
	int n = -1;

	pthread_mutex_lock(&d->lock);
	if (!again)
		n = epd_heard_find(d, path, out, max);
	pthread_mutex_unlock(&d->lock);
	if (n >= 0)
		return n;
	if (epd_ask_not(d)) {
		epd_count(d->o.metrics, EPD_M_DIR_UNFRESH, 1);
		return epd_dir_local.find(d, path, 0, out, max, 0, why);
	}
	hint = epd_calloc(EPD_DIR_OWNERS, sizeof *hint);
	if (!hint)
		return -ENOMEM;
	/* One that took too long may be asked once more, of an etcd that is back. */
	for (int tries = 2; tries; tries--) {
		n = find_there(d, path, hint, deadline_ns, why);
		if (n != -EAGAIN)
			break;
	}
	if (n == -EAGAIN || n == EPD_EPEER || n == EPD_ETIMEOUT)
		epd_count(d->o.metrics, EPD_M_DIR_UNFRESH, 1);
	if (n == -EAGAIN)
		n = 0;
	if (n > max)
		n = max;
	if (n > 0)
		memcpy(out, hint, (size_t)n * sizeof *out);
	epd_free(hint);
	return n;
}

struct nodes {
	struct epd_dir *d;
	int (*fn)(void *arg, const struct epd_node_info *n);
	void *arg;
	char next[EPD_ETCD_KEY];	/* behind prefix; "": no more */
	int told;
};

static int
read_nodes(struct nodes *x, const struct epd_json *answer)
{
	const struct epd_json *kvs = epd_json_get(answer, "kvs");
	const size_t count = epd_json_count(kvs), n = strlen(x->d->prefix);
	const int more = epd_json_bool(epd_json_get(answer, "more"), 0);
	int rc = 0;

	x->next[0] = '\0';
	for (size_t i = 0; i < count && !rc; i++) {
		struct epd_node_info node;
		struct epd_etcd_kv kv;

		if (epd_etcd_kv(&kv, epd_json_at(kvs, i))) {
			epd_ask_wrong(x->d);
			continue;
		}
		if (epd_node_parse(&node, &kv, x->d->prefix))
			epd_ask_wrong(x->d);
		else
			rc = x->fn(x->arg, &node);
		/* A key has the next one right behind it, of one character more. */
		if (more && strlen(kv.key) > n &&
		    strlen(kv.key) < EPD_ETCD_KEY - 2)
			snprintf(x->next, sizeof x->next, "%s!", kv.key + n);
		epd_buf_free(&kv.value);
		x->told++;
	}
	return rc;
}

static int
etcd_nodes(struct epd_dir *d,
    int (*fn)(void *arg, const struct epd_node_info *n), void *arg,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct nodes x = { .d = d, .fn = fn, .arg = arg, .next = "nodes/" };
	int rc = 0;

	if (epd_ask_not(d)) {
		epd_count(d->o.metrics, EPD_M_DIR_UNFRESH, 1);
		return epd_dir_local.nodes(d, fn, arg, 0, why);
	}
	while (!rc && x.next[0] && x.told < NODES_MOST) {
		struct epd_json *answer;
		struct epd_ask a;
		uint64_t revision;

		epd_ask_begin(&a, d);
		epd_ask_key(&a, "key", x.next);
		epd_ask_key(&a, "range_end", "nodes0");
		epd_jw_int(&a.w, "limit", NODES_AT_ONCE);
		rc = epd_ask(&a, "kv/range", deadline_ns, &answer, &revision,
		    why);
		if (rc)
			break;
		rc = read_nodes(&x, answer);
		epd_json_free(answer);
	}
	return rc;
}

static int
etcd_open(struct epd_dir *d, const struct epd_config *c, struct epd_why *why)
{
	const char *at = c->directory_endpoints;
	int rc = 0;

	while (*at && !rc) {
		const size_t n = strcspn(at, ",");
		struct epd_http *h = NULL;

		if (d->endpoints == EPD_DIR_ENDPOINTS)
			return epd_why(why, EPD_EUSAGE,
			    "directory.endpoints: more than %d",
			    EPD_DIR_ENDPOINTS);
		memcpy(d->endpoint[d->endpoints], at, n);
		at += n + (at[n] == ',');
		at += strspn(at, " ");
		rc = epd_http_open(&h, d->endpoint[d->endpoints], 1, why);
		if (!rc) {
			d->idle[d->nidle].http = h;
			d->idle[d->nidle++].at = d->endpoints++;
		}
	}
	return rc || d->endpoints ? rc :
	    epd_why(why, EPD_EUSAGE, "directory.endpoints is empty");
}

static void
etcd_close(struct epd_dir *d)
{
	const uint64_t end = epd_clock_boot_ns() + 500 * MS;

	if (d->o.stays && d->lease && !d->away) {
		struct epd_ask a;

		epd_ask_begin(&a, d);
		epd_jw_uint(&a.w, "ID", d->lease);
		(void)epd_ask_only(&a, "kv/lease/revoke", end, NULL);
	}
	for (int i = 0; i < d->nidle; i++)
		epd_http_close(d->idle[i].http);
}

const struct epd_dir_backend epd_dir_etcd = {
	.name = "etcd", .open = etcd_open, .close = etcd_close,
	.watch = epd_etcd_watch,
	.tell = etcd_tell, .find = etcd_find, .nodes = etcd_nodes,
	.claim = epd_etcd_claim, .owner = epd_etcd_owner,
	.disclaim = epd_etcd_disclaim,
};
