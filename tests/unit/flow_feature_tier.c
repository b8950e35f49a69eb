/*
 * flow_feature_tier.c - features in a store that many share: what one has encoded
 * another reads, and whatever is wrong there is a miss, counted, and encoded again.
 */
#include "base/clock.h"
#include "flow/feature_tier.h"
#include "flow/inner.h"
#include "tests/check.h"
#include "tests/unit/flow.h"
#include "tier/object.h"

#define TINY "examples/tiny-vlm/model"
#define SAMPLE "examples/tiny-vlm/samples/sample-images/000_0.png"
enum { THINGS = 8, META = 8192 };

/* A shared store of the process: objects as any tier keeps them, whole or tampered with. */
static struct shared {
	struct thing {
		struct epd_name name;
		uint32_t kind;
		uint64_t sum;
		struct epd_buf object;
	} thing[THINGS];
	int n, drops;
	int fails;		/* what each question ends with */
} shared;

struct door {
	EPD_LOWER_OPS;
};

static void
forget(void)
{
	for (int i = 0; i < shared.n; i++)
		epd_buf_free(&shared.thing[i].object);
	shared = (struct shared){ .n = 0 };
}

static struct thing *
find(uint32_t kind, const struct epd_name *name, uint64_t sum)
{
	for (int i = 0; i < shared.n; i++)
		if (shared.thing[i].kind == kind && shared.thing[i].sum == sum &&
		    (!name || epd_name_equal(&shared.thing[i].name, name)))
			return &shared.thing[i];
	return NULL;
}

static struct thing *
of(const struct epd_lot *lot)
{
	return find(lot->shape.kind, &lot->entry->name, lot->entry->sum);
}

static int
put(struct epd_lower *l, const struct epd_lot *lot, const void *const *page,
    uint64_t deadline_ns, struct epd_why *why)
{
	struct thing *t = of(lot);
	int64_t n;

	(void)l;
	(void)deadline_ns;
	(void)why;
	if (shared.fails)
		return shared.fails;
	if (t)
		return 0;
	t = &shared.thing[shared.n++];
	*t = (struct thing){ .name = lot->entry->name,
		.kind = lot->shape.kind, .sum = lot->entry->sum };
	n = epd_object_pack(epd_buf_add(&t->object,
	    epd_object_bound(&lot->shape)), lot, 0, page[0], 0,
	    epd_span(NULL, 0));
	t->object.n = (size_t)n;
	return 0;
}

static long
get(struct epd_lower *l, const struct epd_lot *lot, void *const *out,
    uint8_t *had, uint64_t deadline_ns, struct epd_why *why)
{
	const struct thing *t = of(lot);

	(void)l;
	(void)deadline_ns;
	if (shared.fails)
		return shared.fails;
	*had = t && !epd_object_unpack(*out, lot, 0, t->object.p, t->object.n,
	    epd_span(NULL, 0), why);
	return *had;
}

static int
drop(struct epd_lower *l, const struct epd_lot *lot, uint64_t deadline_ns,
    struct epd_why *why)
{
	(void)l;
	(void)lot;
	(void)deadline_ns;
	(void)why;
	shared.drops++;
	return 0;
}

static void
shut(struct epd_lower *l)
{
	free(l);
}

static const struct epd_lower_ops ops = {
	.tier = EPD_TIER_MOONCAKE, .close = shut, .put = put, .get = get,
	.drop = drop,
};

/* A store that shares its features there. */
static void
start(struct kit *k)
{
	struct door *d = calloc(1, sizeof *d);

	kit_begin(k, TINY);
	strcpy(k->config.feature_store, "mooncake_store");
	k->config.trust_peers = 1;
	kit_open(k);
	d->ops = &ops;
	k->s->lower[EPD_TIER_MOONCAKE] = (struct epd_lower *)(void *)d;
}

/* How the tier's feature of the sample is expected here, and room for its rows. */
struct look {
	struct epd_feature f;
	uint8_t *buf;
};

static struct look
look(struct kit *k)
{
	struct epd_encoded e;
	struct look l = { .buf = NULL };

	if (epd_flow_encode(k->se, SAMPLE, &e, kit_why(k)))
		golden_die("encode", k->why.text);
	epd_session_feature(k->se, &e.fp, e.grid, &l.f);
	l.buf = malloc(epd_feature_bytes(&l.f));
	return l;
}

static struct thing *
meta(void)
{
	return find(EPD_OBJECT_FEATURE_META, NULL, 0);
}

