/*
 * flow_damage.c - what is lost or damaged is a miss, found, counted, computed
 * again to the same bits; what cannot be is refused, and nothing has changed.
 */
#include "tests/check.h"
#include "tests/unit/flow.h"

/* The path of a run of w1 beneath the kit's folder. */
static const char *
run_path(const struct kit *k, uint64_t run)
{
	static char path[120];
	char hex[33];

	epd_hex_format(hex, k->s->uuid, 16);
	snprintf(path, sizeof path, "memory/epd-%s/w/w1/%016llx", hex,
	    (unsigned long long)run);
	return path;
}

static const char *
feature_path(const struct epd_name *fp, const char *ext)
{
	static char path[120];
	char hex[2 * EPD_NAME + 1];

	epd_hex_format(hex, fp->b, EPD_NAME);
	snprintf(path, sizeof path, "store/features/%.2s/%s%s", hex, hex, ext);
	return path;
}

enum { FLIP, CUT, EMPTY, GONE, KINDS };

/* Do one kind of damage to a file; at is a byte of it, from its end if < 0. */
static void
damage(struct kit *k, const char *path, int kind, off_t at)
{
	struct epd_buf b = {0};
	int fd;

	if (kind == GONE) {
		if (unlinkat(k->dir, path, 0))
			golden_die(path, "is not there");
		return;
	}
	if (epd_file_read(k->dir, path, 1 << 26, &b) < 0)
		golden_die(path, "cannot be read");
	unlinkat(k->dir, path, 0);
	at += at < 0 ? (off_t)b.n : 0;
	b.p[at] ^= 1;
	if (kind == CUT)
		b.n = (size_t)at;
	if (kind == EMPTY)
		b.n = 0;
	fd = openat(k->dir, path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || epd_file_pwrite(fd, b.p, b.n, 0) < 0)
		golden_die(path, "cannot be written");
	close(fd);
	epd_buf_free(&b);
}

/* A state of three versions, its second about a picture, decoded after each. */
static uint32_t
story(struct kit *k, const char *picture)
{
	const char *paths[] = { picture, NULL };
	struct epd_prefilled p;
	struct kit_said said;

	if (kit_say(k, 0, "This is some text to begin with.", NULL, &p) < 0 ||
	    kit_decode(k, &p.state, 1, 5, &said) < 0 ||
	    kit_say(k, p.state, "Now look at it.", paths, &p) < 0)
		golden_die("story", k->why.text);
	return p.state;
}

/* What the story goes on with when nothing has happened. */
static uint64_t
undisturbed(const char *model)
{
	struct kit_said said;
	uint32_t state;
	struct kit k;

	kit_start(&k, model);
	state = story(&k, kit_picture(&k, "a.ppm", 112, 84, 1));
	if (kit_decode(&k, &state, 1, 4, &said) < 0)
		golden_die("decode", k.why.text);
	kit_end(&k);
	return kit_hash_said(&said);
}

/* Kinds of damage to run i of the story; 1 if all went as it should. */
static int
mended(const char *model, uint32_t run, int kind, off_t at, uint64_t want)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit_log l;
	struct kit k;
	uint32_t state;
	uint64_t pages = 0;
	int ok;

	kit_start(&k, model);
	state = story(&k, kit_picture(&k, "a.ppm", 112, 84, 1));
	l = kit_read(&k, state, run);
	for (long i = 0; i < l.npages; i++)
		pages += l.run[i] == l.head.run;
	damage(&k, run_path(&k, l.head.run), kind, at);
	kit_log_free(&l);
	kit_reopen(&k);
	ok = kit_decode(&k, &state, 1, 4, &said) == 0 &&
	    kit_hash_said(&said) == want && said.end.lost == pages &&
	    kit_count(&k, EPD_M_PAGES_LOST) == pages &&
	    kit_count(&k, EPD_M_PAGES_RECOMPUTED) == pages &&
	    kit_count(&k, EPD_M_PAGES_CORRUPT) == (kind == GONE ? 0 : pages);
	l = kit_read(&k, state, 0);
	ok = ok && kit_recount(&k, &l) && kit_replay(&k, &l) &&
	    kit_check(&k) == 0;
	kit_log_free(&l);
	/* They are there again. */
	ok = ok && kit_say(&k, state, "More.", NULL, &p) == 0 && p.lost == 0;
	if (!ok)
		printf("# run %u kind %d at %ld: %s, %llu of %llu lost\n", run,
		    kind, (long)at, k.why.text,
		    (unsigned long long)said.end.lost,
		    (unsigned long long)pages);
	kit_end(&k);
	return ok;
}

