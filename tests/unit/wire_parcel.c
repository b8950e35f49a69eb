/*
 * wire_parcel.c - states that a peer made up: what their tokens, images, pages and words
 * say cannot be.  They are refused when they come, or are an error or SUSPECT when they are
 * used; who looks at them sees what is there; the store goes on.
 */
#include "flow/half.h"
#include "flow/names.h"
#include "flow/whole.h"
#include "engine/chat/transcript.h"
#include "serve/guest.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

struct peer {
	struct kit k;
	struct epd_store_options o;
	struct epd_serving *serving;
	struct epd_host host;
	struct epd_guest *g;
	uint8_t uuid[16];
	struct epd_whole f;		/* of the state that is good */
	uint32_t n;			/* states that came */
	struct epd_why why;
};

static int
ask(struct peer *p, enum epd_ask verb, const struct epd_buf *q,
    struct epd_buf *answer, struct epd_opened *opened)
{
	struct epd_opened own;
	struct epd_buf nothing = {0};
	int rc;

	if (q->failed)
		golden_die("question", "no memory");
	p->why = (struct epd_why){{0}};
	rc = p->host.call(p->g, (uint16_t)verb, epd_span(q->p, q->n),
	    answer ? answer : &nothing, opened ? opened : &own, &p->why);
	epd_buf_free(&nothing);
	return rc;
}

static void
begin(struct peer *p, const char *model, int pictures)
{
	struct epd_serving_options o = { .slots = 4 };
	struct epd_buf q = {0}, answer = {0};
	struct epd_prefilled out;
	struct epd_workflow w;
	const char *path[3] = { NULL };

	memset(p, 0, sizeof *p);
	kit_start(&p->k, model);
	for (int i = 0; i < pictures; i++)
		path[i] = kit_picture(&p->k, i ? "b.ppm" : "a.ppm", 56, 56,
		    (uint32_t)i + 3);
	if (kit_say(&p->k, 0, "What do you see here, and there, and what not?",
	    path, &out) < 0 ||
	    epd_workflow_open(&w, p->k.s, "w1", 1, kit_why(&p->k)) < 0 ||
	    epd_whole_make(&p->f, &w, out.state, 0, kit_why(&p->k)) < 0)
		golden_die("state", p->k.why.text);
	epd_workflow_close(&w);
	o.store = (struct epd_store_options){ .path = p->k.store,
	    .config = &p->k.config };
	if (epd_serving_new(&p->serving, &p->host, &o, kit_why(&p->k)) < 0 ||
	    p->host.begin(p->host.arg, 1, &p->g, kit_why(&p->k)) < 0)
		golden_die("host", p->k.why.text);
	epd_ask_node_pack(&q, "", (uint8_t[16]){0});
	if (ask(p, EPD_ASK_NODE, &q, &answer, NULL) < 0)
		golden_die("guest", p->why.text);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	epd_ask_str(&q, "to");
	if (ask(p, EPD_ASK_MAKE, &q, &answer, NULL) < 0)
		golden_die("workflow", p->why.text);
	memcpy(p->uuid, (uint8_t *)answer.p + answer.n - 16, 16);
	epd_buf_free(&q);
	epd_buf_free(&answer);
}

static void
end(struct peer *p)
{
	p->host.end(p->g);
	epd_serving_free(p->serving);
	epd_whole_free(&p->f);
	kit_end(&p->k);
}

/* ---- a state that a test has changed ---- */

struct lie {
	struct epd_state traits;
	struct epd_version v;
	int32_t ids[512];
	struct epd_image_ref image[64];
	struct epd_page_ref page[64];
	uint32_t npages;
	int with_pages;		/* bytes of its own come with it */
};

static struct lie
truth(const struct peer *p)
{
	struct lie l = { .traits = p->f.traits, .v = p->f.v };

	memcpy(l.ids, p->f.v.ids, p->f.v.nids * sizeof *l.ids);
	memcpy(l.image, p->f.v.images, p->f.v.nimages * sizeof *l.image);
	return l;
}

