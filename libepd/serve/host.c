/*
 * host.c - the host of a data server: guests, their windows, and what they are granted
 * together.
 *
 * 1. A guest's bytes of credit are taken before memory is, and given back with the
 *    window.
 * 2. What a guest wrote and no hand-off named goes with it, and is bounded, of a party
 *    and in all (kept.c).
 * 3. A guest's open files are bounded, so that none is left without.
 * 4. Nothing is answered before a guest said whose it is, and he stays that one's.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/said.h"
#include "serve/guest.h"

struct epd_serving {
	struct epd_serving_options o;
	uint64_t most;			/* bytes that left began with */
	pthread_mutex_t lock;		/* of what follows */
	struct epd_credits left;
	struct epd_kept_list kept;	/* with a lock of its own */
};

/* ---- credits ---- */

int
epd_serving_take(struct epd_serving *s, uint64_t bytes, struct epd_why *why)
{
	int rc = 0;

	if (bytes > s->most)
		return epd_why(why, EPD_ETOOBIG, "%llu bytes are more than the "
		    "%llu it ever grants", (unsigned long long)bytes,
		    (unsigned long long)s->most);
	pthread_mutex_lock(&s->lock);
	if (bytes > s->left.bytes)
		rc = epd_why(why, EPD_ECREDIT, "%llu bytes are more than the "
		    "%llu it grants now", (unsigned long long)bytes,
		    (unsigned long long)s->left.bytes);
	else if (!s->left.slots)
		rc = epd_why(why, EPD_ECREDIT, "as much is being written to "
		    "it as it grants");
	if (rc == 0) {
		s->left.bytes -= bytes;
		s->left.slots--;
		s->left.generation++;
	}
	pthread_mutex_unlock(&s->lock);
	return rc;
}

void
epd_serving_give(struct epd_serving *s, uint64_t bytes)
{
	pthread_mutex_lock(&s->lock);
	s->left.bytes += bytes;
	s->left.slots++;
	s->left.generation++;
	pthread_mutex_unlock(&s->lock);
}

void
epd_serving_credits(struct epd_serving *s, struct epd_credits *out)
{
	pthread_mutex_lock(&s->lock);
	*out = s->left;
	pthread_mutex_unlock(&s->lock);
}

/* ---- windows ---- */

struct epd_window *
epd_window_new(enum epd_window_kind kind, uint32_t n)
{
	struct epd_window *w = epd_calloc(1, sizeof *w);

	if (w && !(w->extent = epd_calloc(n + 1u, sizeof *w->extent))) {
		epd_free(w);
		w = NULL;
	}
	if (w) {
		w->kind = kind;
		for (int i = 0; i < EPD_PARTS; i++)
			w->files.fd[i] = -1;
	}
	return w;
}

void
epd_window_free(struct epd_guest *g, struct epd_window *w)
{
	if (!w)
		return;
	g->files -= w->open;
	epd_gift_free(w->gift);
	epd_arrival_free(w->arrival);
	epd_feature_close_parts(&w->files);
	for (int i = 0; i < EPD_PARTS; i++)
		epd_free(w->part[i]);
	if (w->charged)
		epd_serving_give(g->of, w->charged);
	if (w->unnamed)
		epd_kept_give(&g->of->kept, g, w->unnamed);
	epd_free(w->extent);
	epd_free(w);
}

void
epd_window_enter(struct epd_guest *g, struct epd_window *w,
    struct epd_opened *out)
{
	w->id = ++g->next_id;
	w->next = g->window;
	g->window = w;
	*out = (struct epd_opened){
		.id = w->id, .extent = w->extent, .n = w->n,
		.writable = w->kind == EPD_WINDOW_PAGES_IN ||
		    w->kind == EPD_WINDOW_FEATURE_IN,
	};
}

