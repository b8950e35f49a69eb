/*
 * plan_explain - plans told and read back: the RFC's example, the round trip, what is
 * refused, and that nothing secret comes out.
 */
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "tests/unit/plan.h"

static struct setup s;

static const char *const devices[] = { "mlx5_bond_0", "mlx5_bond_1" };

/* The RFC's example: a foreground transfer between GPUs of two machines. */
static int
example(void)
{
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_NVLINK, EPD_VIA_TCP, EPD_VIA_SHM, 0);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	cap_of(&s, EPD_VIA_TCP)->pairs |= EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA);
	s.config.nrules = 1;
	s.rule[0] = (struct epd_rule){ .name = "foreground_get", .pool = 1,
	    .backend = { EPD_VIA_RDMA, EPD_VIA_NVLINK, EPD_VIA_TCP },
	    .nbackends = 3, .devices = 3,
	    .contract.allows = EPD_MAY_FALLBACK };
	observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 50e9, 10e3);
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 3e9, 60e3);
	return decide(&s);
}

static struct epd_plan_names
names(void)
{
	return (struct epd_plan_names){ s.p, devices, 2 };
}

static int
holds(struct epd_buf *b, const char *text)
{
	return strstr(epd_buf_cstr(b), text) != NULL;
}

TEST(json_is_the_rfcs_example)
{
	struct epd_plan_names n;
	struct epd_buf b = { 0 };

	CHECK_INT(example(), 2);
	n = names();
	epd_plan_json(&b, &n, &s.d, 0);
	CHECK(!strncmp(epd_buf_cstr(&b), "{\"schema_version\": 1, ", 22));
	CHECK(strchr(epd_buf_cstr(&b), '\n') == (char *)b.p + b.n - 1);
	CHECK(holds(&b, "\"path_kind\": \"direct\", \"role\": \"primary\""));
	CHECK(holds(&b, "\"matched_policy\": \"foreground_get\""));
	CHECK(holds(&b, "\"type\": \"transfer\", \"backend\": \"rdma\", "
	    "\"source_memory\": \"cuda\", \"target_memory\": \"cuda\", "
	    "\"bytes\": 1048576"));
	CHECK(holds(&b, "\"device\": \"mlx5_bond_0\", \"rail\": 0, "
	    "\"devices\": [0, 1], \"qp_pool\": 1"));
	CHECK(holds(&b, "\"resource_charge\": {\"nic_bytes\": 1048576, "
	    "\"receiver_bytes\": 1048576, \"request_slots\": 1"));
	CHECK(holds(&b, "\"policy authorizes rdma\""));
	CHECK(holds(&b, "\"lowest valid deterministic cost\""));
	CHECK(holds(&b, "{\"backend\": \"nvlink\", \"template\": \"direct\", "
	    "\"reason\": \"the target is not on the same machine\"}"));
	CHECK(holds(&b, "{\"backend\": \"tcp\", \"template\": \"direct\", "
	    "\"reason\": \"valid but ranked after rdma\"}"));
	CHECK(holds(&b, "\"source\": \"observed\", \"latency_ns\": 10000, "
	    "\"bandwidth_bps\": 50000000000"));
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

TEST(text_for_people)
{
	struct epd_plan_names n;
	struct epd_buf b = { 0 };

	CHECK_INT(example(), 2);
	n = names();
	epd_plan_text(&b, &n, &s.d);
	CHECK(holds(&b, "plan 100 attempt 1, policy foreground_get\n"));
	CHECK(holds(&b, "primary   direct    rdma          31.0 us (observed)\n"));
	CHECK(holds(&b, "cuda -> cuda, 1.0 MiB, mlx5_bond_0, pool 1, normal\n"));
	CHECK(holds(&b, "  because policy authorizes rdma\n"));
	CHECK(holds(&b, "fallback  direct    tcp"));
	CHECK(holds(&b, "not nvlink: the target is not on the same machine\n"));
	epd_buf_free(&b);
	epd_plan_why_not(&b, &n, &s.d, EPD_VIA_TCP);
	CHECK_STR(epd_buf_cstr(&b), "tcp: valid but ranked after rdma, fallback "
	    "at 409.5 us (observed)\n");
	epd_buf_free(&b);
	epd_plan_why_not(&b, &n, &s.d, EPD_VIA_SHM);
	CHECK_STR(epd_buf_cstr(&b), "shm: the policy does not list it\n");
	epd_buf_free(&b);
	epd_plan_why_not(&b, &n, &s.d, EPD_VIA_GDS);
	CHECK_STR(epd_buf_cstr(&b), "gds: is not loaded here\n");
	epd_buf_free(&b);
	epd_plan_why_not(&b, &n, &s.d, EPD_VIA_RDMA);
	CHECK(holds(&b, "rdma: it is what comes first, at 31.0 us"));
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

/* Why b is no way, as people read it. */
static const char *
why_not(enum epd_backend b)
{
	static char text[256];
	struct epd_plan_names n = names();
	struct epd_buf out = { 0 };

	epd_plan_why_not(&out, &n, &s.d, b);
	snprintf(text, sizeof text, "%s", epd_buf_cstr(&out));
	epd_buf_free(&out);
	return text;
}

TEST(a_refusal_speaks_of_what_is_there)
{
	struct epd_buf b = { 0 };

	/* Where no policy is, none refuses. */
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_IO_URING, 0);
	s.i.there.ntags = 1;
	CHECK_INT(decide(&s), 1);
	CHECK_STR(why_not(EPD_VIA_RDMA), "rdma: the target is not registered "
	    "with it\n");
	s.i.strict = 1;
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_STR(why_not(EPD_VIA_TCP), "tcp: strict, and no policy matches\n");
	s.i.strict = 0;
	ends(&s, EPD_IN_CPU, EPD_IN_FILE);
	CHECK_INT(decide(&s), 1);
	CHECK_STR(why_not(EPD_VIA_TCP), "tcp: no policy lists backends, and files "
	    "go by gds or io_uring\n");
	epd_plan_text(&b, NULL, &s.d);
	CHECK(holds(&b, "no policy lists backends, and io_uring reaches"));
	epd_buf_free(&b);
	/* Numbers are said as what they are. */
	ends(&s, EPD_IN_CPU, EPD_IN_CPU);
	cap_of(&s, EPD_VIA_RDMA)->schema_version = 2 << 16;
	CHECK_INT(decide(&s), 1);
	CHECK_STR(why_not(EPD_VIA_RDMA), "rdma: its capability is of schema 2\n");
	s.config.nrules = 1;
	s.rule[0].contract.strict = 1;
	s.i.deadline_ns = NOW + 500000;
	observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 60e3);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	CHECK_STR(why_not(EPD_VIA_TCP), "tcp: strict, and it would be 608.6 us "
	    "late\n");
	epd_planner_free(s.p);
}