/* Its pages' names, as whoever means harm can make them too. */
static void
name_pages(const struct peer *p, struct lie *l)
{
	const uint32_t t = l->traits.page_tokens;
	const uint64_t merge = epd_names_merge(&l->traits);
	const struct epd_name *up = &l->traits.base;
	static uint8_t bytes[1 << 20];

	l->npages = l->v.nids > 1 ? (l->v.nids - 2) / t + 1 : 0;
	for (uint32_t i = 0; i < l->npages; i++) {
		struct epd_page_image im[64];
		size_t k = 0;
		const uint32_t from = i * t;
		const uint32_t rows = l->v.nids - 1 - from < t ?
		    l->v.nids - 1 - from : t;

		for (uint32_t j = 0; j < l->v.nimages; j++) {
			const struct epd_image_ref *r = l->image + j;
			const uint64_t n = (uint64_t)r->grid[0] *
			    (r->grid[1] / merge) * (r->grid[2] / merge);

			if (r->at < from + rows && r->at + n > from)
				im[k++] = (struct epd_page_image){
				    (int64_t)(r->at - from), r->fp };
		}
		epd_page_name(&l->page[i].name, up, l->ids + from, rows, im,
		    k);
		memset(bytes, 0, sizeof bytes);
		for (size_t b = 0; b < p->k.se->page_bytes; b += 2)
			bytes[b] = (uint8_t)(i + b);
		l->page[i].rows = rows;
		l->page[i].sum = epd_xxh3_64(bytes, p->k.se->page_bytes);
		up = &l->page[i].name;
	}
}

/* Bytes of its own under those names, kept; the run. */
static int
bring_pages(struct peer *p, const struct lie *l, uint64_t *run)
{
	struct epd_pages_ask a = { .codec = "none", .n = l->npages,
	    .page = epd_calloc(l->npages, sizeof *a.page) };
	struct epd_buf q = {0}, answer = {0};
	struct epd_opened o;
	struct epd_cur c;
	int rc;

	memcpy(a.workflow, "to", 3);
	memcpy(a.uuid, p->uuid, 16);
	a.shape = (struct epd_run_shape){ EPD_OBJECT_KV_PAGE,
	    l->traits.kv_type, l->traits.page_tokens, p->k.se->page_bytes };
	for (uint32_t i = 0; i < a.n; i++)
		a.page[i] = (struct epd_page_ask){ .there = 1,
		    .bytes = a.shape.bytes, .packed_sum = l->page[i].sum,
		    .entry = { l->page[i].name, l->page[i].rows,
		    l->page[i].sum } };
	epd_pages_ask_pack(&q, &a);
	epd_free(a.page);
	rc = ask(p, EPD_ASK_WRITE_PAGES, &q, &answer, &o);
	for (uint32_t i = 0; rc == 0 && i < o.n; i++)
		for (size_t b = 0; b < o.extent[i].bytes; b += 2)
			((uint8_t *)o.extent[i].p)[b] = (uint8_t)(i + b);
	q.n = answer.n = 0;
	epd_pack_u64(&q, o.id);
	if (rc == 0)
		rc = ask(p, EPD_ASK_KEEP_PAGES, &q, &answer, NULL);
	c = epd_cur(epd_span(answer.p, answer.n));
	*run = rc == 0 ? epd_unpack_u64(&c) : 0;
	if (o.id)
		p->host.gone(p->g, o.id);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	return rc;
}