int
epd_guest_room(const struct epd_guest *g, struct epd_why *why)
{
	enum { FILES = 1024 };

	return g->files + g->nmarks < FILES ? 0 : epd_why(why, EPD_ECREDIT,
	    "as many files are open for it as it is granted");
}

void
epd_guest_holds(struct epd_guest *g, struct epd_window *w, uint32_t files)
{
	w->open += files;
	g->files += files;
}

struct epd_window *
epd_window_find(struct epd_guest *g, uint64_t id)
{
	struct epd_window *w = g->window;

	while (w && w->id != id)
		w = w->next;
	return w;
}

static void
gone(struct epd_guest *g, uint64_t id)
{
	struct epd_window **at = &g->window, *w;

	while (*at && (*at)->id != id)
		at = &(*at)->next;
	if (!(w = *at))
		return;
	*at = w->next;
	epd_window_free(g, w);
}

/* ---- guests ---- */

static int
begin(void *arg, pid_t near, struct epd_guest **out, struct epd_why *why)
{
	struct epd_serving *s = arg;
	struct epd_store_options o = s->o.store;
	struct epd_guest *g = epd_calloc(1, sizeof *g);
	int rc;

	if (!g)
		return epd_why(why, -ENOMEM, "no memory");
	o.create = o.look = 0;
	g->of = s;
	g->near = near;
	rc = epd_store_open(&g->s, &o, NULL);
	if (rc < 0) {
		epd_free(g);
		/* Its path is nobody's business. */
		return epd_why(why, rc, "the store cannot be opened: %s",
		    epd_strerror(rc));
	}
	*out = g;
	return 0;
}

static void
end(struct epd_guest *g)
{
	while (g->window)
		gone(g, g->window->id);
	epd_kept_end(&g->of->kept, g);
	epd_free(g->claimed);
	epd_store_close(g->s);
	epd_free(g);
}

/* Whether somebody wrote it who told this guest so; READY names it then. */
static int
is_kept(void *arg, const char *workflow, uint64_t run)
{
	struct epd_guest *g = arg;
	void *p;

	if (!epd_kept_has(&g->of->kept, g, workflow, run) ||
	    !(p = epd_grow(g->claimed, g->nclaimed, &g->claimed_room,
	    sizeof *g->claimed)))
		return 0;
	g->claimed = p;
	g->claimed[g->nclaimed++] = run;
	return 1;
}

struct epd_kept_list *
epd_serving_kept(struct epd_serving *s)
{
	return &s->kept;
}

/* ---- calls ---- */

static int
answer_node(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_node_facts f;
	char tenant[64];
	uint8_t party[16];
	int rc = epd_ask_node_unpack(c, tenant, party);

	if (rc == 0 && epd_cur_left(c))
		rc = EPD_EFORMAT;
	if (rc < 0)
		return epd_why(why, rc, "a question that is none");
	if (strcmp(tenant, g->s->tenant))
		return epd_why(why, EPD_EMODEL, "it serves another tenant");
	if (g->met && memcmp(g->party, party, sizeof party))
		return epd_why(why, EPD_EUSAGE, "he was another's before");
	g->met = 1;
	memcpy(g->party, party, sizeof g->party);
	memcpy(f.uuid, g->s->uuid, 16);
	epd_serving_credits(g->of, &f.credits);
	f.most = g->of->most;
	epd_node_facts_pack(answer, &f);
	return 0;
}

static int
answer_half(struct epd_guest *g, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *answer, struct epd_why *why)
{
	struct epd_half_ask a;
	struct epd_cur c = epd_cur(ask);
	int rc;

	g->nclaimed = 0;
	rc = epd_ask_answer(g->s, verb, ask, answer, is_kept, g, why);
	if (verb == EPD_ASK_READY && rc == 0 &&
	    epd_half_ask_unpack(&c, &a) == 0)
		epd_kept_let_go(&g->of->kept, g->s, a.workflow, g->claimed,
		    g->nclaimed);
	return rc;
}

