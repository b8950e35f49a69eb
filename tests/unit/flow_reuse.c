/*
 * flow_reuse.c - what other states have is taken up, as far as it goes and no
 * further, and is what would have been computed.
 */
#include "tests/check.h"
#include "tests/unit/reuse.h"

/* In one workflow to the token, wherever the texts part. */
TEST(to_the_token)
{
	struct epd_prefilled p, q, r;
	struct kit k;
	int middle = 0;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(p.reused, 0);
	for (int i = 0; i <= 30; i++) {
		const char *text = words(i, i, 4);
		struct kit_said said[2];
		struct kit_log a, b;
		uint64_t want;

		CHECK_INT(raw(&k, 0, text, NULL, &q), 0);
		a = kit_read(&k, p.state, 0);
		b = kit_read(&k, q.state, 0);
		want = hoped(&a, &b, 0);
		kit_log_free(&a);
		kit_log_free(&b);
		CHECK_INT(q.reused, want);
		CHECK_INT(q.borrowed, want);
		CHECK_INT(q.fresh, q.tokens - 1 - want);
		CHECK_INT(q.lost, 0);
		middle += want % 16 != 0;
		alone(&k, text, NULL, &r);
		CHECK_INT(r.reused, 0);
		CHECK(same(&k, q.state, r.state));
		CHECK(right(&k, q.state));
		CHECK_INT(kit_decode(&k, &q.state, 1, 3, said), 0);
		CHECK_INT(said->end.lost, 0);
		CHECK_INT(kit_decode(&k, &r.state, 1, 3, said + 1), 0);
		CHECK(kit_hash_said(said) == kit_hash_said(said + 1));
		CHECK(same(&k, q.state, r.state));
		CHECK_INT(release(&k, q.state), 0);
		CHECK_INT(release(&k, r.state), 0);
	}
	CHECK(middle > 15);
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	CHECK(right(&k, p.state));
	kit_end(&k);
}

/* The whole text again, or more: of the last token's page nothing is known. */
TEST(the_same_text_again)
{
	struct epd_prefilled p, q;
	struct kit k;

	for (int n = 1; n < 24; n++) {
		kit_start(&k, QWEN25);
		CHECK_INT(raw(&k, 0, words(n, 0, 0), NULL, &p), 0);
		for (int i = 0; i < 2; i++) {
			CHECK_INT(raw(&k, 0, words(n, 0, 0), NULL, &q), 0);
			CHECK_INT(q.reused, q.tokens <= 16 ? 0 : q.tokens - 1);
			CHECK_INT(q.reused + q.fresh, q.tokens - 1);
			CHECK(same(&k, p.state, q.state));
			CHECK(right(&k, q.state));
		}
		CHECK_INT(kit_check(&k), 0);
		CHECK(balanced(&k));
		kit_end(&k);
	}
}

/* In other workflows whole pages, each of them one file with names in both. */
TEST(other_workflows_have_whole_pages)
{
	struct epd_prefilled p, q, r;
	struct kit_log a, b;
	uint64_t want;
	struct kit k;

	for (int i = 4; i <= 28; i += 3) {
		kit_start(&k, QWEN3);
		CHECK_INT(raw(&k, in(&k, "one"), words(30, 0, 0), NULL, &p), 0);
		a = kit_read(&k, p.state, 0);
		in(&k, "two");
		CHECK_INT(raw(&k, 0, words(i, i, 6), NULL, &q), 0);
		b = kit_read(&k, q.state, 0);
		want = hoped(&a, &b, 1);
		CHECK_INT(q.reused, want);
		CHECK_INT(q.borrowed, want);
		CHECK_INT(links(&k, q.state, 0), want ? 2 : 1);
		CHECK(b.npages == (long)(want / 16) ||
		    links(&k, q.state, b.npages - 1) == 1);
		alone(&k, words(i, i, 6), NULL, &r);
		CHECK(same(&k, q.state, r.state));
		CHECK(right(&k, q.state));
		CHECK_INT(kit_check(&k), 0);
		CHECK(balanced(&k));
		kit_log_free(&a);
		kit_log_free(&b);
		kit_end(&k);
	}
}

#define USER(c) "{\"role\":\"user\",\"content\":\"" c "\"}"
#define SAID(c) "{\"role\":\"assistant\",\"content\":\"" c "\"}"

