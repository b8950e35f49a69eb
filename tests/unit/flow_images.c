/* flow_images.c - what pictures are to states: names, numbers, answers. */
#include "tests/check.h"
#include "tests/unit/flow.h"

#define LONG "Here are some pictures, look at each of them with care, and "

static const char *const families[] = { QWEN2, QWEN25, QWEN3 };

/* Parts of a message: '*' is an image, all else text. */
static int
say(struct kit *k, const char *parts, const char *const *paths,
    struct epd_prefilled *out)
{
	struct epd_buf b = {0};
	int rc;

	epd_buf_str(&b, "[{\"role\":\"user\",\"content\":[");
	for (const char *p = parts; *p; ) {
		size_t n = strcspn(p, "*");

		epd_buf_str(&b, p > parts ? "," : "");
		if (n == 0) {
			epd_buf_str(&b, "{\"type\":\"image\"}");
			p++;
			continue;
		}
		epd_buf_str(&b, "{\"type\":\"text\",\"text\":");
		epd_json_quote(&b, epd_span(p, n));
		epd_buf_str(&b, "}");
		p += n;
	}
	epd_buf_str(&b, "]}]");
	rc = kit_messages(k, 0, epd_buf_cstr(&b), paths, 0, out);
	if (rc < 0)
		printf("# %s\n", k->why.text);
	epd_buf_free(&b);
	return rc;
}

/* The same text about two pictures has nothing in common from there on. */
TEST(same_text_two_images_miss)
{
	for (int i = 0; i < 3; i++) {
		struct epd_prefilled p[2];
		struct kit_said said[2];
		struct kit_log a, b;
		struct kit k;

		kit_start(&k, families[i]);
		for (int j = 0; j < 2; j++) {
			const char *paths[] = { kit_picture(&k, j ? "b.ppm" :
			    "a.ppm", 84, 56, (uint32_t)j), NULL };

			CHECK_INT(say(&k, "*What is this?", paths, p + j), 0);
			CHECK_INT(p[j].encoded, 1);
			CHECK_INT(p[j].hits, 0);
			CHECK_INT(kit_decode(&k, &p[j].state, 1, 5, said + j),
			    0);
		}
		CHECK_INT(kit_count(&k, EPD_M_MM_MISS), 2);
		CHECK_INT(kit_count(&k, EPD_M_MM_HIT), 0);
		a = kit_read(&k, p[0].state, 0);
		b = kit_read(&k, p[1].state, 0);
		CHECK_INT(a.npages, b.npages);
		for (long j = (long)a.image[0].at / 16; j < a.npages; j++)
			CHECK(!epd_name_equal(&a.page[j].name,
			    &b.page[j].name) && a.page[j].sum != b.page[j].sum);
		CHECK(kit_hash_said(said) != kit_hash_said(said + 1));
		kit_log_free(&a);
		kit_log_free(&b);
		kit_end(&k);
	}
}

/* Two requests that differ in their first image only. */
TEST(a_parent_image_counts)
{
	for (int i = 0; i < 3; i++) {
		struct epd_prefilled p[2];
		struct kit_log a, b;
		struct kit k;
		long at;

		kit_start(&k, families[i]);
		for (int j = 0; j < 2; j++) {
			const char *paths[] = { kit_picture(&k, j ? "b.ppm" :
			    "a.ppm", 84, 56, (uint32_t)j), kit_picture(&k,
			    "c.ppm", 112, 84, 7), NULL };

			CHECK_INT(say(&k, LONG "*then*say what is there.",
			    paths, p + j), 0);
		}
		a = kit_read(&k, p[0].state, 0);
		b = kit_read(&k, p[1].state, 0);
		CHECK_INT(a.n, b.n);
		CHECK(memcmp(a.ids, b.ids, a.n * sizeof *a.ids) == 0);
		CHECK(epd_name_equal(&a.image[1].fp, &b.image[1].fp));
		at = (long)a.image[0].at / 16;
		CHECK(at > 0);
		for (long j = 0; j < a.npages; j++) {
			CHECK_INT(epd_name_equal(&a.page[j].name,
			    &b.page[j].name), j < at);
			CHECK_INT(a.page[j].sum == b.page[j].sum, j < at);
		}
		/* None of the later names is anywhere in the other. */
		for (long j = at; j < a.npages; j++)
			for (long l = 0; l < b.npages; l++)
				CHECK(!epd_name_equal(&a.page[j].name,
				    &b.page[l].name));
		kit_log_free(&a);
		kit_log_free(&b);
		kit_end(&k);
	}
}

