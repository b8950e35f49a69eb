/*
 * flow_lengths.c - a version's record says how long it is, read as text and as
 * messages, and it is: whoever made the state, and whatever it came of.
 */
#include "engine/chat/transcript.h"
#include "tests/unit/flow_hand.h"
#include "tests/unit/reuse.h"

/* 1: a version's record has them, and they are right; 0 if not; -1 without any. */
static int
lengths_of(struct kit *k, uint32_t state, uint32_t version)
{
	struct kit_log l = kit_read(k, state, version);
	struct epd_buf text = {0}, messages = {0};
	int is = l.head.has_lengths ? 1 : -1;

	if (epd_transcript(&text, k->se->tokens, l.ids, l.n,
	    EPD_TRANSCRIPT_TEXT) || epd_transcript(&messages, k->se->tokens,
	    l.ids, l.n, EPD_TRANSCRIPT_MESSAGES))
		golden_die("transcript", "no memory");
	if (is > 0 && (l.head.text_bytes != text.n ||
	    l.head.messages_bytes != messages.n)) {
		printf("# s%u@%u: %llu and %llu bytes, and they are\n%s\n%s",
		    state, version, (unsigned long long)l.head.text_bytes,
		    (unsigned long long)l.head.messages_bytes,
		    epd_buf_cstr(&text), epd_buf_cstr(&messages));
		is = 0;
	}
	epd_buf_free(&text);
	epd_buf_free(&messages);
	kit_log_free(&l);
	return is;
}

static int
all_right(struct kit *k, uint32_t state, uint32_t versions)
{
	for (uint32_t v = 1; v <= versions; v++)
		if (lengths_of(k, state, v) != 1)
			return 0;
	return 1;
}

/* Four versions about two pictures. */
static uint32_t
story(struct kit *k)
{
	const char *paths[] = { kit_picture(k, "a.ppm", 112, 84, 1),
	    kit_picture(k, "b.ppm", 84, 56, 2), NULL };
	struct epd_prefilled p;
	struct kit_said said;

	if (kit_say(k, 0, "Look \"here\":\n", paths, &p) < 0 ||
	    hand_decode(k, k->workflow, p.state, 5, NULL, &said) < 0 ||
	    kit_say(k, p.state, "And \xc3\xbc?", paths + 1, &p) < 0 ||
	    hand_decode(k, k->workflow, p.state, 9, NULL, &said) < 0)
		golden_die("story", k->why.text);
	return p.state;
}

TEST(turns_and_pictures)
{
	static const char *const families[] = { QWEN2, QWEN25, QWEN3 };

	for (int i = 0; i < 3; i++) {
		struct epd_prefilled p;
		uint32_t state;
		struct kit k;

		kit_start(&k, families[i]);
		state = story(&k);
		CHECK(all_right(&k, state, 4));
		CHECK_INT(kit_messages(&k, state, "[{\"role\": \"user\", "
		    "\"content\": \"Bye.\"}]", NULL, 1, &p), 0);
		CHECK(all_right(&k, state, 5));
		CHECK_INT(raw(&k, 0, "<|im_start|>x\ny<|im_end|>z <|vision_start|>",
		    NULL, &p), 0);
		CHECK(all_right(&k, p.state, 1));
		CHECK_INT(raw(&k, p.state, "<|image_pad|><|vision_end|> and",
		    (const char *[]){ kit_picture(&k, "c.ppm", 56, 56, 3),
		    NULL }, &p), 0);
		CHECK(all_right(&k, p.state, 2));
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

TEST(branches)
{
	for (int shared = 0; shared < 2; shared++) {
		struct kit_said said;
		struct kit k;
		uint32_t b;

		kit_begin(&k, QWEN3);
		k.config.enable_cow = shared;
		kit_open(&k);
		b = hand_fork(&k, story(&k), 3);
		CHECK(all_right(&k, b, 1));
		CHECK_INT(hand_decode(&k, "w1", b, 7, NULL, &said), 0);
		CHECK(all_right(&k, b, 2));
		kit_end(&k);
	}
}

TEST(created)
{
	struct epd_create_state ask = { .workflow = "w2" };
	struct epd_created c = { .state = 0 };
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN2);
	l = kit_read(&k, story(&k), 0);
	ask.ids = l.ids;
	ask.nids = (uint32_t)l.n;
	ask.images = l.image;
	ask.nimages = l.nimages;
	CHECK_INT(epd_flow_create(k.se, &ask, &c, kit_why(&k)), 0);
	in(&k, "w2");
	CHECK(all_right(&k, c.state, 1));
	CHECK_INT(hand_decode(&k, "w2", c.state, 3, NULL, &said), 0);
	CHECK(all_right(&k, c.state, 2));
	kit_log_free(&l);
	kit_end(&k);
}

TEST(handed_over)
{
	for (int two = 0; two < 2; two++) {
		struct epd_handed out;
		struct kit_said said;
		struct hand h;
		struct kit *k;
		uint32_t state;

		hand_begin(&h, QWEN3, two, 0);
		k = hand_kit(&h, 1);
		state = story(&h.k);
		CHECK_INT(hand_prepare(&h, state, &out), 0);
		CHECK_INT(hand_commit(&h, 0, out.id, &out), 0);
		k->workflow = h.to;
		CHECK(all_right(k, 1, 1));
		CHECK_INT(hand_decode(k, h.to, 1, 3, NULL, &said), 0);
		CHECK(all_right(k, 1, 2));
		hand_end(&h);
	}
}

/* A log from before there were lengths: what comes next has those of all. */
TEST(behind_a_version_without)
{
	struct epd_prefilled p;
	struct epd_workflow w;
	struct epd_version v;
	struct epd_state st;
	struct kit_said said;
	struct kit_log l;
	struct kit k;
	uint32_t old;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello", NULL, &p), 0);
	l = kit_read(&k, p.state, 0);
	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
	CHECK_INT(epd_shard_state(w.shard, p.state, &st), 0);
	v = (struct epd_version){
		.ids = l.ids, .nids = (uint32_t)l.n, .turn = l.head.turn,
		.next_pos = l.head.next_pos, .sampling = l.head.sampling,
	};
	CHECK_INT(epd_shard_create(w.shard, &st, &v, &old, kit_why(&k)), 0);
	epd_workflow_close(&w);
	CHECK_INT(lengths_of(&k, old, 1), -1);
	CHECK_INT(kit_decode(&k, &old, 1, 4, &said), 0);
	CHECK_INT(lengths_of(&k, old, 2), 1);
	kit_log_free(&l);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