/* Handed over: READY and COMMIT.  The state's number, or why not. */
static int
hand(struct peer *p, struct lie *l)
{
	struct epd_half_ask a = { .h = { .target = 1 } };
	struct epd_buf parcel = {0}, q = {0}, answer = {0};
	uint64_t run = 0;
	struct epd_cur c;
	int rc = 0;

	l->v.ids = l->ids;
	l->v.images = l->image;
	if (l->with_pages)
		name_pages(p, l);
	if (l->with_pages && (rc = bring_pages(p, l, &run)) < 0)
		return rc;
	memcpy(a.workflow, "to", 3);
	memcpy(a.uuid, p->uuid, 16);
	memset(a.id, (int)++p->n, 16);
	memcpy(a.store, EPD_AWAY, sizeof EPD_AWAY);
	memcpy(a.peer, "w1", 3);
	memset(a.h.peer, 1, 16);
	memset(a.h.home, 2, 16);
	epd_parcel_pack(&parcel, &l->traits, &l->v);
	epd_half_ask_pack(&q, &a);
	epd_pack_span(&q, epd_span(parcel.p, parcel.n));
	epd_pack_u8(&q, 0);
	epd_ask_refs_pack(&q, l->page, l->npages);
	epd_pack_u32(&q, run != 0);
	if (run)
		epd_pack_u64(&q, run);
	rc = ask(p, EPD_ASK_READY, &q, &answer, NULL);
	q.n = 0;
	epd_half_ask_pack(&q, &a);
	if (rc == 0)
		rc = ask(p, EPD_ASK_COMMIT, &q, NULL, NULL);
	c = epd_cur(epd_span(answer.p, answer.n));
	if (rc == 0)
		rc = (int)epd_unpack_u32(&c);
	epd_buf_free(&parcel);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	return rc;
}

/* ---- its use ---- */

static int
look_at(void *arg, const struct epd_state_line *l)
{
	(void)arg;
	return strlen(l->status) > 1000;
}

/* All that only looks; what it says is its own affair. */
static void
look(struct kit *k, uint32_t state)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE, .state = state };
	struct epd_buf out = {0};
	int32_t *ids = NULL;
	uint64_t n = 0;

	memcpy(ref.workflow, "to", 3);
	(void)epd_view_json(k->s, &ref, &out, NULL);
	out.n = 0;
	(void)epd_view_tree(k->s, "to", &out, NULL);
	(void)epd_view_states(k->s, "to", look_at, NULL, NULL);
	if (epd_view_tokens(k->s, &ref, &ids, &n, NULL) == 0) {
		out.n = 0;
		(void)epd_transcript(&out, k->se->tokens, ids, n,
		    EPD_TRANSCRIPT_TEXT);
		out.n = 0;
		(void)epd_transcript(&out, k->se->tokens, ids, n,
		    EPD_TRANSCRIPT_MESSAGES);
	}
	epd_free(ids);
	epd_buf_free(&out);
}

/* With a penalty, so that each token it has is gone by. */
static int
use(struct kit *k, uint32_t state)
{
	struct epd_ref ref = { .kind = EPD_REF_STATE, .state = state };
	struct kit_said said = { .n = 0 };
	const struct epd_decode d = {
		.states = &ref, .n = 1, .most = 2, .has_temp = 1,
		.has_top_k = 1, .has_top_p = 1, .has_penalty = 1,
		.sampler = { .top_p = 1, .penalty = 1.3f }, .ignore_eos = 1,
		.token = kit_token, .end = kit_ended, .arg = &said,
	};

	memcpy(ref.workflow, "to", 3);
	return epd_flow_decode(k->se, &d, kit_why(k));
}

static int
continue_it(struct kit *k, uint32_t state)
{
	struct epd_prefilled out;
	int rc;

	k->workflow = "to";
	rc = kit_say(k, state, "And then?", NULL, &out);
	k->workflow = "w1";
	return rc;
}

/*
 * Refused, or of no use: and the good one is good still.  Pages that nobody here
 * computed may be used: what they hold is nonsense, and no more.
 */
