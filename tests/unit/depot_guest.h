/*
 * depot_guest.h - a depot that is served in this process, and guests that ask its host
 * themselves: no socket is between them, so that a test sees what a lie comes to.
 */
#ifndef TESTS_DEPOT_GUEST_H
#define TESTS_DEPOT_GUEST_H

#include "flow/half.h"
#include "tests/unit/depot.h"

enum { MANOR_SLOTS = 4 };

/* State w1/s1 is group 1, three pages; w2 is empty; features 1 and 2 are there. */
struct manor {
	struct depot d;
	struct epd_store_options o;
	struct epd_serving *serving;
	struct epd_host host;
	struct epd_credits full;
	uint8_t w1[16], w2[16];		/* workflows' uuids */
	uint64_t run;			/* w1/s1's */
	int fds;
};

struct guest {
	const struct manor *of;
	struct epd_guest *g;
	uint64_t window[64];
	int nwindows;
	/* of the last question */
	struct epd_opened opened;
	struct epd_buf answer;
	struct epd_why why;
};

static inline void
manor_begin_as(struct manor *m, const char *tenant)
{
	struct epd_serving_options o = { .slots = MANOR_SLOTS,
	    .bytes = 64 << 20 };
	struct epd_workflow w;
	struct epd_version v;

	memset(m, 0, sizeof *m);
	depot_begin(&m->d);
	m->d.tenant = tenant;
	group_state(&m->d, "w1", 1, 3);
	depot_workflow(&m->d, "w1", &w);
	epd_shard_uuid(w.shard, m->w1);
	if (epd_shard_version(w.shard, 1, 1, &v) == 0)
		m->run = v.run;
	epd_workflow_close(&w);
	depot_workflow(&m->d, "w2", &w);
	epd_shard_uuid(w.shard, m->w2);
	epd_workflow_close(&w);
	depot_feature(&m->d, 1);
	depot_feature(&m->d, 2);
	m->o = depot_options(&m->d);
	o.store = m->o;
	if (epd_serving_new(&m->serving, &m->host, &o, depot_why(&m->d)) < 0)
		depot_die("serving", m->d.why.text);
	epd_serving_credits(m->serving, &m->full);
	m->fds = scratch_have("fd");
}

static inline void
manor_begin(struct manor *m)
{
	manor_begin_as(m, NULL);
}

static inline void
manor_end(struct manor *m)
{
	epd_serving_free(m->serving);
	depot_end(&m->d);
}

/* All that was granted is back. */
static inline int
manor_is_even(const struct manor *m)
{
	struct epd_credits c;

	epd_serving_credits(m->serving, &c);
	if (c.bytes != m->full.bytes || c.slots != m->full.slots)
		printf("# %llu of %llu bytes, %u of %u slots\n",
		    (unsigned long long)c.bytes,
		    (unsigned long long)m->full.bytes, c.slots,
		    m->full.slots);
	return c.bytes == m->full.bytes && c.slots == m->full.slots;
}

static inline uint64_t
manor_print_at(int dirfd, const char *path)
{
	DIR *d = fdopendir(openat(dirfd, ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC));
	uint64_t sum = 0;
	struct dirent *e;

	while (d && (e = readdir(d))) {
		char name[1100];
		struct stat st;

		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") ||
		    !strcmp(e->d_name, "metrics") ||
		    !strcmp(e->d_name, "procs") ||
		    fstatat(dirfd, e->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		snprintf(name, sizeof name, "%.800s/%.255s", path, e->d_name);
		sum += epd_xxh3_64(name, strlen(name)) *
		    (S_ISREG(st.st_mode) ? (uint64_t)st.st_size * 2 + 1 : 1);
		if (S_ISDIR(st.st_mode)) {
			const int sub = openat(dirfd, e->d_name, O_RDONLY |
			    O_DIRECTORY | O_CLOEXEC);

			sum += manor_print_at(sub, name);
			close(sub);
		}
	}
	if (d)
		closedir(d);
	return sum;
}

/* Other if a file came, went, or is of another size; but for counters. */
static inline uint64_t
manor_print(const struct manor *m)
{
	return manor_print_at(m->d.dir, "");
}

static inline uint64_t
manor_runs(struct manor *m)
{
	return (uint64_t)depot_runs(&m->d, "w1") * 1000 +
	    (uint64_t)depot_runs(&m->d, "w2");
}

static inline int
manor_leases(struct manor *m)
{
	struct epd_lease l = { .id = 0 };
	struct epd_workflow w;
	int n = 0;

	depot_workflow(&m->d, "w1", &w);
	while (epd_shard_lease_next(w.shard, l.id, &l) == 0)
		n++;
	epd_workflow_close(&w);
	return n;
}

/* ---- guests ---- */

/* One that has not said yet who it is. */
static inline void
guest_come(struct guest *g, const struct manor *m, int near)
{
	*g = (struct guest){ .of = m };
	if (m->host.begin(m->host.arg, near ? getpid() : 0, &g->g,
	    &g->why) < 0)
		depot_die("guest", g->why.text);
}

static inline void
guest_begin(struct guest *g, const struct manor *m, int near)
{
	static uint8_t party[16];
	struct epd_buf q = {0}, answer = {0};
	struct epd_opened opened;

	/* Each is a peer of its own. */
	party[0]++;
	guest_come(g, m, near);
	epd_ask_node_pack(&q, "", party);
	if (m->host.call(g->g, EPD_ASK_NODE, epd_span(q.p, q.n), &answer,
	    &opened, &g->why) < 0)
		depot_die("guest", g->why.text);
	epd_buf_free(&q);
	epd_buf_free(&answer);
}

/* Whether what is told a guest tells where anything lies; but what it said itself. */
static inline int
guest_tells(const struct guest *g, struct epd_span ask)
{
	const char *path = g->of->d.path;

	if (ask.n && memmem(ask.p, ask.n, path, strlen(path)))
		return 0;
	return strchr(g->why.text, '/') || strstr(g->why.text, "/proc") ||
	    (g->answer.n && memmem(g->answer.p, g->answer.n, path,
	    strlen(path)));
}

static inline int
guest_ask(struct guest *g, enum epd_ask verb, struct epd_span ask)
{
	/* An exact copy, so that a read past the end is seen. */
	void *own = malloc(ask.n ? ask.n : 1);
	int rc;

	if (ask.n)
		memcpy(own, ask.p, ask.n);
	epd_buf_free(&g->answer);
	g->why = (struct epd_why){{0}};
	g->opened = (struct epd_opened){ .id = 0 };
	rc = g->of->host.call(g->g, (uint16_t)verb, epd_span(own, ask.n),
	    &g->answer, &g->opened, &g->why);
	free(own);
	if (g->opened.id)
		g->window[g->nwindows++] = g->opened.id;
	if (guest_tells(g, ask))
		depot_die("an answer tells of a path", g->why.text);
	if (rc < 0 && !*g->why.text)
		depot_die("an answer", "that says nothing");
	/* More than a server would have. */
	if (g->nwindows == 64)
		while (g->nwindows > 4)
			g->of->host.gone(g->g, g->window[--g->nwindows]);
	return rc;
}

static inline void
guest_gone(struct guest *g, uint64_t id)
{
	for (int i = 0; i < g->nwindows; i++)
		if (g->window[i] == id) {
			g->window[i] = g->window[--g->nwindows];
			g->of->host.gone(g->g, id);
			return;
		}
}

static inline void
guest_end(struct guest *g)
{
	while (g->nwindows)
		g->of->host.gone(g->g, g->window[--g->nwindows]);
	g->of->host.end(g->g);
	epd_buf_free(&g->answer);
}

#endif
