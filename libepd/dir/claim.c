/*
 * claim.c - who owns a shard: decided by etcd's transactions.
 *
 * 1. shards/WORKFLOW stands by the owner's lease and goes with it; terms/WORKFLOW has
 *    the highest term that was given, and stays.
 * 2. Both are written by one transaction, on condition that the term is as it was read.
 *    Every claim makes it another: so of two who claim one wins, and a term is given once.
 * 3. What cannot be read there is no free shard: it is owned by nobody that we know, and
 *    not claimed.
 */
#include "dir/ask.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "dir/memory.h"

#define MS 1000000ull

enum { TRIES = 32 };

struct shard {
	char owner_key[EPD_ETCD_KEY], term_key[EPD_ETCD_KEY];
	int owned;
	struct epd_node_info owner;
	uint64_t owner_term, lease, owner_changed;	/* 0: not there */
	uint64_t term, term_changed;
};

static void
name_keys(struct shard *s, const uint8_t workflow[16])
{
	char hex[33];

	memset(s, 0, sizeof *s);
	epd_hex_format(hex, workflow, 16);
	strcpy(s->owner_key, "shards/");
	strcat(s->owner_key, hex);
	strcpy(s->term_key, "terms/");
	strcat(s->term_key, hex);
}

/* The first kv of the i-th response, if there is one: 1, 0, or what is wrong. */
static int
response(struct epd_etcd_kv *kv, const struct epd_json *answer, size_t i)
{
	const struct epd_json *r = epd_json_get(epd_json_at(
	    epd_json_get(answer, "responses"), i), "response_range");
	int rc;

	if (epd_json_type(r) != EPD_JSON_OBJECT)
		return EPD_EFORMAT;
	if (!epd_json_count(epd_json_get(r, "kvs")))
		return 0;
	rc = epd_etcd_kv(kv, epd_json_at(epd_json_get(r, "kvs"), 0));
	if (!rc && !kv->changed) {
		epd_buf_free(&kv->value);
		rc = EPD_EFORMAT;
	}
	return rc ? rc : 1;
}

static int
read_shard(struct shard *s, const struct epd_json *answer)
{
	struct epd_etcd_kv kv;
	int rc = response(&kv, answer, 0);

	if (rc == 1) {
		s->owned = 1;
		s->lease = kv.lease;
		s->owner_changed = kv.changed;
		rc = epd_owner_parse(&s->owner, &s->owner_term, &kv);
		epd_buf_free(&kv.value);
	}
	if (rc)
		return rc;
	rc = response(&kv, answer, 1);
	if (rc == 1) {
		s->term_changed = kv.changed;
		rc = epd_term_parse(&s->term, &kv);
		epd_buf_free(&kv.value);
	}
	if (!rc && s->owned && s->owner_term > s->term)
		rc = EPD_EFORMAT;
	return rc;
}

static void
ask_read(struct epd_ask *a, const char *key)
{
	epd_jw_begin(&a->w, NULL, '{');
	epd_jw_begin(&a->w, "request_range", '{');
	epd_ask_key(a, "key", key);
	epd_jw_end(&a->w, '}');
	epd_jw_end(&a->w, '}');
}

static int
look(struct epd_dir *d, struct shard *s, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct epd_json *answer;
	struct epd_ask a;
	uint64_t revision;
	int rc;

	epd_ask_begin(&a, d);
	epd_jw_begin(&a.w, "success", '[');
	ask_read(&a, s->owner_key);
	ask_read(&a, s->term_key);
	epd_jw_end(&a.w, ']');
	rc = epd_ask(&a, "kv/txn", deadline_ns, &answer, &revision, why);
	if (rc)
		return rc;
	rc = read_shard(s, answer);
	epd_json_free(answer);
	if (!rc || rc == -ENOMEM)
		return rc;
	epd_ask_wrong(d);
	return epd_why(why, EPD_EPEER,
	    "what the directory has of this shard cannot be read");
}

