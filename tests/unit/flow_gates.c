/*
 * flow_gates.c - each switch of the configuration turned: the main job is done
 * all the same, and what the switch says is so.
 */
#include "base/clock.h"
#include "tests/check.h"
#include "tests/unit/flow.h"

#define TINY "examples/tiny-vlm/model"
#define SAMPLE "examples/tiny-vlm/samples/sample-images/000_0.png"

/* One picture, one question, the answer by greedy to its end, and another. */
struct job {
	struct epd_prefilled p, again;
	char text[512];
};

static int
job(struct kit *k, struct job *j)
{
	const char *paths[] = { SAMPLE, NULL };
	struct epd_ref ref;
	struct kit_said said = { .n = 0 };
	struct epd_decode d = {
		.states = &ref, .n = 1, .most = 20, .has_temp = 1,
		.token = kit_token, .end = kit_ended, .arg = &said,
		.sampler = { .top_p = 1, .penalty = 1 },
	};
	struct kit_log l;
	int rc = kit_say(k, 0, "What is this?", paths, &j->p), ok;

	if (rc == 0) {
		ref = kit_ref(j->p.state);
		rc = epd_flow_decode(k->se, &d, kit_why(k));
	}
	snprintf(j->text, sizeof j->text, "%s", said.text);
	if (rc == 0)
		rc = kit_say(k, 0, "What is this?", paths, &j->again);
	if (rc < 0) {
		printf("# %s\n", k->why.text);
		return 0;
	}
	l = kit_read(k, j->p.state, 0);
	ok = kit_recount(k, &l) && kit_replay(k, &l) && kit_check(k) == 0;
	kit_log_free(&l);
	return ok;
}

/* The answer with nothing turned. */
static const char *
answer(void)
{
	static struct job j;
	struct kit k;

	if (!*j.text) {
		kit_start(&k, TINY);
		if (!job(&k, &j))
			golden_die("job", "is not done");
		kit_end(&k);
	}
	return j.text;
}

/* The job with a line of configuration. */
static int
with(struct kit *k, const char *yaml, struct job *j)
{
	kit_begin(k, TINY);
	if (epd_config_parse(&k->config, epd_span_str(yaml), yaml,
	    kit_why(k)) < 0)
		golden_die(yaml, k->why.text);
	kit_open(k);
	if (!job(k, j))
		return 0;
	if (strcmp(j->text, answer()))
		printf("# %s: \"%s\", not \"%s\"\n", yaml, j->text, answer());
	return !strcmp(j->text, answer());
}

static int
files(struct kit *k, const char *ext)
{
	char command[400];
	FILE *f;
	int n = -1;

	snprintf(command, sizeof command,
	    "find %s/store/features -name '*%s' | wc -l", k->path, ext);
	f = popen(command, "r");
	if (!f || fscanf(f, "%d", &n) != 1)
		golden_die("find", "does not");
	pclose(f);
	return n;
}

TEST(nothing_turned)
{
	struct job j;
	struct kit k;

	CHECK(with(&k, "epd:\n  enabled: true\n", &j));
	CHECK(strlen(j.text) > 3);
	CHECK_INT(j.p.encoded, 1);
	CHECK_INT(j.again.hits, 1);
	CHECK_INT(files(&k, ".pix"), 1);
	kit_end(&k);
}

TEST(epd_enabled)
{
	struct job j;
	struct kit k;

	CHECK(with(&k, "epd:\n  enabled: false\n", &j));
	CHECK_INT(j.again.encoded, 1);
	CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 2);
	kit_end(&k);
}

/* With the cache out of use a feature asked for by name is none the less there. */
TEST(feature_cache)
{
	static const char *const how[] = {
		"feature:\n  cache: false\n",
		"feature:\n  cache: false\n  keep_pixels: false\n",
		"epd:\n  enabled: false\nfeature:\n  keep_pixels: false\n",
	};

	for (int i = 0; i < 3; i++) {
		struct epd_json *content = kit_json("[{\"type\":\"image\"}]");
		struct epd_request_image im = { .path = NULL };
		struct epd_prefilled out;
		struct epd_prefill p = {
			.kind = EPD_PROMPT_TURN, .role = "user", .images = &im,
			.nimages = 1, .workflow = "w1", .content = content,
		};
		struct kit_log l;
		struct job j;
		struct kit k;

		CHECK(with(&k, how[i], &j));
		CHECK_INT(j.again.encoded, 1);
		CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 2);
		l = kit_read(&k, j.p.state, 0);
		im.feature = l.image[0].fp;
		kit_log_free(&l);
		CHECK_INT(epd_flow_prefill(k.se, &p, &out, kit_why(&k)), 0);
		CHECK_INT(out.encoded, 0);
		epd_json_free(content);
		kit_end(&k);
	}
}

TEST(keep_pixels)
{
	struct kit_said said;
	struct job j;
	struct kit k;

	CHECK(with(&k, "feature:\n  keep_pixels: false\n", &j));
	CHECK_INT(j.again.hits, 1);
	CHECK_INT(files(&k, ".pix"), 0);
	CHECK_INT(files(&k, ".blob"), 1);
	/* The feature is the truth: lost pages come from it. */
	kit_lose(&k, 1);
	CHECK_INT(kit_decode(&k, &j.again.state, 1, 2, &said), 0);
	CHECK(said.end.lost > 0);
	kit_end(&k);
}