/* A, B, A, B, one after another and as one batch, each answers as alone. */
TEST(alternation_does_not_bleed)
{
	for (int i = 0; i < 3; i++) {
		struct kit_said alone[2], said[4];
		struct epd_prefilled p;
		uint32_t state[4];
		struct kit k;

		for (int j = 0; j < 2; j++) {
			const char *paths[2] = { NULL };

			kit_start(&k, families[i]);
			paths[0] = kit_picture(&k, "x.ppm", j ? 112 : 84, 84,
			    (uint32_t)j);
			CHECK_INT(say(&k, "*What is this?", paths, &p), 0);
			CHECK_INT(kit_decode(&k, &p.state, 1, 6, alone + j), 0);
			kit_end(&k);
		}
		kit_start(&k, families[i]);
		for (int j = 0; j < 4; j++) {
			const char *paths[] = { kit_picture(&k, j % 2 ?
			    "b.ppm" : "a.ppm", j % 2 ? 112 : 84, 84,
			    (uint32_t)j % 2), NULL };

			CHECK_INT(say(&k, "*What is this?", paths, &p), 0);
			state[j] = p.state;
			CHECK_INT(p.hits, j >= 2);
		}
		CHECK_INT(kit_decode(&k, state, 4, 6, said), 0);
		for (int j = 0; j < 4; j++)
			CHECK(kit_hash_said(said + j) ==
			    kit_hash_said(alone + j % 2));
		for (int j = 0; j < 4; j++) {
			CHECK_INT(kit_decode(&k, state + j, 1, 6, said), 0);
			if (j < 2)
				alone[j] = said[0];
			CHECK(kit_hash_said(said) ==
			    kit_hash_said(alone + j % 2));
		}
		kit_end(&k);
	}
}

/* Two images side by side, in either order, cut anywhere. */
TEST(adjacent_images)
{
	static const int chunks[] = { 4096, 1, 5, 16 };

	for (int i = 0; i < 3; i++) {
		uint64_t pages[2] = { 0 }, answer[2] = { 0 };

		for (int j = 0; j < 8; j++) {
			const int swap = j % 2;
			const char *a, *b, *paths[3] = { NULL };
			struct epd_prefilled p;
			struct kit_said said;
			struct kit_log l;
			struct kit k;

			kit_begin(&k, families[i]);
			k.config.chunk = chunks[j / 2];
			kit_open(&k);
			a = kit_picture(&k, "a.ppm", 84, 56, 1);
			b = kit_picture(&k, "b.ppm", 112, 84, 2);
			paths[0] = swap ? b : a;
			paths[1] = swap ? a : b;
			CHECK_INT(say(&k, "**", paths, &p), 0);
			CHECK_INT(kit_decode(&k, &p.state, 1, 4, &said), 0);
			l = kit_read(&k, p.state, 0);
			/* Nothing lies between them but the two marks. */
			CHECK_INT(l.image[1].at - l.image[0].at - 2,
			    l.image[0].grid[1] * l.image[0].grid[2] / 4);
			if (j < 2) {
				pages[swap] = kit_hash_pages(&l);
				answer[swap] = kit_hash_said(&said);
			}
			CHECK(pages[swap] == kit_hash_pages(&l));
			CHECK(answer[swap] == kit_hash_said(&said));
			kit_log_free(&l);
			kit_end(&k);
		}
		CHECK(pages[0] != pages[1] && answer[0] != answer[1]);
	}
}

