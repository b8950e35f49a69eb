/*
 * flow_watch.c - a workflow that is held open shows what one opened anew shows, and
 * its pages stay what they were, whatever becomes of them.
 */
#include <sys/stat.h>

#include "flow/watch.h"
#include "tests/unit/flow_hand.h"

static struct epd_watch *
watch(struct kit *k)
{
	struct epd_watch *w;

	if (epd_watch_open(&w, k->s, k->workflow, kit_why(k)) < 0)
		golden_die("watch", k->why.text);
	return w;
}

static uint32_t
say(struct kit *k, uint32_t state, const char *text)
{
	struct epd_prefilled p;

	if (kit_say(k, state, text, NULL, &p) < 0)
		golden_die("prefill", k->why.text);
	return p.state;
}

/* The same object by both ways. */
static int
agree(struct kit *k, struct epd_watch *w, uint32_t state, uint32_t version)
{
	const struct epd_ref ref = {
		.kind = EPD_REF_STATE, .state = state, .version = version,
	};
	struct epd_ref full = ref;
	struct epd_buf a = {0}, b = {0};
	int32_t *x = NULL, *y = NULL;
	uint64_t nx = 0, ny = 0;
	int ok;

	snprintf(full.workflow, sizeof full.workflow, "%s", k->workflow);
	ok = epd_view_json(k->s, &full, &a, NULL) == 0 &&
	    epd_watch_json(w, state, version, &b, NULL) == 0 && a.n == b.n &&
	    !memcmp(a.p, b.p, a.n) &&
	    epd_view_tokens(k->s, &full, &x, &nx, NULL) == 0 &&
	    epd_watch_tokens(w, state, version, &y, &ny, NULL) == 0 &&
	    nx == ny && !memcmp(x, y, nx * sizeof *x);
	epd_buf_free(&a);
	epd_buf_free(&b);
	epd_free(x);
	epd_free(y);
	return ok;
}

TEST(goes_on_with_the_log)
{
	struct epd_fork_request f = { .branches = 3, .reason = "test" };
	struct epd_forked d;
	struct epd_watch *w;
	struct kit k;
	uint32_t s;

	kit_start(&k, QWEN3);
	s = say(&k, 0, "Look at this.");
	w = watch(&k);
	CHECK_INT(epd_watch_on(w, NULL), 0);
	CHECK(agree(&k, w, s, 0));
	/* A moment is a moment until it is told to go on. */
	say(&k, s, "And at that.");
	CHECK(!agree(&k, w, s, 0));
	CHECK_INT(epd_watch_on(w, NULL), 1);
	CHECK(agree(&k, w, s, 0));
	CHECK(agree(&k, w, s, 1));
	f.from = hand_ref(k.workflow, s);
	CHECK_INT(epd_flow_fork(k.s, &f, &d, kit_why(&k)), 0);
	CHECK_INT(epd_watch_on(w, NULL), 1);
	for (uint32_t i = 0; i < 3; i++)
		CHECK(agree(&k, w, d.first + i, 0));
	CHECK_INT(epd_watch_json(w, 99, 0, &(struct epd_buf){0}, NULL),
	    EPD_ENOSTATE);
	CHECK_INT(epd_watch_json(w, s, 9, &(struct epd_buf){0}, NULL),
	    EPD_ENOTHING);
	epd_watch_close(w);
	kit_end(&k);
}

/* Pages of a version, and one of each name that is in memory. */
struct pages {
	uint64_t node[64];
	uint32_t k[64], states[64];
	int n, there;
};

static int
page(void *arg, const struct epd_page_sight *p)
{
	struct pages *x = arg;

	x->node[x->n] = p->node;
	x->k[x->n] = p->k;
	x->states[x->n] = p->states;
	x->there += p->in_memory;
	return ++x->n == 64;
}