TEST(memo)
{
	const struct epd_clock_fake later = {
		.wall_ms = epd_clock_wall_ms() + 60000,
		.boot_ns = epd_clock_boot_ns(),
	};
	struct job j;
	struct kit k;

	epd_clock_fake(&later);
	CHECK(with(&k, "debug:\n  memo: false\n", &j));
	CHECK_INT(j.again.hits, 1);
	CHECK_INT(kit_count(&k, EPD_M_MM_MEMO_HIT), 0);
	kit_end(&k);
	CHECK(with(&k, "debug:\n  memo: true\n", &j));
	CHECK_INT(j.again.hits, 1);
	CHECK_INT(kit_count(&k, EPD_M_MM_MEMO_HIT), 1);
	kit_end(&k);
	epd_clock_fake(NULL);
}

TEST(state_sync)
{
	struct job j;
	struct kit k;

	CHECK(with(&k, "state:\n  sync: false\n", &j));
	CHECK_INT(kit_count(&k, EPD_M_LOG_FLUSHES), 0);
	kit_end(&k);
	CHECK(with(&k, "state:\n  sync: true\n", &j));
	CHECK(kit_count(&k, EPD_M_LOG_FLUSHES) >= 3);
	kit_end(&k);
}

/* These change bits, and no answer that has a margin. */
TEST(numbers)
{
	static const char *const how[] = {
		"page:\n  dtype: f32\n", "page:\n  dtype: bf16\n",
		"page:\n  tokens: 64\n",
		"page:\n  tokens: 64\n  dtype: f32\n",
		"feature:\n  dtype: bf16\n", "image:\n  resampler: pil\n",
		"image:\n  exif: false\n  alpha: drop\n",
		"engine:\n  chunk: 1\n", "engine:\n  threads: 3\n",
		"page:\n  memory_cap: 1048576\n",
		"state:\n  log_keep: 5\n  checkpoint_bytes: 4096\n",
	};

	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		struct job j;
		struct kit k;

		CHECK(with(&k, how[i], &j));
		CHECK_INT(j.again.hits, 1);
		kit_end(&k);
	}
}

/* What decides a feature decides its name: nothing of other settings hits. */
TEST(image_settings_are_in_the_name)
{
	static const char *const how[] = {
		"image:\n  alpha: drop\n", "image:\n  exif: false\n",
		"image:\n  resampler: pil\n", "feature:\n  dtype: bf16\n",
		"engine:\n  adapter: lora\n",
	};
	struct epd_encoded e, first;
	struct kit k;

	kit_start(&k, TINY);
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &first, kit_why(&k)), 0);
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		struct epd_config was = k.config;

		CHECK_INT(epd_config_parse(&k.config, epd_span_str(how[i]),
		    how[i], kit_why(&k)), 0);
		kit_reopen(&k);
		CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)), 0);
		CHECK_INT(e.hit, 0);
		CHECK(!epd_name_equal(&e.fp, &first.fp));
		k.config = was;
	}
	kit_reopen(&k);
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)), 0);
	CHECK_INT(e.hit, 1);
	kit_end(&k);
}

/* Too large a picture is refused before anything is done about it. */
TEST(image_limits)
{
	static const char *const how[] = {
		"image:\n  max_pixels: 100\n", "image:\n  max_bytes: 100\n",
	};

	for (int i = 0; i < 2; i++) {
		const char *paths[] = { SAMPLE, NULL };
		struct epd_prefilled p;
		struct epd_encoded e;
		struct kit k;

		kit_begin(&k, TINY);
		CHECK_INT(epd_config_parse(&k.config, epd_span_str(how[i]),
		    how[i], kit_why(&k)), 0);
		kit_open(&k);
		CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)),
		    EPD_ETOOBIG);
		CHECK(strstr(k.why.text, "000_0.png: "));
		CHECK_INT(kit_say(&k, 0, "What?", paths, &p), EPD_ETOOBIG);
		CHECK_INT(files(&k, ".pix") + files(&k, ".blob") +
		    files(&k, ".meta"), 0);
		CHECK_INT(epd_workflow_each(k.s, NULL, NULL), 0);
		kit_end(&k);
	}
}

/* Tenants share nothing. */
TEST(tenants)
{
	struct epd_prefilled p;
	struct epd_encoded e;
	struct kit_said said;
	char name[80];
	struct kit k;

	kit_start(&k, TINY);
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)), 0);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	kit_close(&k);
	k.tenant = "other";
	kit_open(&k);
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)), 0);
	CHECK_INT(e.hit, 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 2, &said), EPD_EMODEL);
	kit_close(&k);
	/* Names that are alike in as much as could be kept are refused. */
	memset(name, 'x', sizeof name);
	name[64] = '\0';
	k.tenant = name;
	CHECK_INT(kit_try_open(&k), EPD_EUSAGE);
	name[63] = '\0';
	CHECK_INT(kit_try_open(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