/* A conversation that one state had turn by turn, in one go: pieces of its runs. */
TEST(pieces_of_many_runs)
{
	static const char *const turn[] = {
		USER("This is the first of what is said here.") ","
		    SAID("And this is the answer to it, at some length."),
		USER("Then there is more.") "," SAID("Indeed."),
		USER("And more than that, which takes more than a page of the "
		    "tier.") "," SAID("As everything does."),
		USER("The last.") "," SAID("So be it."),
	};
	struct epd_prefilled p = { .state = 0 }, q, r;
	struct kit_said said[2];
	char json[2000] = "[", one[1000];
	struct kit_log l;
	struct kit k;
	long runs = 1;

	kit_start(&k, QWEN3);
	in(&k, "one");
	for (int i = 0; i < 4; i++) {
		snprintf(one, sizeof one, "[%s]", turn[i]);
		CHECK_INT(kit_messages(&k, p.state, one, NULL, 1, &p), 0);
		snprintf(json + strlen(json), sizeof json - strlen(json),
		    "%s%s", i ? "," : "", turn[i]);
	}
	strcat(json, "]");
	l = kit_read(&k, p.state, 0);
	for (long i = 1; i < l.npages; i++)
		runs += l.run[i] != l.run[i - 1];
	CHECK(runs > 2);
	kit_log_free(&l);
	for (int w = 0; w < 2; w++) {
		in(&k, w ? "two" : "one");
		CHECK_INT(kit_messages(&k, 0, json, NULL, 1, &q), 0);
		CHECK_INT(q.tokens, p.tokens);
		CHECK_INT(q.reused, w ? (q.tokens - 1) / 16 * 16 :
		    q.tokens - 1);
		CHECK(right(&k, q.state));
		/* And the pieces of pieces, with a turn behind. */
		CHECK_INT(kit_messages(&k, q.state, "[" USER("Now?") "]",
		    NULL, 0, &q), 0);
		CHECK_INT(q.lost, 0);
		CHECK_INT(kit_decode(&k, &q.state, 1, 4, said), 0);
		CHECK_INT(said->end.lost, 0);
		k.alone = 1;
		CHECK_INT(kit_messages(&k, 0, json, NULL, 1, &r), 0);
		CHECK_INT(kit_messages(&k, r.state, "[" USER("Now?") "]",
		    NULL, 0, &r), 0);
		k.alone = 0;
		CHECK_INT(kit_decode(&k, &r.state, 1, 4, said + 1), 0);
		CHECK(kit_hash_said(said) == kit_hash_said(said + 1));
		CHECK(same(&k, q.state, r.state));
		CHECK(right(&k, q.state));
		CHECK_INT(kit_check(&k), 0);
		CHECK(balanced(&k));
	}
	kit_end(&k);
}

/* Sequences that share a file share its pages' places, and so attention's reads. */
TEST(one_place_a_page)
{
	struct epd_prefilled p, q;
	struct epd_runs *runs;
	struct epd_workflow w;
	struct epd_seq s[2];
	struct kit k;
	long alike = 0;

	kit_start(&k, QWEN2);
	CHECK_INT(raw(&k, 0, words(30, 0, 2), NULL, &p), 0);
	CHECK_INT(raw(&k, 0, words(30, 1, 2), NULL, &q), 0);
	CHECK(q.reused > 16);
	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
	CHECK_INT(epd_runs_new(&runs), 0);
	for (int i = 0; i < 2; i++) {
		/* The one that has links first: then the whole file comes later. */
		epd_seq_begin(s + i, k.se, &w, runs);
		CHECK_INT(epd_seq_load(s + i, i ? p.state : q.state, 0,
		    kit_why(&k)), 0);
		CHECK_INT(s[i].lost, 0);
	}
	for (long i = 0; i < s[0].npages; i++)
		alike += s[0].page[i] == s[1].page[i];
	CHECK_INT(alike, q.reused / 16);
	for (int i = 0; i < 2; i++)
		epd_seq_free(s + i);
	epd_runs_free(runs);
	epd_workflow_close(&w);
	kit_end(&k);
}