TEST(damaged_runs_are_mended)
{
	static const char *const models[] = { QWEN2, QWEN3 };

	for (int i = 0; i < 2; i++) {
		uint64_t want = undisturbed(models[i]);

		for (uint32_t run = 1; run <= 3; run++) {
			CHECK(mended(models[i], run, FLIP, 20, want));
			CHECK(mended(models[i], run, FLIP, 4096, want));
			CHECK(mended(models[i], run, FLIP, -1, want));
			CHECK(mended(models[i], run, CUT, 5000, want));
			CHECK(mended(models[i], run, EMPTY, 0, want));
			CHECK(mended(models[i], run, GONE, 0, want));
		}
	}
}

/* The right name, and another state's pages. */
TEST(anothers_run_is_not_taken)
{
	struct epd_prefilled p;
	struct kit_said one, two;
	struct kit_log a, b;
	char from[120];
	uint32_t s[2];
	struct kit k;

	kit_start(&k, QWEN2);
	k.alone = 1;
	for (int i = 0; i < 2; i++) {
		CHECK_INT(kit_say(&k, 0, i ? "Thank you." : "Hello you.", NULL,
		    &p), 0);
		s[i] = p.state;
	}
	CHECK_INT(kit_say(&k, 0, "Thank you.", NULL, &p), 0);
	CHECK_INT(kit_decode(&k, &p.state, 1, 5, &one), 0);
	a = kit_read(&k, s[0], 0);
	b = kit_read(&k, s[1], 0);
	snprintf(from, sizeof from, "%s", run_path(&k, a.run[0]));
	CHECK(unlinkat(k.dir, run_path(&k, b.run[0]), 0) == 0);
	CHECK(linkat(k.dir, from, k.dir, run_path(&k, b.run[0]), 0) == 0);
	kit_reopen(&k);
	CHECK_INT(kit_decode(&k, s + 1, 1, 5, &two), 0);
	CHECK(kit_hash_said(&one) == kit_hash_said(&two));
	CHECK_INT(two.end.lost, b.npages);
	CHECK(kit_recount(&k, &a) && kit_recount(&k, &b));
	kit_log_free(&a);
	kit_log_free(&b);
	kit_end(&k);
}

/* Pages that later versions have filled on are not missed. */
TEST(what_is_superseded_is_not_needed)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit_log l;
	struct kit k;
	int gone = 0;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	for (int i = 0; i < 12; i++)
		CHECK_INT(kit_decode(&k, &p.state, 1, 1, &said), 0);
	l = kit_read(&k, p.state, 0);
	for (uint32_t i = 1; i < l.head.node && i <= 12; i++) {
		struct kit_log v = kit_read(&k, p.state, i);
		int needed = 0;

		for (long j = 0; j < l.npages; j++)
			needed |= l.run[j] == v.head.run;
		if (!needed) {
			damage(&k, run_path(&k, v.head.run), GONE, 0);
			gone++;
		}
		kit_log_free(&v);
	}
	CHECK(gone > 8);
	kit_log_free(&l);
	CHECK_INT(kit_say(&k, p.state, "Go on.", NULL, &p), 0);
	CHECK_INT(p.lost, 0);
	CHECK_INT(p.reused + p.fresh, p.tokens - 1);
	CHECK_INT(kit_count(&k, EPD_M_PAGES_LOST), 0);
	l = kit_read(&k, p.state, 0);
	CHECK(kit_replay(&k, &l));
	kit_log_free(&l);
	/* An earlier version needs them, and can have them. */
	kit_lose(&k, 0);
	l = kit_read(&k, p.state, 3);
	CHECK(kit_replay(&k, &l));
	kit_log_free(&l);
	kit_end(&k);
}

/* A branch of many states, one prefix: pointers are shared, mended or not. */
TEST(one_mapping_a_run)
{
	for (int lost = 0; lost < 2; lost++) {
		struct epd_prefilled p;
		struct epd_runs *runs;
		struct epd_workflow w;
		struct epd_seq q[2];
		struct kit k;

		kit_start(&k, QWEN2);
		CHECK_INT(kit_say(&k, 0, "A prefix of several pages that two "
		    "sequences are to share between them.", NULL, &p), 0);
		if (lost)
			kit_lose(&k, 0);
		CHECK_INT(epd_workflow_open(&w, k.s, "w1", 0, kit_why(&k)), 0);
		CHECK_INT(epd_runs_new(&runs), 0);
		for (int i = 0; i < 2; i++) {
			epd_seq_begin(q + i, k.se, &w, runs);
			CHECK_INT(epd_seq_load(q + i, p.state, 0,
			    kit_why(&k)), 0);
			CHECK_INT(q[i].rows, p.tokens - 1);
			CHECK_INT(q[i].lost > 0, lost && i == 0);
		}
		CHECK(q[0].npages > 1);
		for (long i = 0; i < q[0].npages; i++)
			CHECK(q[0].page[i] == q[1].page[i]);
		for (int i = 0; i < 2; i++)
			epd_seq_free(q + i);
		epd_runs_free(runs);
		epd_workflow_close(&w);
		kit_end(&k);
	}
}

