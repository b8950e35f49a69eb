/*
 * flow_turns.c - turn after turn onto a state is the whole conversation at once:
 * the same tokens, the same pages by name and sum, the same answer.
 */
#include "tests/check.h"
#include "tests/unit/flow.h"

#define TINY "examples/tiny-vlm/model"
#define USER(c) "{\"role\":\"user\",\"content\":" c "}"
#define SAID(c) "{\"role\":\"assistant\",\"content\":\"" c "\"}"
#define TEXT(t) "{\"type\":\"text\",\"text\":\"" t "\"}"
#define IMAGE "{\"type\":\"image\"}"

/* 1 if states a and b have the same tokens, pages and, decoded, answer. */
static int
alike(struct kit *k, uint32_t a, uint32_t b)
{
	struct kit_said said[2];
	const uint32_t both[] = { a, b };
	struct kit_log x, y;
	int ok;

	if (kit_decode(k, both, 2, 5, said) < 0) {
		printf("# %s\n", k->why.text);
		return 0;
	}
	x = kit_read(k, a, 0);
	y = kit_read(k, b, 0);
	ok = kit_hash_tokens(&x) == kit_hash_tokens(&y) &&
	    kit_hash_pages(&x) == kit_hash_pages(&y) &&
	    kit_hash_said(said) == kit_hash_said(said + 1) &&
	    kit_recount(k, &x) && kit_replay(k, &x);
	if (!ok)
		printf("# %llu and %llu tokens, %ld and %ld pages, %u and %u "
		    "images\n", (unsigned long long)x.n,
		    (unsigned long long)y.n, x.npages, y.npages, x.nimages,
		    y.nimages);
	kit_log_free(&x);
	kit_log_free(&y);
	return ok;
}

/* Whether all but the last token were found or computed, `had` of them its own. */
static int
adds_up(const struct epd_prefilled *p, uint64_t had, int reuse)
{
	const int ok = p->reused + p->fresh == p->tokens - 1 &&
	    p->reused - p->borrowed == had && (reuse || p->borrowed == 0);

	if (!ok)
		printf("# reused %llu, %llu borrowed, computed %llu to %llu\n",
		    (unsigned long long)p->reused,
		    (unsigned long long)p->borrowed,
		    (unsigned long long)p->fresh,
		    (unsigned long long)p->tokens);
	return ok;
}

/* Messages first, then second onto that, against both as one, computed alone. */
static int
cut(struct kit *k, const char *first, const char *second,
    const char *const *paths, int nfirst)
{
	const char *one[8] = { NULL };
	struct epd_prefilled a, b, c;
	const int reuse = !k->alone;
	char json[2000];
	int rc;

	for (int i = 0; i < nfirst; i++)
		one[i] = paths[i];
	snprintf(json, sizeof json, "[%s]", first);
	if ((rc = kit_messages(k, 0, json, one, 1, &a)) == 0) {
		snprintf(json, sizeof json, "[%s]", second);
		rc = kit_messages(k, a.state, json, paths ? paths + nfirst :
		    NULL, 0, &b);
	}
	snprintf(json, sizeof json, "[%s,%s]", first, second);
	k->alone = 1;
	if (rc == 0)
		rc = kit_messages(k, 0, json, paths, 0, &c);
	k->alone = !reuse;
	if (rc < 0) {
		printf("# %s\n", k->why.text);
		return 0;
	}
	if (!adds_up(&a, 0, reuse) || !adds_up(&b, a.tokens - 1, reuse) ||
	    !adds_up(&c, 0, 0))
		return 0;
	return alike(k, a.state, c.state);
}

/*
 * Several cuts of one conversation under one model; each state computed alone,
 * or taking up what others have.
 */