/* The meta's bytes made anew under a seal that is right, from those at was. */
static void
reseal(struct thing *t, const uint8_t *payload, const struct epd_feature *f)
{
	const struct epd_page_entry e = { .name = f->fp, .rows = f->tokens };
	const struct epd_lot lot = { .workflow = "", .n = 1, .entry = &e,
		.shape = { EPD_OBJECT_FEATURE_META, 0, f->tokens, META } };

	if (epd_object_pack(t->object.p, &lot, 0, payload, 0, epd_span(NULL,
	    0)) != EPD_OBJECT_HEAD + META)
		golden_die("object", "is of another size");
}

TEST(what_one_encoded_another_reads)
{
	const char *paths[] = { SAMPLE, NULL };
	struct epd_prefilled p[2];
	struct kit_said said[2];
	struct kit a, b;

	forget();
	start(&a);
	CHECK_INT(kit_say(&a, 0, "What is this?", paths, &p[0]), 0);
	CHECK_INT(shared.n, 2);
	CHECK_INT(kit_count(&a, EPD_M_MM_TIER_PUT), 1);
	CHECK_INT(kit_count(&a, EPD_M_MM_TIER_MISS), 1);
	start(&b);
	CHECK_INT(kit_say(&b, 0, "What is this?", paths, &p[1]), 0);
	CHECK_INT(p[1].encoded, 0);
	CHECK_INT(p[1].hits, 1);
	CHECK_INT(kit_count(&b, EPD_M_ENCODE_COUNT), 0);
	CHECK_INT(kit_count(&b, EPD_M_MM_TIER_HIT), 1);
	CHECK_INT(kit_count(&b, EPD_M_MM_READBACK), 1);
	CHECK_INT(shared.n, 2);
	CHECK_INT(kit_decode(&a, &p[0].state, 1, 8, &said[0]), 0);
	CHECK_INT(kit_decode(&b, &p[1].state, 1, 8, &said[1]), 0);
	CHECK_STR(said[0].text, said[1].text);
	/* It is here now, with its picture. */
	CHECK_INT(kit_say(&b, 0, "And what is this?", paths, &p[1]), 0);
	CHECK_INT(kit_count(&b, EPD_M_MM_TIER_HIT), 1);
	CHECK_INT(kit_count(&b, EPD_M_MM_HIT), 1);
	CHECK_INT(kit_check(&b), 0);
	kit_end(&a);
	kit_end(&b);
}

TEST(a_gate_that_is_shut_asks_nobody)
{
	struct kit k;

	forget();
	start(&k);
	strcpy(k.s->config.feature_store, "none");
	free(look(&k).buf);
	CHECK_INT(shared.n, 0);
	kit_end(&k);
	start(&k);
	k.s->config.feature_cache = 0;
	free(look(&k).buf);
	CHECK_INT(shared.n, 0);
	kit_end(&k);
}

/* Each byte of the line and of what leads to it, the seal around it being right. */
TEST(kind17_meta_that_is_off_by_a_byte_is_a_miss)
{
	uint8_t was[META], now[META];
	struct look l;
	struct kit k;
	size_t n, wrong = 0;

	forget();
	start(&k);
	l = look(&k);
	memcpy(was, meta()->object.p + EPD_OBJECT_HEAD, META);
	n = 12 + (size_t)(was[8] | was[9] << 8);
	CHECK(n > 200 && n < META);
	for (size_t i = 0; i < n; i++) {
		const uint64_t corrupt = kit_count(&k, EPD_M_CORRUPT_META);

		memcpy(now, was, META);
		now[i] ^= 1;
		reseal(meta(), now, &l.f);
		if (epd_feature_tier_get(k.s, &l.f, l.buf, NULL) != 0)
			wrong++;
		/* A sum of other rows names rows that are not there. */
		if (i >= 8 && kit_count(&k, EPD_M_CORRUPT_META) != corrupt + 1)
			wrong++;
	}
	CHECK_INT(wrong, 0);
	CHECK(shared.drops > 0);
	reseal(meta(), was, &l.f);
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 1);
	free(l.buf);
	kit_end(&k);
}

TEST(half_of_a_pair_is_a_miss)
{
	struct thing *t;
	struct look l;
	struct kit k;

	forget();
	start(&k);
	l = look(&k);
	/* Who died between the two left rows alone. */
	t = meta();
	t->kind = 0;
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 0);
	t->kind = EPD_OBJECT_FEATURE_META;
	t = &shared.thing[0];
	CHECK_INT(t->kind, EPD_OBJECT_FEATURE_ROWS);
	t->kind = 0;
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 0);
	t->kind = EPD_OBJECT_FEATURE_ROWS;
	/* Rows that were torn. */
	t->object.p[t->object.n - 1] ^= 1;
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 0);
	t->object.p[t->object.n - 1] ^= 1;
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 1);
	CHECK_INT(kit_count(&k, EPD_M_CORRUPT_META), 0);
	free(l.buf);
	kit_end(&k);
}

