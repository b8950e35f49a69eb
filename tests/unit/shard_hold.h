/*
 * shard_hold.h - for tests of branches, leases and hand-offs: all that holds a
 * state as one hash, versions that link others' pages, a child that lives on.
 */
#ifndef TESTS_SHARD_HOLD_H
#define TESTS_SHARD_HOLD_H

#include <signal.h>
#include <sys/mman.h>

#include "base/lock.h"
#include "tests/unit/shard.h"

/* A writing handle, with a holder of leases if there are procs. */
static inline int
hold_open(struct epd_shard **s, int dir, struct epd_procs *procs)
{
	struct epd_shard_options o = shard_plain;
	struct epd_why why = { "" };
	int rc;

	o.procs = procs;
	rc = epd_shard_open(s, dir, &o, &why);
	if (rc && getenv("SHARD_WHY"))
		printf("# open: %d: %s\n", rc, why.text);
	return rc;
}

/* As shard_make, with all pages but the last in links; four of them. */
static inline const struct epd_version *
hold_make(struct shard_made *m, struct epd_run_link link[2], uint64_t seed,
    uint64_t run)
{
	static struct epd_page_ref pages[4];

	shard_make(m, seed, run);
	m->v.nids = SHARD_IDS;
	m->v.npages = 3;
	for (uint32_t i = 0; i < 3; i++) {
		memset(pages[i].name.b, (int)(seed & 255), EPD_NAME);
		pages[i].rows = i < 2 ? 16 : 8;
		pages[i].sum = seed + i;
	}
	m->v.pages = pages;
	link[0] = (struct epd_run_link){ run + 1, 1 };
	link[1] = (struct epd_run_link){ run + 2, 1 };
	m->v.links = link;
	m->v.nlinks = 2;
	return &m->v;
}

static inline void
hold_pack_half(struct epd_buf *b, const struct epd_handoff *h)
{
	epd_buf_put(b, h->id, 16);
	epd_buf_fmt(b, "%d %d s%u@%u %u %u %s %s %llu;", h->target, h->phase,
	    h->state, h->version, h->peer_state, h->peer_version, h->store,
	    h->workflow, (unsigned long long)h->deadline_ms);
	epd_buf_put(b, h->peer, 16);
	epd_buf_put(b, h->home, 16);
	epd_buf_put(b, h->boot, 16);
}

/*
 * All a shard shows but lsns: states but for their last change, versions, counts,
 * leases and halves; holders says whether also by whom leases are held.  0 if
 * something cannot be read.
 */
static inline uint64_t
hold_hash_of(struct epd_shard *s, int holders)
{
	struct epd_handoff half = { .lsn = 0 };
	struct epd_lease l = { .id = 0 };
	struct epd_outline o = { .node = 0 };
	struct epd_buf b = { 0 };
	struct epd_version v;
	struct epd_state st;
	uint32_t heads, children;
	uint64_t h = 0;
	int rc = 0;

	for (uint32_t id = 0; !rc && !epd_shard_next(s, id, &st); id = st.id) {
		epd_buf_fmt(&b, "s%u %u %d %llu %u %u %llu %s %s %s %s %s "
		    "%llu;", st.id,
		    st.versions, st.status, (unsigned long long)st.created_ms,
		    st.parent_state, st.parent_version,
		    (unsigned long long)st.ttl_deadline_ms, st.model_path,
		    st.tenant, st.fingerprint, st.tier, st.tool,
		    (unsigned long long)st.wait_deadline_ms);
		for (uint32_t n = 1; !rc && n <= st.versions; n++) {
			rc = epd_shard_version(s, st.id, n, &v);
			if (!rc)
				shard_pack_version(&b, &v);
		}
	}
	while (!rc && !epd_shard_outline_next(s, o.node, &o)) {
		rc = epd_shard_counts(s, o.node, &heads, &children);
		epd_buf_fmt(&b, "%llu %llu %u %u %u;",
		    (unsigned long long)o.node, (unsigned long long)o.run,
		    o.nlinks, heads, children);
	}
	while (!epd_shard_lease_next(s, l.id, &l)) {
		epd_buf_fmt(&b, "%u@%u %d %d %llu;", l.state, l.version,
		    l.kind, holders ? l.holder.pid : 0,
		    (unsigned long long)l.deadline_ms);
		epd_pack_u64(&b, holders ? l.holder.start : 0);
	}
	while (!epd_shard_handoff_next(s, half.lsn, &half))
		hold_pack_half(&b, &half);
	if (!rc && !b.failed)
		h = epd_xxh3_64(b.p ? b.p : (const void *)"", b.n) | 1;
	epd_buf_free(&b);
	return h;
}