/* ---- features ---- */

/* Prefill about a feature by its name. */
static int
about(struct kit *k, const struct epd_name *fp, struct epd_prefilled *out)
{
	struct epd_request_image im = { .feature = *fp };
	struct epd_json *j = kit_json("[{\"type\":\"image\"}]");
	struct epd_prefill p = {
		.kind = EPD_PROMPT_TURN, .content = j, .role = "user",
		.images = &im, .nimages = 1, .workflow = "w1",
	};
	int rc = epd_flow_prefill(k->se, &p, out, kit_why(k));

	epd_json_free(j);
	return rc;
}

TEST(damaged_features_are_encoded_again)
{
	static const struct {
		const char *ext;
		int kind;
		off_t at;
	} what[] = {
		{ ".blob", FLIP, 100 }, { ".blob", FLIP, -1 },
		{ ".blob", CUT, 100 }, { ".blob", EMPTY, 0 },
		{ ".blob", GONE, 0 }, { ".meta", FLIP, 5 },
		{ ".meta", CUT, 30 }, { ".meta", EMPTY, 0 },
		{ ".meta", GONE, 0 },
	};
	struct epd_prefilled p, q;
	struct epd_encoded e;
	struct kit_log l;
	const char *path;
	uint64_t pages;
	struct kit k;

	kit_start(&k, QWEN3);
	path = kit_picture(&k, "a.ppm", 84, 56, 1);
	CHECK_INT(epd_flow_encode(k.se, path, &e, kit_why(&k)), 0);
	CHECK_INT(about(&k, &e.fp, &p), 0);
	CHECK_INT(p.hits, 1);
	l = kit_read(&k, p.state, 0);
	pages = kit_hash_pages(&l);
	kit_log_free(&l);
	for (size_t i = 0; i < sizeof what / sizeof *what; i++) {
		const int meta = !strcmp(what[i].ext, ".meta");
		uint64_t bad;

		epd_metrics_reset(k.s->metrics);
		damage(&k, feature_path(&e.fp, what[i].ext), what[i].kind,
		    what[i].at);
		if (meta && what[i].kind == GONE) {
			CHECK_INT(about(&k, &e.fp, &q), EPD_ENOTHING);
			CHECK_INT(epd_flow_encode(k.se, path, &e, kit_why(&k)),
			    0);
			continue;
		}
		CHECK_INT(about(&k, &e.fp, &q), 0);
		CHECK_INT(q.encoded, 1);
		bad = kit_count(&k, meta ? EPD_M_CORRUPT_META :
		    EPD_M_CORRUPT_BLOB);
		CHECK_INT(bad, 1);
		CHECK_INT(kit_count(&k, EPD_M_MM_MISS), 1);
		CHECK_INT(kit_count(&k, EPD_M_MM_READBACK), 1);
		l = kit_read(&k, q.state, 0);
		CHECK(kit_hash_pages(&l) == pages);
		kit_log_free(&l);
		/* It is whole again. */
		CHECK_INT(about(&k, &e.fp, &q), 0);
		CHECK_INT(q.hits, 1);
	}
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Pages and rows lost: from the picture; that lost too: nothing is touched. */
TEST(lost_twice)
{
	uint64_t want = undisturbed(QWEN25);
	struct epd_name fp;
	struct kit_said said;
	struct kit_log l;
	struct epd_encoded e;
	const char *path;
	uint64_t node;
	uint32_t state;
	struct kit k;

	for (int pixels = 1; pixels >= 0; pixels--) {
		kit_start(&k, QWEN25);
		path = kit_picture(&k, "a.ppm", 112, 84, 1);
		state = story(&k, path);
		l = kit_read(&k, state, 0);
		fp = l.image[0].fp;
		node = l.head.node;
		kit_log_free(&l);
		kit_lose(&k, 1);
		damage(&k, feature_path(&fp, ".blob"), GONE, 0);
		if (!pixels)
			damage(&k, feature_path(&fp, ".pix"), FLIP, 50);
		if (!pixels) {
			CHECK_INT(kit_decode(&k, &state, 1, 4, &said),
			    EPD_ESUSPECT);
			CHECK(strstr(k.why.text, "picture"));
			CHECK_INT(said.end.rc, EPD_ESUSPECT);
			l = kit_read(&k, state, 0);
			CHECK_INT(l.head.node, node);
			kit_log_free(&l);
			CHECK_INT(epd_flow_encode(k.se, path, &e, kit_why(&k)),
			    0);
			CHECK(epd_name_equal(&e.fp, &fp));
		}
		CHECK_INT(kit_decode(&k, &state, 1, 4, &said), 0);
		CHECK(kit_hash_said(&said) == want);
		CHECK_INT(kit_check(&k), 0);
		kit_end(&k);
	}
}

/*
 * Under other image settings a state's features are not this session's to make:
 * its pages serve, and if they are lost it says so and leaves all as it is.
 */
TEST(other_image_settings)
{
	for (int i = 0; i < 2; i++)
		for (int lost = 0; lost < 3; lost++) {
			struct epd_name fp;
			struct epd_prefilled p;
			struct kit_said said;
			struct kit_log l;
			uint32_t state;
			struct kit k;

			kit_start(&k, QWEN2);
			state = story(&k, kit_picture(&k, "a.ppm", 112, 84, 1));
			l = kit_read(&k, state, 0);
			fp = l.image[0].fp;
			kit_log_free(&l);
			kit_lose(&k, 1);
			if (lost == 2)
				damage(&k, feature_path(&fp, ".meta"), GONE, 0);
			if (!lost)
				CHECK_INT(kit_decode(&k, &state, 1, 1, &said),
				    0);
			strcpy(i ? k.config.feature_dtype : k.config.resampler,
			    i ? "bf16" : "pil");
			kit_reopen(&k);
			CHECK_INT(kit_decode(&k, &state, 1, 4, &said), lost ?
			    EPD_EMODEL : 0);
			if (lost != 2)
				CHECK_INT(about(&k, &fp, &p), EPD_EMODEL);
			CHECK_INT(kit_count(&k, EPD_M_CORRUPT_META), 0);
			epd_config_default(&k.config);
			k.config.state_sync = 0;
			snprintf(k.config.memory_dir,
			    sizeof k.config.memory_dir, "%s/memory", k.path);
			kit_reopen(&k);
			CHECK_INT(kit_decode(&k, &state, 1, 4, &said), 0);
			CHECK_INT(kit_check(&k), 0);
			kit_end(&k);
		}
}

/* ---- other models, other shapes ---- */

TEST(another_model_is_refused)
{
	struct epd_prefilled p, q;
	struct kit_said said;
	struct kit_log l;
	struct kit k;

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	for (int i = 0; i < 4; i++) {
		int runs = kit_runs(&k);

		kit_close(&k);
		k.model = i == 0 ? QWEN25 : QWEN2;
		k.config.page_tokens = i == 1 ? 64 : 16;
		strcpy(k.config.kv_dtype, i == 2 ? "f32" : "bf16");
		strcpy(k.config.adapter, i == 3 ? "another" : "");
		kit_open(&k);
		CHECK_INT(kit_decode(&k, &p.state, 1, 4, &said), EPD_EMODEL);
		CHECK_INT(kit_say(&k, p.state, "More.", NULL, &q), EPD_EMODEL);
		CHECK(strstr(k.why.text, "qwen2vl-tiny"));
		CHECK_INT(kit_runs(&k), runs);
		l = kit_read(&k, p.state, 0);
		CHECK_INT(l.head.node, 1);
		kit_log_free(&l);
	}
	kit_close(&k);
	strcpy(k.config.adapter, "");
	for (int t = 16; t <= 64; t++) {
		k.config.page_tokens = t;
		if (t == 16 || t == 64) {
			kit_open(&k);
			kit_close(&k);
		} else {
			CHECK_INT(kit_try_open(&k), EPD_EUSAGE);
		}
	}
	kit_end(&k);
}

/* A memo of the weights' hash that a crash has spoiled is not believed. */
static int
spoil(void *arg, const char *name)
{
	struct kit *k = arg;
	char path[100];
	int fd, rc;

	if (strncmp(name, "weights-", 8))
		return 0;
	snprintf(path, sizeof path, "store/cache/%s", name);
	fd = openat(k->dir, path, O_WRONLY | O_CLOEXEC);
	rc = epd_file_pwrite(fd, (char[24]){ 0 }, 24, 0);
	close(fd);
	return rc < 0 ? rc : 1;
}

TEST(a_spoiled_memo_of_weights)
{
	struct epd_prefilled p;
	struct kit_said said;
	struct kit k;
	char snapshot[33];

	kit_start(&k, QWEN2);
	CHECK_INT(kit_say(&k, 0, "Hello.", NULL, &p), 0);
	strcpy(snapshot, k.se->snapshot);
	/* A fresh checkout's weights are too young to be noted. */
	if (epd_dir_each(k.s->cache, spoil, &k) != 1)
		SKIP("the weights are too young to be noted");
	kit_reopen(&k);
	CHECK_STR(k.se->snapshot, snapshot);
	CHECK_INT(kit_decode(&k, &p.state, 1, 2, &said), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