static int
is_harmless(struct peer *p, struct lie *l, const char *what)
{
	const int state = hand(p, l);
	int rc, more;

	if (state < 0)
		return 1;
	look(&p->k, (uint32_t)state);
	rc = use(&p->k, (uint32_t)state);
	more = continue_it(&p->k, (uint32_t)state);
	look(&p->k, (uint32_t)state);
	if (rc >= 0 || more >= 0)
		printf("# %s: s%d, decoded %d, continued %d\n", what, state,
		    rc, more);
	return rc < 0 && more < 0;
}

#define HARMLESS(what) do { for (int pages = 0; pages < 2; pages++) { \
	struct lie l = truth(&p); \
	l.with_pages = pages; \
	what; \
	CHECK(is_harmless(&p, &l, #what)); } } while (0)

TEST(the_truth_is_taken)
{
	struct peer p;

	for (int pages = 0; pages < 2; pages++) {
		struct lie l;
		int state;

		begin(&p, QWEN2, 2);
		l = truth(&p);
		l.with_pages = pages;
		state = hand(&p, &l);
		if (state <= 0)
			printf("# %s\n", p.why.text);
		CHECK(state > 0);
		CHECK_INT(use(&p.k, (uint32_t)state), 0);
		CHECK_INT(continue_it(&p.k, (uint32_t)state), 0);
		CHECK_INT(kit_check(&p.k), 0);
		end(&p);
	}
}

TEST(tokens_that_the_model_has_not)
{
	struct peer p;
	long vocab;

	begin(&p, QWEN2, 0);
	vocab = p.k.se->info->vocab;
	HARMLESS(l.ids[0] = -1);
	HARMLESS(l.ids[0] = INT32_MIN);
	HARMLESS(l.ids[2] = INT32_MAX);
	HARMLESS(l.ids[2] = (int32_t)vocab);
	HARMLESS(l.ids[l.v.nids - 1] = (int32_t)vocab + 7);
	HARMLESS(for (uint32_t i = 0; i < l.v.nids; i++) l.ids[i] =
	    (int32_t)(i * 2654435761u));
	CHECK_INT(kit_check(&p.k), 0);
	end(&p);
}

TEST(images_that_lie_elsewhere)
{
	struct peer p;

	begin(&p, QWEN2, 2);
	CHECK_INT(p.f.v.nimages, 2);
	HARMLESS(l.image[1].at = l.v.nids);
	HARMLESS(l.image[1].at = l.v.nids - 1);
	HARMLESS(l.image[1].at = UINT64_MAX);
	HARMLESS(l.image[1].at = UINT64_MAX / 2 + 1);
	HARMLESS(l.image[0].at = UINT64_MAX - 3);
	HARMLESS(l.image[1].at = l.image[0].at);
	HARMLESS(l.image[1].at = 0);
	HARMLESS(l.image[0].grid[0] = 0);
	HARMLESS(l.image[0].grid[1] = 1);
	HARMLESS(l.image[0].grid[2] = UINT32_MAX);
	HARMLESS(for (int i = 0; i < 3; i++) l.image[0].grid[i] = UINT32_MAX);
	HARMLESS(for (int i = 0; i < 3; i++) l.image[1].grid[i] = 1u << 31);
	HARMLESS(l.image[0].grid[1] = 65536; l.image[0].grid[2] = 65536);
	HARMLESS(for (uint32_t i = 2; i < 64; i++) l.image[i] = l.image[1];
	    l.v.nimages = 64);
	CHECK_INT(kit_check(&p.k), 0);
	end(&p);
}

/* A picture that nobody has: SUSPECT, and untouched. */
TEST(an_image_that_nobody_has)
{
	struct epd_state st;
	struct epd_workflow w;
	struct peer p;
	struct lie l;
	int state;

	begin(&p, QWEN2, 1);
	l = truth(&p);
	l.image[0].fp.b[0] ^= 1;
	CHECK((state = hand(&p, &l)) > 0);
	CHECK_INT(use(&p.k, (uint32_t)state), EPD_ESUSPECT);
	CHECK_INT(epd_workflow_open(&w, p.k.s, "to", 1, NULL), 0);
	CHECK_INT(epd_shard_state(w.shard, (uint32_t)state, &st), 0);
	CHECK_INT(st.status, EPD_SUSPECT);
	epd_workflow_close(&w);
	look(&p.k, (uint32_t)state);
	CHECK_INT(kit_check(&p.k), 0);
	end(&p);
}

/* A picture under the name of another: it is not encoded in its stead. */
TEST(a_picture_that_is_not_its_names)
{
	struct epd_feature_files f;
	struct epd_buf q = {0}, answer = {0};
	struct epd_opened o;
	uint64_t bytes;
	struct peer p;
	struct lie l;
	int state;

	begin(&p, QWEN2, 2);
	l = truth(&p);
	CHECK_INT(epd_feature_open_parts(p.k.s->features, &l.image[1].fp, &f),
	    0);
	bytes = f.bytes[EPD_PART_PIX];
	CHECK(bytes);
	l.image[0].fp.b[5] ^= 4;
	epd_buf_put(&q, l.image[0].fp.b, EPD_NAME);
	epd_pack_u64(&q, bytes);
	epd_pack_u64(&q, 0);
	epd_pack_u64(&q, 0);
	CHECK_INT(ask(&p, EPD_ASK_WRITE_FEATURE, &q, &answer, &o), 0);
	CHECK(epd_file_pread(f.fd[EPD_PART_PIX], o.extent[0].p, bytes, 0) ==
	    (ssize_t)bytes);
	/* Its head tells of the one it is of: make that agree. */
	for (size_t i = 0; i + EPD_NAME <= bytes && i < 256; i++)
		if (!memcmp((uint8_t *)o.extent[0].p + i, l.image[1].fp.b,
		    EPD_NAME))
			memcpy((uint8_t *)o.extent[0].p + i, l.image[0].fp.b,
			    EPD_NAME);
	q.n = 0;
	epd_pack_u64(&q, o.id);
	(void)ask(&p, EPD_ASK_KEEP_FEATURE, &q, NULL, NULL);
	p.host.gone(p.g, o.id);
	CHECK((state = hand(&p, &l)) > 0);
	CHECK(use(&p.k, (uint32_t)state) < 0);
	epd_feature_close_parts(&f);
	epd_buf_free(&q);
	epd_buf_free(&answer);
	CHECK_INT(kit_check(&p.k), 0);
	end(&p);
}

TEST(traits_that_are_none)
{
	char *text = malloc(300000);
	struct peer p;

	begin(&p, QWEN2, 1);
	memset(text, '[', 299999);
	text[299999] = '\0';
	HARMLESS(l.traits.page_tokens = 7);
	HARMLESS(l.traits.page_tokens = 1u << 31);
	HARMLESS(l.traits.page_bytes = UINT64_MAX);
	HARMLESS(l.traits.page_bytes = 1);
	HARMLESS(l.traits.kv_type = 77);
	HARMLESS(l.traits.base.b[3] ^= 1);
	HARMLESS(l.traits.model_fp.b[3] ^= 1);
	HARMLESS(l.traits.tenant = "x");
	HARMLESS(l.traits.fingerprint = text; l.traits.base.b[0] ^= 1);
	HARMLESS(l.traits.fingerprint = "{\"merge\": -5}"; l.traits.base.b[0] ^=
	    1);
	HARMLESS(l.traits.fingerprint = "{\"numeric\": \"lanes16-f32+\"}");
	HARMLESS(l.v.turn = 200);
	HARMLESS(l.v.finish = 200);
	HARMLESS(l.v.next_pos = INT64_MIN);
	HARMLESS(l.v.next_pos = INT64_MAX);
	CHECK_INT(kit_check(&p.k), 0);
	end(&p);
	free(text);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