TEST(what_is_refused_of_no_backend_has_a_name)
{
	struct epd_buf b = { 0 };

	set_up(&s, EPD_VIA_TCP, 0);
	s.i.lossy = EPD_LOSSY_FP8;
	s.i.lossy_bytes = 1 << 19;
	CHECK_INT(decide(&s), 1);
	epd_plan_text(&b, NULL, &s.d);
	CHECK(holds(&b, "\nnot compressed: the contract does not allow it\n"));
	epd_buf_free(&b);
	ends(&s, EPD_IN_CUDA, EPD_IN_CPU);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	epd_plan_text(&b, NULL, &s.d);
	CHECK(holds(&b, "\nnot by device-host-net-host: nothing copies"));
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

TEST(no_line_is_wider_than_a_terminal)
{
	struct epd_buf b = { 0 };

	/* All that a plan can take. */
	set_up(&s, EPD_VIA_RDMA, EPD_VIA_COPY, 0);
	cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
	ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
	s.i.bytes = UINT64_C(1000) << 40;
	s.config.staging_chunk = UINT64_C(100) << 20;
	CHECK_INT(decide(&s), 1);
	epd_plan_text(&b, NULL, &s.d);
	CHECK(holds(&b, "\n  takes 1000.0 TiB on the network, 1000.0 TiB at the "
	    "receiver,\n        3.1 GiB of host memory, 1 request, "));
	for (char *line = strtok((char *)(uintptr_t)epd_buf_cstr(&b), "\n"); line;
	    line = strtok(NULL, "\n"))
		CHECK(strncmp(line, "  takes", 7) || strlen(line) < 80);
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

TEST(a_way_and_what_gives_up_bytes_of_it_are_told_apart)
{
	CHECK_INT(example(), 2);
	s.rule[0].contract.allows |= EPD_MAY_FP8;
	s.i.lossy = EPD_LOSSY_FP8;
	s.i.lossy_bytes = 1 << 19;
	CHECK_INT(decide(&s), 4);
	CHECK_STR(why_not(EPD_VIA_RDMA), "rdma: it is what comes first, at "
	    "20.5 us (observed), as fp8\nrdma: valid but ranked after rdma, "
	    "primary at 31.0 us (observed)\n");
	epd_planner_free(s.p);
}

TEST(what_the_legacy_selector_tries_next_is_not_refused)
{
	struct epd_legacy l = { .loaded = BIT(EPD_VIA_RDMA) | BIT(EPD_VIA_TCP) |
	    BIT(EPD_VIA_SHM), .selector = 1 };

	set_up(&s, EPD_VIA_RDMA, EPD_VIA_TCP, EPD_VIA_SHM, 0);
	CHECK_INT(decide(&s), 2);
	CHECK_INT(epd_legacy_decide(&l, s.p, &s.i, &s.d), 2);
	CHECK_INT(s.d.nrejected, 1);
	CHECK_INT(refused(&s.d, EPD_VIA_SHM), EPD_REFUSED_LEGACY);
	epd_planner_free(s.p);
}

/* Every value from least on has a word of its own, that leads back to it. */
static int
are_words(const struct epd_words *w, unsigned least, unsigned n)
{
	for (unsigned i = least; i < n; i++)
		if (!strcmp(epd_word(w, i), "?") ||
		    epd_word_parse(w, epd_word(w, i)) != (int)i)
			return 0;
	return w->n == n && !strcmp(epd_word(w, n), "?") &&
	    epd_word_parse(w, "?") < 0 && epd_word_parse(w, "") < 0;
}

TEST(every_enum_has_its_words)
{
	struct epd_buf b = { 0 };

	CHECK(are_words(&epd_backends, 0, EPD_VIA_COUNT));
	CHECK(are_words(&epd_media, 0, EPD_IN_COUNT));
	CHECK(are_words(&epd_ops, EPD_OP_READ, EPD_OP_WRITE + 1));
	CHECK(are_words(&epd_priorities, 0, EPD_PRIO_HIGH + 1));
	CHECK(are_words(&epd_plan_roles, 1, EPD_ROLE_DEGRADED + 1));
	CHECK(are_words(&epd_plan_path_kinds, 1, EPD_PATH_STAGED + 1));
	CHECK(are_words(&epd_plan_stages, 1, EPD_STAGE_RECOMPUTE + 1));
	CHECK(are_words(&epd_plan_sources, 0, EPD_COST_MEASURED + 1));
	CHECK(are_words(&epd_plan_dependencies, 1, EPD_DEP_CREDIT + 1));
	CHECK(are_words(&epd_plan_lossy, 0, EPD_LOSSY_CUSTOM + 1));
	CHECK(are_words(&epd_plan_healths, 0, EPD_DOWN + 1));
	CHECK(are_words(&epd_plan_completions, 0, EPD_DONE_VISIBLE + 1));
	CHECK(are_words(&epd_plan_intents, 0, EPD_INTENT_COUNT));
	CHECK(are_words(&epd_plan_segments, 0, EPD_SEGMENT_FILE + 1));
	CHECK(are_words(&epd_plan_asked, 0, EPD_ASKED_NO + 1));
	CHECK(are_words(&epd_plan_modes, 0, EPD_PLAN_ENFORCED + 1));
	CHECK(are_words(&epd_plan_reasons, 0, EPD_WHY_COUNT));
	CHECK(are_words(&epd_plan_refusals, 1, EPD_REFUSED_COUNT));
	/* Of bits by their numbers. */
	CHECK_INT(1 << epd_word_parse(&epd_plan_allows, "fallback"),
	    EPD_MAY_FALLBACK);
	CHECK_INT(1 << epd_word_parse(&epd_plan_allows, "int8"), EPD_MAY_INT8);
	CHECK_INT(1 << epd_word_parse(&epd_plan_allows, "recompute"),
	    EPD_MAY_RECOMPUTE);
	CHECK_INT(1 << epd_word_parse(&epd_plan_differs, "order"),
	    EPD_DIFFER_ORDER);
	CHECK(!strcmp(epd_word(&epd_ops, 0), "?"));
	epd_words_put(&b, &epd_priorities, 0);
	CHECK_STR(epd_buf_cstr(&b), "low, normal or high");
	epd_buf_free(&b);
	epd_words_put(&b, &epd_ops, 0);
	CHECK_STR(epd_buf_cstr(&b), "read or write");
	epd_buf_free(&b);
}

/* Plans of all kinds, one after another. */
static int
kind_of(int kind)
{
	set_up(&s, EPD_VIA_TCP, EPD_VIA_RDMA, EPD_VIA_COPY, EPD_VIA_RECOMPUTE, 0);
	s.config.contract.allows = EPD_MAY_FALLBACK | EPD_MAY_RECOMPUTE |
	    EPD_MAY_INT8;
	s.i.tokens = 100;
	s.i.tokens_per_s = 1000;
	switch (kind) {
	case 0:
		observe(&s, EPD_VIA_RDMA, EPD_DEGRADED, 12345678.9, 7)->
		    devices_up = 6;
		break;
	case 1:
		ends(&s, EPD_IN_CUDA, EPD_IN_ROCM);
		break;
	case 2:
		s.i.lossy = EPD_LOSSY_INT8;
		s.i.lossy_bytes = 99;
		s.i.parent = 77;
		break;
	case 3:
		observe(&s, EPD_VIA_TCP, EPD_HEALTHY, 1e9, 1)->valid_for_ns = 0;
		observe(&s, EPD_VIA_RDMA, EPD_HEALTHY, 1e9, 1)->confidence = 0;
		s.i.id = UINT64_MAX - 5;
		s.i.there.generation = UINT64_MAX;
		s.i.credits_enabled = 1;
		s.i.credits = (struct epd_credits){ 9, UINT64_MAX, 9, 9 };
		break;
	case 4:
		cap_of(&s, EPD_VIA_TCP)->completion = EPD_DONE_SENT;
		s.i.hint = EPD_VIA_TCP;
		s.i.index = 1;
		s.i.bytes = UINT64_MAX;
		break;
	default:
		return 0;
	}
	return decide(&s);
}

/* What a plan holds beyond its counts is nothing. */
static void
trim(struct epd_plan *p)
{
	struct epd_plan q = *p;

	memset(q.stage, 0, sizeof q.stage);
	memset(q.depends, 0, sizeof q.depends);
	memcpy(q.stage, p->stage, p->nstages * sizeof *p->stage);
	memcpy(q.depends, p->depends, p->ndepends * sizeof *p->depends);
	*p = q;
}

static int
same(struct epd_plan *a, struct epd_plan *b)
{
	trim(a);
	trim(b);
	return a->id == b->id && a->parent == b->parent &&
	    a->attempt == b->attempt && a->reasons == b->reasons &&
	    a->cost_ns == b->cost_ns && a->alignment == b->alignment &&
	    a->shape == b->shape && a->lossy == b->lossy &&
	    a->role == b->role && a->path_kind == b->path_kind &&
	    a->policy == b->policy && a->remote == b->remote &&
	    a->nstages == b->nstages && a->ndepends == b->ndepends &&
	    !memcmp(&a->charge, &b->charge, 44) &&
	    a->estimate.latency_ns == b->estimate.latency_ns &&
	    a->estimate.bandwidth_bps == b->estimate.bandwidth_bps &&
	    a->estimate.observed_at_ns == b->estimate.observed_at_ns &&
	    a->estimate.valid_for_ns == b->estimate.valid_for_ns &&
	    !(a->estimate.confidence < b->estimate.confidence) &&
	    !(a->estimate.confidence > b->estimate.confidence) &&
	    a->estimate.source == b->estimate.source &&
	    a->estimate.ignored == b->estimate.ignored;
}

static int
same_parts(const struct epd_plan *a, const struct epd_plan *b)
{
	for (int i = 0; i < a->nstages; i++) {
		const struct epd_stage *x = &a->stage[i], *y = &b->stage[i];

		if (x->type != y->type || x->backend != y->backend ||
		    x->source != y->source || x->target != y->target ||
		    x->bytes != y->bytes || x->devices != y->devices ||
		    x->device != y->device || x->priority != y->priority ||
		    (x->devices && x->pool != y->pool))
			return 0;
	}
	for (int i = 0; i < a->ndepends; i++)
		if (a->depends[i].kind != b->depends[i].kind ||
		    a->depends[i].backend != b->depends[i].backend ||
		    a->depends[i].generation != b->depends[i].generation)
			return 0;
	return 1;
}

/* V9: serialization round trip. */
TEST(round_trip)
{
	struct epd_plan_names n;
	int plans = 0;

	for (int kind = 0; kind < 5; kind++) {
		CHECK(kind_of(kind) > 0);
		n = names();
		for (int k = 0; k < s.d.n; k++) {
			struct epd_buf b = { 0 };
			struct epd_plan p;

			epd_plan_json(&b, &n, &s.d, k);
			if (epd_plan_parse(&p, &n, epd_span(b.p, b.n), &s.why))
				CHECK_FAIL("%d: %s", kind, s.why.text);
			CHECK(same(&p, &s.d.plan[k]));
			CHECK(same_parts(&p, &s.d.plan[k]));
			epd_buf_free(&b);
			plans++;
		}
		epd_planner_free(s.p);
	}
	CHECK(plans >= 9);
}

/* The example's JSON with the first `from` replaced. */
static int
parse_with(const char *from, const char *to)
{
	struct epd_plan_names n = names();
	struct epd_buf b = { 0 }, c = { 0 };
	struct epd_plan p;
	const char *text, *at;
	int rc;

	epd_plan_json(&b, &n, &s.d, 0);
	text = epd_buf_cstr(&b);
	at = strstr(text, from);
	if (!at)
		return 1;
	epd_buf_put(&c, text, (size_t)(at - text));
	epd_buf_str(&c, to);
	epd_buf_str(&c, at + strlen(from));
	rc = epd_plan_parse(&p, &n, epd_span(c.p, c.n), &s.why);
	epd_buf_free(&b);
	epd_buf_free(&c);
	return rc;
}

/* What the fuzzer begins with is taken; else it would learn nothing of the rest. */
TEST(seeds_of_the_fuzzer_are_plans)
{
	static const char *const seeds[] = { "rdma", "recompute", "shm", "staged",
	    "tcp" };
	char path[80];

	for (size_t k = 0; k < sizeof seeds / sizeof *seeds; k++) {
		struct epd_buf b = { 0 };
		struct epd_plan p;

		snprintf(path, sizeof path, "tests/fuzz/corpus/plan_explain/%s",
		    seeds[k]);
		CHECK_INT(epd_file_read(AT_FDCWD, path, 1 << 16, &b), 0);
		if (epd_plan_parse(&p, NULL, epd_span(b.p, b.n), &s.why))
			CHECK_FAIL("%s: %s", path, s.why.text);
		epd_buf_free(&b);
	}
}

TEST(hostile_json_is_refused)
{
	static const char *const bad[][2] = {
		{ "{\"schema_version\": 1, ", "[" },
		{ "\"path_kind\": \"direct\"", "\"path_kind\": \"staged\"" },
		{ "\"path_kind\": \"direct\"", "\"path_kind\": \"?\"" },
		{ "\"path_kind\": \"direct\"", "\"path_kind\": 1" },
		{ "\"role\": \"primary\"", "\"role\": \"first\"" },
		{ "\"attempt\": 1", "\"attempt\": 0" },
		{ "\"attempt\": 1", "\"attempt\": -1" },
		{ "\"attempt\": 1", "\"attempt\": 4294967296" },
		{ "\"attempt\": 1", "\"attempt\": 1.5" },
		{ "\"attempt\": 1", "\"attempt\": \"1\"" },
		{ "\"shape\": 1", "\"shape\": 256" },
		{ "\"shape\": 1", "\"shape\": 8" },
		{ "\"alignment\": 4096", "\"alignment\": 4095" },
		{ "\"bytes\": 1048576", "\"bytes\": 0" },
		{ "\"bytes\": 1048576", "\"bytes\": 1e999" },
		{ "\"bytes\": 1048576", "\"bytes\": 18446744073709551616" },
		{ "\"backend\": \"rdma\"", "\"backend\": \"carrier pigeon\"" },
		{ "\"backend\": \"rdma\"", "\"backend\": \"none\"" },
		{ "\"backend\": \"rdma\"", "\"backend\": \"shm\"" },
		{ "\"source_memory\": \"cuda\"", "\"source_memory\": \"none\"" },
		{ "\"source_memory\": \"cuda\"", "\"source_memory\": null" },
		{ "\"rail\": 0", "\"rail\": 64" },
		{ "\"rail\": 0", "\"rail\": 5" },
		{ "\"devices\": [0, 1]", "\"devices\": [64]" },
		{ "\"devices\": [0, 1]", "\"devices\": \"none\"" },
		{ "\"devices\": [0, 1]", "\"devices\": 3" },
		{ "\"qp_pool\": 1", "\"qp_pool\": 256" },
		{ "\"nic_bytes\": 1048576", "\"nic_bytes\": 1" },
		{ "\"request_slots\": 1", "\"request_slots\": 0" },
		{ "\"stages\": [", "\"stages\": [[], " },
		{ "\"stages\": [", "\"stages\": [{}, {}, {}, {}, {}, " },
		{ "\"stages\": [", "\"stages\": {}, \"steps\": [" },
		{ "\"dependencies\": [", "\"dependencies\": [{}, " },
		{ "\"kind\": \"source\"", "\"kind\": \"credit\"" },
		{ "\"confidence\": 0.9", "\"confidence\": 1.01" },
		{ "\"confidence\": 0.9", "\"confidence\": -1" },
		{ "\"reasons\": [", "\"reasons\": [\"because I say so\", " },
		{ "\"reasons\": [", "\"reasons\": [1, " },
	};
	struct epd_plan p;
	struct epd_buf b = { 0 };

	CHECK_INT(example(), 2);
	CHECK_INT(parse_with("\"attempt\"", "\"attempt\""), 0);
	/* What nobody knows does no harm. */
	CHECK_INT(parse_with("\"attempt\"", "\"later\": [], \"attempt\""), 0);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const int rc = parse_with(bad[i][0], bad[i][1]);

		if (rc != EPD_EFORMAT)
			CHECK_FAIL("%s: %d", bad[i][1], rc);
	}
	CHECK_INT(parse_with("\"schema_version\": 1", "\"schema_version\": 2"),
	    EPD_EKIND);
	CHECK_INT(parse_with("\"schema_version\": 1", "\"version\": 1"),
	    EPD_EKIND);
	epd_buf_add(&b, 70000);
	memset(b.p, ' ', b.n);
	CHECK_INT(epd_plan_parse(&p, NULL, epd_span(b.p, b.n), NULL), EPD_EFORMAT);
	CHECK(epd_plan_parse(&p, NULL, epd_span("", 0), NULL) < 0);
	CHECK_INT(epd_plan_parse(&p, NULL, epd_span("null", 4), NULL), EPD_EKIND);
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

/* ---- V9: sanitized JSON ---- */

static const char *const secrets[] = {
	"0x7f3a91c0d000", "7f3a91c0d000", "rkey=0xdeadbeef", "deadbeef1",
	"sk-4f9a2b7c8d1e", "12345678", "a12345678",
	"550e8400-e29b-41d4-a716-446655440000", "tenant/acme corp/request/77",
	"tenant-of-a-very-long-name-that-goes-on-and-on",
	"-----BEGIN PRIVATE KEY-----", "a\nb", "a\"b", "\x1b[31m", "../../etc",
	"gid:fe80::1", "pass word", "9starts-with-a-digit", "",
};

TEST(names_that_may_stand)
{
	static const char *const good[] = { "foreground_get", "mlx5_bond_0",
	    "rxe0", "background", "a", "Rule.2-b", "deadbeef",
	    "h20-rail-07" };

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		CHECK_STR(epd_plan_clean(good[i]), good[i]);
	for (size_t i = 0; i < sizeof secrets / sizeof *secrets; i++)
		CHECK_STR(epd_plan_clean(secrets[i]), "redacted");
	CHECK_STR(epd_plan_clean(NULL), "redacted");
}

/* As much of a secret as has room where it is planted. */
static void
plant(char name[EPD_PLAN_NAME], const char *secret)
{
	size_t n = strlen(secret);

	memset(name, 0, EPD_PLAN_NAME);
	memcpy(name, secret, n < EPD_PLAN_NAME ? n : EPD_PLAN_NAME);
}

TEST(planted_secrets_never_come_out)
{
	for (size_t i = 0; i + 1 < sizeof secrets / sizeof *secrets; i++) {
		struct epd_path_template t = { "", { EPD_FROM_DEVICE,
		    EPD_FROM_HOST, EPD_TO_HOST, EPD_TO_DEVICE } };
		const char *device[2] = { secrets[i], secrets[i] };
		struct epd_plan_names n = { NULL, device, 2 };
		struct epd_buf b = { 0 };

		set_up(&s, EPD_VIA_RDMA, EPD_VIA_COPY, EPD_VIA_TCP, 0);
		ends(&s, EPD_IN_CUDA, EPD_IN_CUDA);
		cap_of(&s, EPD_VIA_RDMA)->pairs = EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU);
		s.config.nrules = 2;
		plant(s.rule[0].name, secrets[i]);
		s.rule[0].min_size = UINT64_MAX;
		plant(s.rule[1].name, secrets[i]);
		s.rule[1].name[0] = (char)(s.rule[1].name[0] ^ 1);
		s.rule[1].contract.allows = EPD_MAY_FALLBACK;
		plant(t.name, secrets[i]);
		s.config.templates = &t;
		s.config.ntemplates = 1;
		/* Numbers that name somebody. */
		s.i.here.node = s.i.here.machine = UINT64_C(0x7f3a91c0d000);
		s.i.there.node = s.i.there.machine = UINT64_C(140735290617);
		if (decide(&s) != 2)
			CHECK_FAIL("%s: %s", secrets[i], s.why.text);
		n.planner = s.p;
		epd_plan_text(&b, &n, &s.d);
		for (int k = 0; k < s.d.n; k++)
			epd_plan_json(&b, &n, &s.d, k);
		for (int v = 1; v < EPD_VIA_COUNT; v++)
			epd_plan_why_not(&b, &n, &s.d, (enum epd_backend)v);
		CHECK(holds(&b, "redacted"));
		CHECK(!holds(&b, secrets[i]));
		CHECK(strlen(secrets[i]) < 5 || !holds(&b, secrets[i] + 1));
		/* Nor what it begins with, cut where its place ends. */
		if (strlen(secrets[i]) > 12) {
			char begin[12] = "";

			memcpy(begin, secrets[i], 11);
			CHECK(!holds(&b, begin));
		}
		CHECK(!holds(&b, "139888"));	/* the address in decimal */
		CHECK(!holds(&b, "140735290617"));
		CHECK(!holds(&b, "0x"));
		epd_buf_free(&b);
		epd_planner_free(s.p);
	}
}

TEST(no_plan_is_told_too)
{
	struct epd_plan_names n;
	struct epd_buf b = { 0 };

	set_up(&s, EPD_VIA_SHM, 0);
	CHECK_INT(decide(&s), EPD_ENOPLAN);
	n = names();
	epd_plan_json(&b, &n, &s.d, 0);
	CHECK(holds(&b, "\"path_kind\": null, \"matched_policy\": \"default\""));
	CHECK(holds(&b, "\"rejected_candidates\": [{\"backend\": \"shm\""));
	epd_buf_free(&b);
	epd_plan_text(&b, &n, &s.d);
	CHECK_STR(epd_buf_cstr(&b), "no plan, policy default\n"
	    "not shm: the target is not on the same machine\n");
	epd_buf_free(&b);
	epd_planner_free(s.p);
}

/* ---- scenarios ---- */

static struct epd_scenario sc;

static int
scenario(const char *text)
{
	epd_scenario_default(&sc);
	s.why.text[0] = '\0';
	return epd_scenario_parse(&sc, epd_span_str(text), "s.yaml", &s.why);
}

TEST(scenarios_that_are_none)
{
	static const char *const bad[][2] = {
		{ "a: b", "s.yaml:1: unknown key a" },
		{ "\nbackends: [tcp]", "s.yaml:2: backends wants" },
		{ "backends: { pigeon: }", "s.yaml:1: no backend is called" },
		{ "backends:\n  tcp: { health: fine }", "s.yaml:2: health wants" },
		{ "backends:\n  tcp:\n    speed: 1", "s.yaml:3: unknown key" },
		{ "backends: { tcp: { bandwidth: -1 } }", "bandwidth wants" },
		{ "backends: { tcp: { bandwidth: 1x } }", "bandwidth wants" },
		{ "backends: { tcp: { bandwidth: 1GG } }", "bandwidth wants" },
		{ "backends: { tcp: { latency: 3 } }", "latency wants" },
		{ "backends: { tcp: { confidence: 1.1 } }", "confidence wants" },
		{ "backends: { tcp: { age: 2000000000000us } }", "tcp wants" },
		{ "backends: { tcp: { pairs: [cpu] } }", "pairs wants" },
		{ "backends: { tcp: { pairs: [cpu-mars] } }", "pairs wants" },
		{ "backends: { tcp: { rails_up: [64] } }", "rails_up wants" },
		{ "backends: { tcp: { local: maybe } }", "local wants" },
		{ "backends: { tcp: { pools: 256 } }", "pools wants" },
		{ "loaded: [tcp, x]", "loaded wants" },
		{ "loaded: tcp", "loaded wants" },
		{ "policies: {}", "policies wants" },
		{ "policies: [ { here: gpu } ]", "here wants" },
		{ "policies: [ { backends: [rmda] } ]", "no backend is called rmda" },
		{ "policies: [ { name: abcdefghijklmnopqrstuvwxyz123456 } ]",
		    "name wants" },
		{ "policies: [ { contract: { allow: [all] } } ]", "allow wants" },
		{ "from: gpu", "wants host, cuda" },
		{ "from: cuda:64@a", "wants a device" },
		{ "from: cuda:x@a", "wants a device" },
		{ "from: cuda@", "wants a node" },
		{ "bytes: 1Q", "bytes wants" },
		{ "bytes: 99999999999999999999", "bytes wants" },
		{ "bytes: 18446744073709551615K", "bytes wants" },
		{ "bytes: [1]", "bytes wants" },
		{ "op: copy", "op wants" },
		{ "index: -1", "index wants" },
		{ "alignment: 3", "power of two" },
		{ "mode: on", "mode wants" },
		{ "nodes: { a: }", "a wants" },
		{ "a: &x b", "anchors" },
		{ "a: *x", "aliases" },
		{ "a: !!str b", "tags" },
		{ "op: read\nop: read", "twice" },
		{ "op: read\n---\nop: read", "more than one document" },
		{ "[op]", "keys with values" },
		{ "op: {", "s.yaml:" },
		{ "[[[[[[[[[[[[[[[[", "s.yaml:" },
		{ "tags: [[[[[[[[[[[[]]]]]]]]]]]]", "deeper" },
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		const int rc = scenario(bad[i][0]);

		if (rc != EPD_EUSAGE || !strstr(s.why.text, bad[i][1]))
			CHECK_FAIL("%s: %d %s", bad[i][0], rc, s.why.text);
	}
	CHECK_INT(scenario(""), 0);
	CHECK_INT(scenario("# nothing\n"), 0);
	/* On failure all is as it was. */
	CHECK_INT(scenario("bytes: 5"), 0);
	CHECK_INT(epd_scenario_parse(&sc, epd_span_str("bytes: 6\nop: x"), "t",
	    &s.why), EPD_EUSAGE);
	CHECK_INT(sc.intent.bytes, 5);
}

TEST(scenarios_of_every_key)
{
	struct epd_planner *p;
	struct epd_intent i;
	struct epd_legacy l;

	if (scenario("ranked_by: order\n"
	    "backends:\n"
	    "  rdma: { local: false, remote: true, read: true, write: true,\n"
	    "    notify: false, cancel: true, retry: false, stage: false,\n"
	    "    pairs: [cpu-cpu, cuda-cuda], bounced: [cuda-cuda],\n"
	    "    alignment: 4K, max_bytes: 1G, completion: sent, pools: 2,\n"
	    "    schema: 1, generation: 5, health: degraded, bandwidth: 1.5G,\n"
	    "    latency: 10us, age: 5ms, valid_for: 1s, confidence: 0.75,\n"
	    "    rails_up: [1, 2], usual_bandwidth: 800k, usual_latency: 1ms }\n"
	    "  tcp:\n"
	    "loaded: [rdma, tcp]\n"
	    "policies:\n"
	    "- { name: p, segment: memory, same_machine: false, here: cuda,\n"
	    "    there: '*', priority: high, intent: prefetch, min_size: 1K,\n"
	    "    max_size: 2M, backends: [rdma, tcp], rails: [2], pool: 1,\n"
	    "    contract: { allow: [fallback, recompute], strict: true,\n"
	    "      max_nic_bytes: 4M, max_staging_bytes: 1M } }\n"
	    "contract: { allow: [fp8] }\n"
	    "nodes: { a: m1, b: m1 }\n"
	    "devices: [mlx5_0, mlx5_1, mlx5_2]\n"
	    "from: cuda:3@a\nto: host@b\ntags: [tcp, rdma]\nbytes: 1M\n"
	    "alignment: 64K\nop: read\nhint: tcp\npolicy: p\npriority: low\n"
	    "intent: handoff\nindex: 2\nstrict: true\ndeadline: 3ms\n"
	    "compression: int8\ncompressed_bytes: 300K\n"
	    "credits: { bytes: 1M, slots: 2, staging: 3, generation: 4 }\n"
	    "tokens: 7\ntokens_per_s: 1k\nmode: shadow\n"))
		CHECK_FAIL("%s", s.why.text);
	CHECK_INT(epd_scenario_make(&sc, &p, &i, &l, &s.why), 0);
	CHECK_INT(sc.capability[EPD_VIA_RDMA].max_transfer_bytes, 1 << 30);
	CHECK_INT(sc.capability[EPD_VIA_RDMA].pairs,
	    EPD_PAIR(EPD_IN_CPU, EPD_IN_CPU) | EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA));
	CHECK(!(sc.capability[EPD_VIA_RDMA].flags & EPD_CAN_LOCAL));
	CHECK_INT(sc.how.of[EPD_VIA_RDMA].devices_up, 6);
	CHECK_INT(sc.how.of[EPD_VIA_RDMA].health, EPD_DEGRADED);
	CHECK_INT(sc.how.of[EPD_VIA_RDMA].bandwidth_bps, 1500000000);
	CHECK_INT(i.now_ns - sc.how.of[EPD_VIA_RDMA].observed_at_ns, 5000000);
	CHECK_INT(sc.how.of[EPD_VIA_TCP].schema_version, 0);
	CHECK_INT(sc.rule[0].contract.allows, EPD_MAY_FALLBACK | EPD_MAY_RECOMPUTE);
	CHECK_INT(sc.rule[0].devices, 4);
	CHECK_INT(sc.rule[0].nbackends, 2);
	CHECK_INT(i.here.medium, EPD_IN_CPU);
	CHECK_INT(i.there.medium, EPD_IN_CUDA);
	CHECK_INT(i.there.device, 3);
	CHECK_INT(i.there.machine, i.here.machine);
	CHECK(i.there.node != i.here.node);
	CHECK_INT(i.there.tag[0], EPD_VIA_TCP);
	CHECK_INT(i.policy, 1);
	CHECK_INT(i.deadline_ns - i.now_ns, 3000000);
	CHECK_INT(i.credits.staging, 3);
	CHECK_INT(i.lossy_bytes, 300 << 10);
	CHECK_INT(sc.mode, EPD_PLAN_SHADOW);
	CHECK(l.gpudirect && l.cpu);
	epd_planner_free(p);
	/* What comes later is read over what was there. */
	CHECK_INT(epd_scenario_parse(&sc, epd_span_str(
	    "backends: { rdma: { health: down } }"), "t", &s.why), 0);
	CHECK_INT(sc.how.of[EPD_VIA_RDMA].health, EPD_DOWN);
	CHECK_INT(sc.how.of[EPD_VIA_RDMA].bandwidth_bps, 1500000000);
	CHECK_INT(sc.intent.now_ns - sc.how.of[EPD_VIA_RDMA].observed_at_ns,
	    5000000);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