/* The next turn given to branches alike: the first computes, the others take. */
TEST(one_result_to_many_branches)
{
	struct epd_prefilled p, q[8], r;
	struct epd_forked f;
	struct kit_said said[8], want;
	struct kit k;

	kit_start(&k, QWEN2);
	alone(&k, words(20, 0, 0), NULL, &r);
	CHECK_INT(raw(&k, 0, words(20, 0, 0), NULL, &p), 0);
	CHECK_INT(epd_flow_fork(k.s, &(struct epd_fork_request){
	    .from = kit_ref(p.state), .branches = 8, .reason = "test" }, &f,
	    kit_why(&k)), 0);
	for (uint32_t i = 0; i < 8; i++) {
		CHECK_INT(raw(&k, f.first + i, words(0, 3, 15), NULL, q + i),
		    0);
		CHECK_INT(q[i].lost, 0);
		CHECK_INT(q[i].reused, i ? q[i].tokens - 1 : p.tokens - 1);
		CHECK_INT(q[i].fresh, i ? 0 : q[i].tokens - p.tokens);
		CHECK(same(&k, f.first, f.first + i));
	}
	k.alone = 1;
	CHECK_INT(raw(&k, r.state, words(0, 3, 15), NULL, &r), 0);
	CHECK_INT(kit_decode(&k, &r.state, 1, 4, &want), 0);
	CHECK_INT(kit_decode(&k, (uint32_t[]){ f.first, f.first + 1,
	    f.first + 2, f.first + 3, f.first + 4, f.first + 5, f.first + 6,
	    f.first + 7 }, 8, 4, said), 0);
	for (int i = 0; i < 8; i++)
		CHECK(kit_hash_said(said + i) == kit_hash_said(&want));
	for (uint32_t i = 0; i < 8; i++)
		CHECK(same(&k, r.state, f.first + i));
	CHECK(right(&k, f.first + 7));
	CHECK_INT(kit_check(&k), 0);
	CHECK(balanced(&k));
	kit_end(&k);
}

/* ---- what is not the same ---- */

/* Each pair differs in one thing, which no token shows; nothing is taken. */
TEST(never_of_another_kind)
{
	static const char *const how[] = {
		"page:\n  tokens: 64\n", "page:\n  dtype: f32\n",
		"engine:\n  adapter: lora\n", NULL, NULL, NULL,
	};
	const char *text = words(60, 0, 0);

	for (int i = 0; i < 6; i++)
		for (int back = 0; back < 2; back++) {
			struct epd_prefilled p[3];
			struct kit k;

			kit_begin(&k, QWEN2);
			for (int j = 0; j < 3; j++) {
				const struct epd_config was = k.config;
				const int other = j == 1;

				k.model = other && i == 3 ? QWEN25 : QWEN2;
				k.tenant = other && i == 4 ? "other" : NULL;
				k.isa = other && i == 5 ? "scalar" : NULL;
				if (other && how[i])
					CHECK_INT(epd_config_parse(&k.config,
					    epd_span_str(how[i]), how[i],
					    kit_why(&k)), 0);
				in(&k, back ? "w1" : j == 0 ? "a" : j == 1 ?
				    "b" : "c");
				kit_open(&k);
				CHECK_INT(raw(&k, 0, text, NULL, p + j), 0);
				CHECK(right(&k, p[j].state));
				CHECK_INT(kit_check(&k), 0);
				CHECK(balanced(&k));
				kit_close(&k);
				k.config = was;
			}
			CHECK_INT(p[0].reused, 0);
			/* How it is computed is no difference. */
			if (i == 5)
				CHECK(p[1].reused > 100);
			else
				CHECK_INT(p[1].reused, 0);
			CHECK(p[2].reused > 100);
			kit_end(&k);
		}
}