/* On condition that it is as it was read. */
static void
ask_same(struct epd_ask *a, const char *key, uint64_t changed)
{
	epd_jw_begin(&a->w, NULL, '{');
	epd_ask_key(a, "key", key);
	epd_jw_str(&a->w, "target", "MOD");
	epd_jw_str(&a->w, "result", "EQUAL");
	epd_jw_uint(&a->w, "mod_revision", changed);
	epd_jw_end(&a->w, '}');
}

static void
ask_write(struct epd_ask *a, const char *key, struct epd_buf *value,
    uint64_t lease)
{
	epd_jw_begin(&a->w, NULL, '{');
	epd_jw_begin(&a->w, "request_put", '{');
	epd_ask_put(a, key, value, lease);
	epd_jw_end(&a->w, '}');
	epd_jw_end(&a->w, '}');
	epd_buf_free(value);
}

/* 1: it took place; 0: something was another in the meantime. */
static int
commit(struct epd_ask *a, uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_json *answer;
	uint64_t revision;
	int rc = epd_ask(a, "kv/txn", deadline_ns, &answer, &revision, why);

	if (rc)
		return rc;
	rc = epd_json_bool(epd_json_get(answer, "succeeded"), 0);
	epd_json_free(answer);
	return rc;
}

static int
take(struct epd_dir *d, const struct shard *s, uint64_t term, uint64_t lease,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_node_info self = d->o.self;
	struct epd_buf value = { 0 };
	struct epd_ask a;

	self.wall_ms = epd_clock_wall_ms();
	epd_ask_begin(&a, d);
	epd_jw_begin(&a.w, "compare", '[');
	ask_same(&a, s->term_key, s->term_changed);
	epd_jw_end(&a.w, ']');
	epd_jw_begin(&a.w, "success", '[');
	epd_owner_format(&value, &self, term);
	ask_write(&a, s->owner_key, &value, lease);
	epd_term_format(&value, term);
	ask_write(&a, s->term_key, &value, 0);
	epd_jw_end(&a.w, ']');
	return commit(&a, deadline_ns, why);
}

static void
note(struct epd_dir *d, const uint8_t workflow[16], uint64_t term)
{
	struct epd_claim *c;

	pthread_mutex_lock(&d->lock);
	c = epd_claim_of(d, workflow, term != 0);
	/* We had it, and another has it now. */
	if (c && c->held && !term)
		epd_count(d->o.metrics, EPD_M_DIR_FENCED, 1);
	if (c) {
		c->held = term != 0;
		c->term = term ? term : c->term;
	}
	pthread_mutex_unlock(&d->lock);
}

/* A store may have several nodes: the name is part of who it is. */
static int
is_self(const struct epd_dir *d, const struct epd_node_info *n)
{
	return !memcmp(n->uuid, d->o.self.uuid, 16) &&
	    !strcmp(n->name, d->o.self.name);
}

/*
 * Two processes may call themselves the same: who lost it to the other lets it be, and
 * does not take it from him when he has no more use for it.
 */
static int
is_rivals(struct epd_dir *d, const uint8_t workflow[16], uint64_t lease)
{
	struct epd_claim *c;
	int rc;

	pthread_mutex_lock(&d->lock);
	c = epd_claim_of(d, workflow, 0);
	if (c && c->held)
		c->rival = lease;
	rc = c && c->rival == lease;
	pthread_mutex_unlock(&d->lock);
	return rc;
}