/* P's replay: 16 images, twice. */
TEST(two_passes_over_sixteen)
{
	struct epd_buf json = {0};
	struct epd_encoded e;
	struct epd_json *j;
	struct kit k;

	kit_start(&k, QWEN2);
	for (int i = 0; i < 32; i++) {
		char name[32];
		const char *path;

		snprintf(name, sizeof name, "%d.ppm", i % 16);
		path = kit_picture(&k, name, 84, 56, (uint32_t)i % 16);
		CHECK_INT(epd_flow_encode(k.se, path, &e, kit_why(&k)), 0);
		CHECK_INT(e.hit, i >= 16);
		CHECK_INT(kit_count(&k, EPD_M_MM_MISS), i < 16 ? i + 1 : 16);
		CHECK_INT(kit_count(&k, EPD_M_MM_READBACK), i < 16 ? i + 1 :
		    16);
		CHECK_INT(kit_count(&k, EPD_M_MM_HIT), i < 16 ? 0 : i - 15);
		if (i == 15)
			CHECK_INT(kit_count(&k, EPD_M_SECOND_PASS_NS), 0);
	}
	CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 16);
	CHECK(kit_count(&k, EPD_M_FIRST_PASS_NS) >
	    kit_count(&k, EPD_M_SECOND_PASS_NS));
	CHECK(kit_count(&k, EPD_M_SECOND_PASS_NS) > 0);
	CHECK(kit_count(&k, EPD_M_FIRST_PASS_NS) >=
	    kit_count(&k, EPD_M_ENCODE_NS));
	CHECK_INT(epd_view_metrics(k.s, 1, &json, kit_why(&k)), 0);
	CHECK(strstr(epd_buf_cstr(&json), "\"mm_hit_rate\": 0.5"));
	j = kit_json(epd_buf_cstr(&json));
	CHECK_INT(epd_json_type(j), EPD_JSON_OBJECT);
	epd_json_free(j);
	epd_buf_free(&json);
	kit_end(&k);
}

/* Three images, one of them twice: encoded once; then all are hits. */
TEST(a_repeated_image_is_encoded_once)
{
	struct epd_prefilled p[2];
	struct kit_log a, b;
	const char *paths[4] = { NULL };
	struct kit k;

	kit_start(&k, QWEN3);
	paths[0] = paths[2] = kit_picture(&k, "a.ppm", 84, 56, 1);
	paths[1] = kit_picture(&k, "b.ppm", 112, 84, 2);
	for (int i = 0; i < 2; i++) {
		CHECK_INT(say(&k, "*and*and*", paths, p + i), 0);
		CHECK_INT(p[i].images, 3);
		CHECK_INT(p[i].encoded, i ? 0 : 2);
		CHECK_INT(p[i].hits, i ? 2 : 0);
		CHECK_INT(kit_count(&k, EPD_M_MM_DEDUP), i + 1);
		CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 2);
		CHECK_INT(kit_count(&k, EPD_M_MM_MISS), 2);
		CHECK_INT(kit_count(&k, EPD_M_MM_HIT), 2 * i);
	}
	a = kit_read(&k, p[0].state, 0);
	b = kit_read(&k, p[1].state, 0);
	CHECK(epd_name_equal(&a.image[0].fp, &a.image[2].fp));
	CHECK(kit_hash_tokens(&a) == kit_hash_tokens(&b));
	CHECK(kit_hash_pages(&a) == kit_hash_pages(&b));
	CHECK(kit_replay(&k, &a));
	kit_log_free(&a);
	kit_log_free(&b);
	/* Another path to the same bytes is the same picture, read again. */
	paths[0] = kit_picture(&k, "c.ppm", 84, 56, 1);
	paths[1] = NULL;
	CHECK_INT(say(&k, "*", paths, p), 0);
	CHECK_INT(p[0].encoded, 0);
	CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 2);
	kit_end(&k);
}

TEST(states_are_counted_once)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	CHECK_INT(kit_count(&k, EPD_M_STATES_CREATED), 1);
	CHECK_INT(kit_count(&k, EPD_M_STATES_ADVANCED), 0);
	CHECK_INT(kit_count(&k, EPD_M_PREFILL_COUNT), 1);
	CHECK_INT(kit_count(&k, EPD_M_PREFILL_TOKENS), p.fresh);
	CHECK_INT(kit_count(&k, EPD_M_PREFILL_PAGES), (p.fresh + 15) / 16);
	CHECK_INT(kit_decode(&k, &p.state, 1, 4, &said), 0);
	CHECK_INT(kit_count(&k, EPD_M_STATES_ADVANCED), 1);
	CHECK_INT(kit_count(&k, EPD_M_PREFILL_COUNT), 1);
	CHECK_INT(kit_count(&k, EPD_M_DECODE_TOKENS), 4);
	CHECK_INT(kit_count(&k, EPD_M_TTFT_COUNT), 1);
	CHECK_INT(kit_count(&k, EPD_M_PAGES_LOST), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