static inline uint64_t
hold_hash(struct epd_shard *s)
{
	return hold_hash_of(s, 1);
}

/* Whether another reader, and a handle behind a checkpoint, see the same. */
static inline int
hold_same(struct epd_shard *s, int dir)
{
	uint64_t h = hold_hash(s), all = shard_hash(s), lsn = epd_shard_lsn(s);
	struct epd_shard *r = NULL;
	int same;

	same = h && !shard_open(&r, dir, 1) && hold_hash(r) == h &&
	    shard_hash(r) == all &&
	    epd_shard_lsn(r) == lsn && epd_shard_term(r) == epd_shard_term(s) &&
	    !epd_shard_check(r, shard_fault_print, NULL, NULL);
	epd_shard_close(r);
	r = NULL;
	same = same && !epd_shard_checkpoint(s, NULL) && hold_hash(s) == h &&
	    !shard_open(&r, dir, 1) && hold_hash(r) == h &&
	    shard_hash(r) == all && epd_shard_lsn(r) == lsn &&
	    !epd_shard_check(r, shard_fault_print, NULL, NULL) &&
	    !epd_shard_check(s, shard_fault_print, NULL, NULL);
	epd_shard_close(r);
	return same;
}

static inline uint32_t
hold_heads(struct epd_shard *s, uint64_t node)
{
	uint32_t heads = 0, children;

	return epd_shard_counts(s, node, &heads, &children) ? 0 : heads;
}

/* Nodes that are left. */
static inline int
hold_nodes(struct epd_shard *s)
{
	struct epd_outline o = { .node = 0 };
	int n = 0;

	while (!epd_shard_outline_next(s, o.node, &o))
		n++;
	return n;
}

/* How often each run below 256 was told. */
static inline void
hold_freed(void *arg, uint64_t run)
{
	uint8_t *told = arg;

	if (run < 256)
		told[run]++;
}

/*
 * A child process with a handle of its own, that says when what it did is done
 * and then waits to be told to go on.
 */
struct hold_child {
	pid_t pid;
	int said, go;		/* pipes' ends */
};

static inline int
hold_say(int fd, int rc)
{
	return write(fd, &rc, sizeof rc) == sizeof rc ? 0 : -1;
}

static inline int
hold_hear(int fd)
{
	int rc = -1;

	return read(fd, &rc, sizeof rc) == sizeof rc ? rc : -1000;
}

/* work runs in the child; what it first says is *rc. */
static inline void
hold_fork(struct hold_child *c, int *rc,
    void (*work)(int said, int go, void *arg), void *arg)
{
	int up[2], down[2];

	*rc = -1000;
	c->pid = -1;
	if (pipe(up) || pipe(down))
		return;
	fflush(stdout);
	c->pid = fork();
	if (!c->pid) {
		close(up[0]);
		close(down[1]);
		work(up[1], down[0], arg);
		_exit(0);
	}
	close(up[1]);
	close(down[0]);
	c->said = up[0];
	c->go = down[1];
	*rc = hold_hear(c->said);
}

/* Let it go on, or kill it; what becomes of it. */
static inline int
hold_end(struct hold_child *c, int sig)
{
	int rc;

	if (sig)
		kill(c->pid, sig);
	close(c->go);
	rc = scratch_wait(c->pid);
	close(c->said);
	return rc;
}

#endif