/* Rows of another commit, whose sum meta's XXH3 names but its line does not. */
TEST(rows_that_the_line_does_not_mean_are_a_miss)
{
	uint8_t now[META];
	struct epd_buf b = { 0 };
	struct thing *t;
	struct look l;
	struct kit k;

	forget();
	start(&k);
	l = look(&k);
	t = &shared.thing[0];
	memset(l.buf, 0, epd_feature_bytes(&l.f));
	{
		struct epd_page_entry e = { .name = l.f.fp, .rows = l.f.tokens,
			.sum = epd_xxh3_64(l.buf, epd_feature_bytes(&l.f)) };
		const struct epd_lot lot = { .workflow = "", .n = 1,
			.entry = &e, .shape = { EPD_OBJECT_FEATURE_ROWS, 0,
			l.f.tokens, epd_feature_bytes(&l.f) } };

		t->sum = e.sum;
		CHECK(epd_object_pack(t->object.p, &lot, 0, l.buf, 0,
		    epd_span(NULL, 0)) > 0);
	}
	memcpy(now, meta()->object.p + EPD_OBJECT_HEAD, META);
	epd_pack_u64(&b, t->sum);
	memcpy(now, b.p, 8);
	epd_buf_free(&b);
	reseal(meta(), now, &l.f);
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 0);
	CHECK_INT(kit_count(&k, EPD_M_CORRUPT_BLOB), 1);
	free(l.buf);
	kit_end(&k);
}

/* What goes soon is not put, and what is there stays till the store evicts it. */
TEST(what_is_put_lasts)
{
	struct epd_clock_fake later = { .boot_ns = epd_clock_boot_ns() };
	struct look l;
	struct kit k;

	forget();
	start(&k);
	k.s->config.feature_ttl_ms = 1000;
	l = look(&k);
	CHECK_INT(shared.n, 0);
	CHECK_INT(epd_feature_remove(k.s->features, &l.f.fp), 0);
	free(l.buf);
	k.s->config.feature_store_min_ttl_ms = 1000;
	l = look(&k);
	CHECK_INT(shared.n, 2);
	later.wall_ms = epd_clock_wall_ms() + 5000;
	epd_clock_fake(&later);
	CHECK_INT(epd_feature_tier_get(k.s, &l.f, l.buf, NULL), 1);
	epd_clock_fake(NULL);
	free(l.buf);
	kit_end(&k);
}

/* Rows prove nothing by themselves: whoever put them must be known, or believed. */
TEST(nobody_is_believed_by_default)
{
	struct epd_encoded e;
	struct kit k;

	forget();
	start(&k);
	k.s->config.trust_peers = 0;
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)), EPD_EUSAGE);
	CHECK(strstr(k.why.text, "tier.key_file"));
	CHECK_INT(shared.n, 0);
	kit_end(&k);
}

TEST(a_store_that_is_away_costs_an_encode)
{
	static const int how[] = { EPD_EPEER, EPD_ETIMEOUT, -ENOSPC };
	struct look l;
	struct kit k;

	for (int i = 0; i < 3; i++) {
		forget();
		start(&k);
		shared.fails = how[i];
		l = look(&k);
		CHECK_INT(kit_count(&k, EPD_M_ENCODE_COUNT), 1);
		CHECK_INT(kit_count(&k, EPD_M_MM_TIER_MISS), 1);
		CHECK_INT(kit_count(&k, EPD_M_MM_TIER_PUT), 0);
		CHECK_INT(kit_count(&k, EPD_M_MM_TIER_PUT_FAILED), 1);
		free(l.buf);
		kit_end(&k);
	}
}

/* One that cannot be asked at all is no miss: somebody should know. */
TEST(a_store_that_is_not_configured_is_told)
{
	struct epd_encoded e;
	struct kit k;

	forget();
	kit_begin(&k, TINY);
	strcpy(k.config.feature_store, "mooncake_store");
	k.config.trust_peers = 1;
	kit_open(&k);
	CHECK_INT(epd_flow_encode(k.se, SAMPLE, &e, kit_why(&k)),
	    EPD_EUNSUPPORTED);
	CHECK(strstr(k.why.text, "tier.mooncake_url"));
	kit_end(&k);
	forget();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