static int
cuts_of(const char *model, const char *template, int reuse)
{
	const char *paths[4] = { NULL };
	struct kit k;
	int ok;

	kit_begin(&k, model);
	if (template) {
		kit_model(&k, model, "chat_template.json", NULL, NULL);
		k.model = kit_model(&k, k.other, "chat_template.jinja", NULL,
		    template);
	}
	kit_open(&k);
	k.alone = !reuse;
	ok = cut(&k, USER("\"Hello.\"") "," SAID("Thank you."),
	    USER("\"What is the left object?\""), NULL, 0);
	if (!template) {
		paths[0] = kit_picture(&k, "a.ppm", 84, 56, 1);
		paths[1] = kit_picture(&k, "b.ppm", 112, 84, 2);
		paths[2] = kit_picture(&k, "c.ppm", 97, 61, 3);
		ok &= cut(&k, USER("[" IMAGE "," TEXT("Look.") "]") ","
		    SAID("I see."), USER("[" TEXT("And ") "," IMAGE "," IMAGE
		    "]"), paths, 1);
		ok &= cut(&k, USER("[" IMAGE "," IMAGE "]"), SAID("Yes.") ","
		    USER("[" IMAGE "," TEXT("?") "]"), paths, 2);
		k.vision_id = 1;
		ok &= cut(&k, USER("[" IMAGE "," IMAGE "]") "," SAID("Yes."),
		    USER("[" TEXT("Now ") "," IMAGE "]"), paths, 2);
	}
	ok &= kit_check(&k) == 0;
	kit_end(&k);
	return ok;
}

static int
cuts(const char *model, const char *template)
{
	return cuts_of(model, template, 0) && cuts_of(model, template, 1);
}

TEST(template_of_qwen2) { CHECK(cuts(QWEN2, NULL)); }
TEST(template_of_qwen25) { CHECK(cuts(QWEN25, NULL)); }
TEST(template_of_qwen3) { CHECK(cuts(QWEN3, NULL)); }
TEST(template_of_tiny) { CHECK(cuts(TINY, NULL)); }
TEST(template_chatml)
{
	CHECK(cuts(QWEN2, "tests/data/chat/chatml/chat_template.jinja"));
}

TEST(results_of_tools_share_a_turn)
{
	struct kit k;

	kit_start(&k, QWEN3);
	CHECK(cut(&k, USER("\"Add.\"") ",{\"role\":\"assistant\",\"content\":"
	    "\"\",\"tool_calls\":[{\"type\":\"function\",\"function\":{\"name\""
	    ":\"sum\",\"arguments\":{\"a\":1}}}]}",
	    "{\"role\":\"tool\",\"content\":\"1\"},"
	    "{\"role\":\"tool\",\"content\":[{\"type\":\"text\",\"text\":"
	    "\"2\"}]}", NULL, 0));
	kit_end(&k);
}

/* A question about a picture, its answer of `most` tokens, another question. */
static int
dialogue(const char *model, int most, int ignore_eos, const char *picture)
{
	struct epd_prefilled a, b, c;
	struct kit_said said;
	struct kit k;
	const char *paths[2] = { picture };
	struct epd_ref ref;
	struct epd_decode d = {
		.states = &ref, .n = 1, .most = most, .has_temp = 1,
		.ignore_eos = ignore_eos, .token = kit_token, .end = kit_ended,
		.arg = &said, .sampler = { .top_p = 1, .penalty = 1 },
	};
	struct epd_buf json = {0};
	int ok;

	memset(&said, 0, sizeof said);
	kit_start(&k, model);
	if (kit_say(&k, 0, "What is this?", paths, &a) < 0)
		golden_die("first turn", k.why.text);
	ref = kit_ref(a.state);
	if (epd_flow_decode(k.se, &d, kit_why(&k)) < 0)
		golden_die("answer", k.why.text);
	if (kit_say(&k, a.state, "And the colour?", NULL, &b) < 0)
		golden_die("second turn", k.why.text);
	ok = b.reused == a.tokens + (uint64_t)said.n - 1 && b.version == 3;
	epd_buf_str(&json, "[{\"role\":\"user\",\"content\":[" IMAGE ","
	    TEXT("What is this?") "]},{\"role\":\"assistant\",\"content\":");
	epd_json_quote(&json, epd_span_str(said.text));
	epd_buf_str(&json, "}," USER("\"And the colour?\"") "]");
	k.alone = 1;
	if (kit_messages(&k, 0, epd_buf_cstr(&json), paths, 0, &c) < 0)
		golden_die("whole", k.why.text);
	epd_buf_free(&json);
	printf("# %d tokens, \"%s\", finish %d\n", said.n, said.text,
	    said.end.finish);
	ok &= alike(&k, a.state, c.state) && kit_check(&k) == 0;
	kit_end(&k);
	return ok;
}