TEST(pages_are_told_and_pinned)
{
	struct epd_fork_request f = { .branches = 2, .reason = "test" };
	struct pages t = {0}, all = {0};
	struct epd_forked d;
	struct epd_watch *w;
	struct epd_pin *pin[64];
	uint8_t *was[64];
	struct kit k;
	uint32_t s;

	kit_start(&k, QWEN3);
	s = say(&k, 0, "One word, and another, and more of them, until there "
	    "are pages enough to tell one from the other and the third.");
	say(&k, s, "The next turn fills on what the first has left.");
	f.from = hand_ref(k.workflow, s);
	CHECK_INT(epd_flow_fork(k.s, &f, &d, kit_why(&k)), 0);
	w = watch(&k);
	CHECK_INT(epd_watch_table(w, s, 0, page, &t, kit_why(&k)), 0);
	CHECK_INT(epd_watch_pages(w, page, &all, kit_why(&k)), 0);
	CHECK(t.n > 2 && all.n == t.n + 1);	/* the one that was filled on */
	CHECK_INT(t.there, t.n);
	for (int i = 0; i < all.n; i++)
		CHECK_INT(all.states[i], 3);
	for (int i = 0; i < t.n; i++) {
		struct epd_span b;

		CHECK_INT(epd_watch_pin(w, t.node[i], t.k[i], pin + i,
		    kit_why(&k)), 0);
		b = epd_pin_bytes(pin[i]);
		CHECK_INT(b.n, k.se->page_bytes);
		was[i] = epd_malloc(b.n);
		memcpy(was[i], b.p, b.n);
	}
	CHECK_INT(epd_watch_pin(w, t.node[0], 99, &(struct epd_pin *){NULL},
	    NULL), EPD_ENOTHING);
	CHECK_INT(epd_watch_pin(w, 12345, 0, &(struct epd_pin *){NULL}, NULL),
	    EPD_ENOTHING);
	/* Lost, they are told as lost, and those that are held stay. */
	kit_lose(&k, 0);
	CHECK_INT(epd_watch_on(w, NULL), 1);
	t.n = t.there = 0;
	CHECK_INT(epd_watch_table(w, s, 0, page, &t, kit_why(&k)), 0);
	CHECK_INT(t.there, 0);
	CHECK_INT(epd_watch_pin(w, t.node[0], t.k[0], &(struct epd_pin *){NULL},
	    kit_why(&k)), -ENODATA);
	CHECK(strstr(k.why.text, "in no tier"));
	epd_watch_close(w);
	for (int i = 0; i < t.n; i++) {
		struct epd_span b = epd_pin_bytes(pin[i]);

		CHECK(!memcmp(b.p, was[i], b.n));
		epd_pin_free(pin[i]);
		epd_free(was[i]);
	}
	epd_pin_free(NULL);
	epd_watch_close(NULL);
	kit_end(&k);
}

TEST(a_workflow_that_is_gone_says_so)
{
	char path[300], away[320];
	struct epd_buf b = {0};
	struct epd_watch *w;
	struct kit k;

	kit_start(&k, QWEN3);
	say(&k, 0, "Look.");
	w = watch(&k);
	snprintf(path, sizeof path, "%s/w/%s", k.store, k.workflow);
	snprintf(away, sizeof away, "rm -rf '%s'", path);
	CHECK_INT(system(away), 0);
	CHECK_INT(epd_watch_on(w, kit_why(&k)), EPD_ENOTHING);
	CHECK(strstr(k.why.text, "no such workflow"));
	/* It shows what it showed. */
	CHECK_INT(epd_watch_json(w, 1, 0, &b, NULL), 0);
	epd_buf_free(&b);
	epd_watch_close(w);
	kit_end(&k);
}

/* ---- records as they come ---- */

static int
counted(void *arg, const struct epd_record *r)
{
	uint64_t *last = arg;

	if (r->lsn <= *last)
		return -EINVAL;
	*last = r->lsn;
	return 0;
}

TEST(a_log_is_followed_over_checkpoints)
{
	struct epd_workflow w, writer;
	struct epd_follow *f;
	struct kit k;
	uint64_t last = 0;
	uint32_t s;

	kit_start(&k, QWEN3);
	s = say(&k, 0, "Look.");
	CHECK_INT(epd_workflow_open(&w, k.s, k.workflow, 1, NULL), 0);
	CHECK_INT(epd_follow_open(&f, w.shard), 0);
	CHECK_INT(epd_follow_on(f, counted, &last, kit_why(&k)), 0);
	for (int i = 0; i < 6; i++) {
		uint64_t had = last;

		say(&k, s, "And more.");
		if (i % 2) {
			CHECK_INT(epd_workflow_open(&writer, k.s, k.workflow, 0,
			    NULL), 0);
			CHECK_INT(epd_shard_checkpoint(writer.shard, NULL), 0);
			epd_workflow_close(&writer);
		}
		CHECK_INT(epd_follow_on(f, counted, &last, kit_why(&k)), 0);
		CHECK(last > had);
		had = last;
		CHECK_INT(epd_follow_on(f, counted, &last, kit_why(&k)), 0);
		CHECK_INT(last, had);
	}
	epd_follow_close(f);
	epd_workflow_close(&w);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