/* Two stores in one memory folder have nothing in common. */
TEST(stores_share_nothing)
{
	struct epd_prefilled p;
	struct kit a, b;

	kit_start(&a, QWEN2);
	kit_begin(&b, QWEN2);
	memcpy(b.config.memory_dir, a.config.memory_dir,
	    sizeof a.config.memory_dir);
	kit_open(&b);
	CHECK_INT(raw(&a, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(raw(&b, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(p.reused, 0);
	CHECK_INT(raw(&b, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK(p.reused > 16);
	kit_end(&b);
	kit_end(&a);
}

TEST(policy_none)
{
	struct epd_prefilled p;
	struct kit k;

	kit_begin(&k, QWEN2);
	strcpy(k.config.reuse_policy, "none");
	kit_open(&k);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
		CHECK_INT(p.reused, 0);
		CHECK_INT(links(&k, p.state, 0), 1);
	}
	CHECK_INT(kit_count(&k, EPD_M_EXACT_ATTEMPTS), 0);
	strcpy(k.config.reuse_policy, "exact_prefix");
	kit_reopen(&k);
	CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(p.reused, p.tokens - 1);
	CHECK_INT(kit_count(&k, EPD_M_EXACT_ATTEMPTS), 1);
	CHECK_INT(kit_count(&k, EPD_M_EXACT_HITS), 1);
	CHECK_INT(kit_count(&k, EPD_M_EXACT_TOKENS), p.reused);
	k.alone = 1;
	CHECK_INT(raw(&k, 0, words(30, 0, 0), NULL, &p), 0);
	CHECK_INT(p.reused, 0);
	CHECK_INT(kit_count(&k, EPD_M_EXACT_ATTEMPTS), 1);
	kit_end(&k);
}

/* ---- pictures ---- */

/*
 * The donor's pictures and the taker's, at an offset of their texts' begin; how
 * far they may be alike is what the log says, and no token further.
 */
static int
pictures(const char *model, const char *donor, const char *taker, int across,
    int chunk, long least)
{
	struct epd_prefilled p, q, r;
	struct kit_said said[2];
	struct kit_log a, b;
	struct kit k;
	uint64_t want;
	int ok;

	kit_begin(&k, model);
	k.config.chunk = chunk;
	kit_open(&k);
	for (int i = 0; i < 2; i++) {
		const char *how = i ? taker : donor, *paths[8] = { NULL };
		struct epd_buf b2 = {0};
		int n = 0;

		/* A letter is a picture, a point a word, a comma another. */
		for (const char *c = how; *c; c++)
			if (*c == '.' || *c == ',') {
				epd_buf_str(&b2, *c == '.' ? "word " : "2nd ");
			} else {
				char name[8] = { *c, '.', 'p', 'p', 'm' };

				paths[n++] = kit_picture(&k, name, *c < 'C' ?
				    84 : 112, 56, (uint32_t)*c);
				epd_buf_str(&b2, "<|image_pad|>");
			}
		in(&k, i && across ? "w2" : "w1");
		if (raw(&k, 0, epd_buf_cstr(&b2), paths, i ? &q : &p) < 0)
			return 0;
		if (i)
			alone(&k, epd_buf_cstr(&b2), paths, &r);
		else
			a = kit_read(&k, p.state, 0);
		epd_buf_free(&b2);
	}
	b = kit_read(&k, q.state, 0);
	want = hoped(&a, &b, across);
	ok = q.reused == want && (long)want >= least &&
	    same(&k, q.state, r.state) && right(&k, q.state) &&
	    kit_decode(&k, &q.state, 1, 4, said) == 0 &&
	    kit_decode(&k, &r.state, 1, 4, said + 1) == 0 &&
	    kit_hash_said(said) == kit_hash_said(said + 1) &&
	    same(&k, q.state, r.state) && kit_check(&k) == 0 && balanced(&k);
	if (!ok)
		printf("# %s: %s after %s: reused %llu, not %llu (%s)\n", model,
		    taker, donor, (unsigned long long)q.reused,
		    (unsigned long long)want, k.why.text);
	kit_log_free(&a);
	kit_log_free(&b);
	kit_end(&k);
	return ok;
}

TEST(kind01_kind06_kind10_pictures_in_the_prefix)
{
	static const char *const models[] = { QWEN2, QWEN25, QWEN3 };
	static const struct {
		const char *donor, *taker;
		int least;	/* tokens taken within a workflow */
	} what[] = {
		/* The same, and other text behind. */
		{ "....A......", "....A......", 20 },
		{ "....A......", "....A...,,,", 20 },
		/* The same text about another picture. */
		{ "....................A....", "....................B....", 16 },
		{ "A........", "B........", 0 },
		/* The same picture elsewhere. */
		{ "....................A.........", "...................,A.........", 16 },
		{ "....................A.........", "....................,A........", 16 },
		/* Two that touch, in either order. */
		{ "....................AB....", "....................AB....", 30 },
		{ "....................AB....", "....................BA....", 16 },
		{ "AB....", "BA....", 0 },
		/* The first differs, all behind it is the same. */
		{ "....................A....C....", "....................B....C....", 16 },
		{ "A....C....", "B....C....", 0 },
		/* The match is cut within or right before a picture. */
		{ "....................", "....................A....", 16 },
		{ "....................A....", "........................", 16 },
		{ "..........C....", "..........C", 16 },
	};

	for (int m = 0; m < 3; m++)
		for (size_t i = 0; i < sizeof what / sizeof *what; i++)
			for (int across = 0; across < 2; across++)
				CHECK(pictures(models[m], what[i].donor,
				    what[i].taker, across, i % 2 ? 7 : 4096,
				    across ? 0 : what[i].least));
}

/* A, B, A, B: each finds its own, the other's nothing. */
TEST(kind07_alternation)
{
	struct epd_prefilled p[6];
	struct kit k;

	kit_start(&k, QWEN2);
	for (int i = 0; i < 6; i++) {
		const char *paths[] = { kit_picture(&k, i % 2 ? "b.ppm" :
		    "a.ppm", 84, 84, (uint32_t)i % 2), NULL };

		CHECK_INT(raw(&k, 0, "<|image_pad|>What is this, and why?",
		    paths, p + i), 0);
		CHECK_INT(p[i].reused, i < 2 ? 0 : p[i].tokens - 1);
		CHECK(right(&k, p[i].state));
		if (i >= 2)
			CHECK(same(&k, p[i].state, p[i - 2].state));
	}
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