#define SAMPLE "examples/tiny-vlm/samples/sample-images/000_0.png"

TEST(second_turn_after_an_answer)
{
	CHECK(dialogue(TINY, -1, 0, SAMPLE));
}

TEST(second_turn_closes_an_open_one)
{
	CHECK(dialogue(TINY, 1, 0, SAMPLE));
}

/* Answers of random models are no text; their tokens go on all the same. */
TEST(answers_in_between)
{
	static const char *const models[] = { QWEN2, QWEN25, QWEN3 };

	for (int i = 0; i < 3; i++) {
		struct epd_prefilled p;
		struct kit_said said;
		struct kit_log l;
		const char *paths[2] = { NULL };
		struct kit k;

		kit_start(&k, models[i]);
		paths[0] = kit_picture(&k, "a.ppm", 84, 56, 1);
		CHECK_INT(kit_say(&k, 0, "Look.", paths, &p), 0);
		for (int turn = 0; turn < 4; turn++) {
			uint64_t had;

			CHECK_INT(kit_decode(&k, &p.state, 1, 3 + 4 * turn,
			    &said), 0);
			had = said.end.tokens;
			CHECK_INT(kit_say(&k, p.state, "Again.", turn % 2 ?
			    paths : NULL, &p), 0);
			CHECK_INT(p.reused, had - 1);
			CHECK_INT(p.fresh, p.tokens - had);
			CHECK_INT(p.lost, 0);
		}
		CHECK_INT(kit_decode(&k, &p.state, 1, 3, &said), 0);
		l = kit_read(&k, p.state, 0);
		CHECK(kit_recount(&k, &l) && kit_replay(&k, &l));
		kit_log_free(&l);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

/* The position after an image is not the number of tokens; it is kept. */
TEST(positions_survive_a_reload)
{
	static const char *const models[] = { QWEN2, QWEN25, QWEN3 };

	for (int i = 0; i < 3; i++) {
		struct epd_prefilled p[2];
		struct kit_said whole, half[2];
		const char *paths[2] = { NULL };
		struct kit_log l, m;
		struct kit k;

		kit_start(&k, models[i]);
		paths[0] = kit_picture(&k, "a.ppm", 112, 84, 1);
		k.alone = 1;
		for (int j = 0; j < 2; j++)
			CHECK_INT(kit_say(&k, 0, "Look.", paths, p + j), 0);
		CHECK_INT(kit_decode(&k, &p[0].state, 1, 10, &whole), 0);
		CHECK_INT(kit_decode(&k, &p[1].state, 1, 4, half), 0);
		kit_reopen(&k);
		CHECK_INT(kit_decode(&k, &p[1].state, 1, 6, half + 1), 0);
		for (int j = 0; j < 10; j++) {
			const struct kit_said *h = half + (j >= 4);
			int at = j >= 4 ? j - 4 : j;

			CHECK_INT(h->id[at], whole.id[j]);
			CHECK(h->logprob[at] == whole.logprob[j]);
		}
		l = kit_read(&k, p[0].state, 0);
		m = kit_read(&k, p[1].state, 0);
		CHECK(kit_hash_tokens(&l) == kit_hash_tokens(&m));
		CHECK(kit_hash_pages(&l) == kit_hash_pages(&m));
		CHECK(l.head.next_pos < (int64_t)l.n);
		kit_log_free(&l);
		kit_log_free(&m);
		kit_end(&k);
	}
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