/* One try: 1, 0: try again, or why not. */
static int
claim_once(struct epd_dir *d, const uint8_t workflow[16], uint64_t least,
    uint64_t *term, uint64_t deadline_ns, struct epd_why *why)
{
	uint64_t lease, next;
	struct shard s;
	int rc;

	name_keys(&s, workflow);
	rc = look(d, &s, deadline_ns, why);
	if (!rc)
		rc = epd_etcd_lease(d, &lease, deadline_ns, why);
	if (rc)
		return rc;
	if (s.owned && !is_self(d, &s.owner)) {
		note(d, workflow, 0);
		return epd_why(why, EPD_ELOCKED,
		    "node %s at %s owns it, under term %llu", s.owner.name,
		    s.owner.address, (unsigned long long)s.owner_term);
	}
	if (s.owned && s.lease != lease && is_rivals(d, workflow, s.lease)) {
		note(d, workflow, 0);
		return epd_why(why, EPD_ELOCKED, "another process owns it that "
		    "calls itself node %s, too", s.owner.name);
	}
	if (s.owned && s.lease == lease && s.owner_term >= least) {
		*term = s.owner_term;
		return 1;
	}
	if (s.term >= INT64_MAX || least > INT64_MAX)
		return epd_why(why, EPD_ETOOBIG, "no term is left");
	next = s.term + 1 > least ? s.term + 1 : least;
	rc = take(d, &s, next, lease, deadline_ns, why);
	if (rc == 1)
		*term = next;
	if (rc == EPD_ELEASE) {
		pthread_mutex_lock(&d->lock);
		if (d->lease == lease)
			d->lease = 0;
		pthread_mutex_unlock(&d->lock);
		return 0;
	}
	return rc;
}

int
epd_etcd_claim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t least, uint64_t *term, uint64_t deadline_ns, struct epd_why *why)
{
	int rc = 0;

	/* Each try that fails is somebody else's that did not. */
	for (int i = 0; i < TRIES && !rc; i++)
		rc = claim_once(d, workflow, least, term, deadline_ns, why);
	if (!rc)
		return epd_why(why, EPD_ETIMEOUT, "others claim it, too");
	if (rc != 1)
		return rc;
	note(d, workflow, *term);
	return 0;
}

int
epd_etcd_owner(struct epd_dir *d, const uint8_t workflow[16],
    struct epd_node_info *out, uint64_t *term, uint64_t deadline_ns,
    struct epd_why *why)
{
	struct shard s;
	int rc;

	name_keys(&s, workflow);
	rc = look(d, &s, deadline_ns, why);
	if (rc || !s.owned)
		return rc;
	*out = s.owner;
	*term = s.owner_term;
	return 1;
}

int
epd_etcd_disclaim(struct epd_dir *d, const uint8_t workflow[16],
    uint64_t deadline_ns, struct epd_why *why)
{
	struct epd_claim *c, was = { .held = 0 };
	uint64_t lease;
	struct epd_ask a;
	struct shard s;
	int rc = 0;

	pthread_mutex_lock(&d->lock);
	lease = d->lease;
	c = epd_claim_of(d, workflow, 0);
	if (c) {
		was = *c;
		c->held = 0;
	}
	pthread_mutex_unlock(&d->lock);
	for (int i = 0; i < TRIES && !rc; i++) {
		name_keys(&s, workflow);
		rc = look(d, &s, deadline_ns, why);
		if (rc)
			return rc;
		if (!s.owned || !is_self(d, &s.owner) ||
		    (was.rival && s.lease == was.rival) ||
		    (was.held && s.lease != lease))
			return 0;
		epd_ask_begin(&a, d);
		epd_jw_begin(&a.w, "compare", '[');
		ask_same(&a, s.owner_key, s.owner_changed);
		epd_jw_end(&a.w, ']');
		epd_jw_begin(&a.w, "success", '[');
		epd_jw_begin(&a.w, NULL, '{');
		epd_jw_begin(&a.w, "request_delete_range", '{');
		epd_ask_key(&a, "key", s.owner_key);
		epd_jw_end(&a.w, '}');
		epd_jw_end(&a.w, '}');
		epd_jw_end(&a.w, ']');
		rc = commit(&a, deadline_ns, why);
	}
	return rc == 1 ? 0 : rc ? rc : epd_why(why, EPD_ETIMEOUT,
	    "others claim it, too");
}