static int
answer(struct epd_guest *g, enum epd_ask verb, struct epd_span ask,
    struct epd_buf *out, struct epd_opened *opened, struct epd_why *why)
{
	struct epd_cur c = epd_cur(ask);

	if (!g->met && verb != EPD_ASK_NODE)
		return epd_why(why, EPD_EUSAGE, "first who asks, and whose he "
		    "is");
	switch (verb) {
	case EPD_ASK_NODE:
		return answer_node(g, &c, out, why);
	case EPD_ASK_HAVE: case EPD_ASK_READ_PAGES: case EPD_ASK_WRITE_PAGES:
	case EPD_ASK_KEEP_PAGES: case EPD_ASK_ADOPT_PAGES:
		return epd_guest_pages(g, verb, &c, out, opened, why);
	case EPD_ASK_HAS_FEATURE: case EPD_ASK_READ_FEATURE:
	case EPD_ASK_WRITE_FEATURE: case EPD_ASK_KEEP_FEATURE:
		return epd_guest_feature(g, verb, &c, out, opened, why);
	default:
		if (verb > 0 && verb < EPD_ASKS)
			return answer_half(g, verb, ask, out, why);
		return epd_why(why, EPD_EUNSUPPORTED, "a question of a newer "
		    "version");
	}
}

static int
call(struct epd_guest *g, uint16_t verb, struct epd_span ask,
    struct epd_buf *out, struct epd_opened *opened, struct epd_why *why)
{
	const size_t had = out->n;
	struct epd_why own = {{0}}, said;
	int rc;

	*opened = (struct epd_opened){ .id = 0 };
	rc = answer(g, (enum epd_ask)verb, ask, out, opened, &own);
	if (rc == 0 && out->failed)
		rc = epd_why(&own, -ENOMEM, "no memory");
	if (rc >= 0)
		return 0;
	if (opened->id)
		gone(g, opened->id);
	*opened = (struct epd_opened){ .id = 0 };
	out->n = had;
	/* It may have the guest's words in it. */
	epd_said(said.text, sizeof said.text, epd_span_str(own.text));
	epd_log(&g->s->log, "op=serve verb=%u result=%s why=\"%s\"", verb,
	    epd_errlabel(rc), said.text);
	/* One that a path is in is not for him at all. */
	return epd_why(why, rc, "%s", *own.text && !strchr(own.text, '/') ?
	    own.text : epd_strerror(rc));
}

/* ---- all ---- */

int
epd_serving_new(struct epd_serving **out, struct epd_host *host,
    const struct epd_serving_options *o, struct epd_why *why)
{
	struct epd_store_options look = o->store;
	struct epd_serving *s;
	struct epd_store *store;
	int rc = epd_store_open(&store, &look, why);

	if (rc < 0)
		return rc;
	s = epd_calloc(1, sizeof *s);
	if (s) {
		s->o = *o;
		s->left = (struct epd_credits){
			.generation = 1,
			.bytes = o->bytes ? o->bytes :
			    epd_memory_cap(store->memory) / 2,
			.slots = o->slots ? o->slots : 64,
			.staging = 16,
		};
		s->kept.most = epd_memory_cap(store->memory);
		s->most = s->left.bytes < epd_kept_share(&s->kept) ?
		    s->left.bytes : epd_kept_share(&s->kept);
		pthread_mutex_init(&s->lock, NULL);
		pthread_mutex_init(&s->kept.lock, NULL);
	}
	epd_store_close(store);
	if (!s)
		return epd_why(why, -ENOMEM, "no memory");
	*host = (struct epd_host){ .arg = s, .begin = begin, .end = end,
	    .call = call, .gone = gone };
	*out = s;
	return 0;
}

void
epd_serving_free(struct epd_serving *s)
{
	if (!s)
		return;
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->kept.lock);
	epd_free(s->kept.v);
	epd_free(s);
}
