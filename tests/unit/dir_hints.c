/* dir_hints - what is told is found, by the same words on each back end. */
#include <errno.h>

#include "dir/answer.h"
#include "dir/memory.h"
#include "tests/check.h"
#include "tests/unit/etcd.h"

enum { LOCAL, STAYS, SHORT, WAYS };

static const enum epd_hint_kind kinds[] = { EPD_HINT_STATE, EPD_HINT_PAGE,
	EPD_HINT_FEATURE };

static void
open_way(struct seat *s, int way, const char *prefix)
{
	seat_set(s, 1, prefix);
	if (way == LOCAL)
		strcpy(s->c.directory_backend, "local");
	s->o.stays = way != SHORT;
}

/* Put, found whole, replaced, removed. */
static void
life_of_a_hint(int way, const char *prefix)
{
	struct epd_hint out[4], h;
	struct seat s;

	open_way(&s, way, prefix);
	CHECK_INT(seat_open(&s), 0);
	for (unsigned i = 0; i < 3; i++) {
		const char *key = key_of(kinds[i], i);

		CHECK_INT(epd_dir_find(s.d, kinds[i], key, 0, out, 4,
		    in_ms(5000), &s.why), 0);
		h = hint_of(kinds[i], i);
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		CHECK_INT(find_till(&s, kinds[i], i, 1, out, 4, 5000), 1);
		CHECK_INT(out->kind, kinds[i]);
		CHECK_STR(out->key, h.key);
		CHECK_STR(out->name, h.name);
		CHECK_STR(out->address, "tcp://127.0.0.1:7001");
		CHECK(!memcmp(out->owner, s.o.self.uuid, 16));
		CHECK_INT(out->version, h.version);
		CHECK(out->epoch == h.epoch && out->checksum == h.checksum);
		CHECK(out->wall_ms > 1700000000000ull);
		CHECK(out->age_ns <= 500 * MS);
		h.version = 77;
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		for (int k = 0; k < 1000 && out->version != 77; k++) {
			CHECK_INT(find_till(&s, kinds[i], i, 1, out, 4, 0), 1);
			epd_clock_sleep_ns(5 * MS);
		}
		CHECK_INT(out->version, 77);
		/* Another of its kind is not it. */
		CHECK_INT(find_till(&s, kinds[i], i + 10, 0, out, 4, 0), 0);
		CHECK_INT(epd_dir_remove(s.d, kinds[i], key_of(kinds[i], i),
		    in_ms(5000), &s.why), 0);
		CHECK_INT(find_till(&s, kinds[i], i, 0, out, 4, 5000), 0);
		CHECK_INT(epd_dir_remove(s.d, kinds[i], key_of(kinds[i], i),
		    in_ms(5000), &s.why), 0);
	}
	CHECK(seat_count(&s, EPD_M_DIR_HITS) >= 6);
	CHECK(seat_count(&s, EPD_M_DIR_LOOKUPS) >
	    seat_count(&s, EPD_M_DIR_HITS));
	CHECK_INT(seat_count(&s, EPD_M_DIR_ERRORS), 0);
	CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 0);
	CHECK(seat_count(&s, EPD_M_DIR_AGE_MAX_NS) <= 500 * MS);
	seat_close(&s);
}

TEST(told_found_replaced_removed_local) { life_of_a_hint(LOCAL, "life"); }
TEST(told_found_replaced_removed_etcd) { life_of_a_hint(STAYS, "life-stays"); }
TEST(told_found_replaced_removed_by_short_commands)
{
	life_of_a_hint(SHORT, "life-short");
}

TEST(keys_that_are_none)
{
	static const struct { enum epd_hint_kind kind; const char *key; } bad[] = {
		{ EPD_HINT_STATE, "" }, { EPD_HINT_STATE, "w1/s3" },
		{ EPD_HINT_STATE, "00112233445566778899aabbccddeeff" },
		{ EPD_HINT_STATE, "00112233445566778899aabbccddeeff/s" },
		{ EPD_HINT_STATE, "00112233445566778899aabbccddeeff/s0" },
		{ EPD_HINT_STATE, "00112233445566778899aabbccddeeff/s1/" },
		{ EPD_HINT_STATE, "00112233445566778899AABBCCDDEEFF/s1" },
		{ EPD_HINT_PAGE, "" }, { EPD_HINT_PAGE, "abc" },
		{ EPD_HINT_PAGE, "../nodes" }, { EPD_HINT_FEATURE, "zz" },
		{ EPD_HINT_NONE, "abcd" }, { EPD_HINT_FEATURE + 1, "abcd" },
	};

	for (int way = 0; way < WAYS; way++) {
		struct epd_hint h = { 0 };
		struct seat s;

		open_way(&s, way, "none");
		CHECK_INT(seat_open(&s), 0);
		for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
			h.kind = bad[i].kind;
			strcpy(h.key, bad[i].key);
			CHECK_INT(epd_dir_put(s.d, &h, in_ms(100), &s.why),
			    EPD_EUSAGE);
			CHECK_INT(epd_dir_find(s.d, h.kind, h.key, 0, &h, 1,
			    in_ms(100), &s.why), EPD_EUSAGE);
			CHECK_INT(epd_dir_remove(s.d, h.kind, h.key, in_ms(100),
			    &s.why), EPD_EUSAGE);
		}
		seat_close(&s);
	}
}

TEST(who_has_it_the_youngest_first)
{
	struct epd_hint out[8], h = hint_of(EPD_HINT_PAGE, 5);
	struct seat s[3];

	for (int i = 0; i < 3; i++) {
		seat_set(&s[i], i, "owners");
		s[i].o.stays = 0;
		CHECK_INT(seat_open(&s[i]), 0);
		CHECK_INT(epd_dir_put(s[i].d, &h, in_ms(5000), &s[i].why), 0);
	}
	CHECK_INT(find_till(&s[0], EPD_HINT_PAGE, 5, 3, out, 8, 2000), 3);
	for (int i = 0; i < 3; i++)
		CHECK_INT(out[i].owner[0], 0x12 - i);
	/* Told anew, it is the youngest. */
	CHECK_INT(epd_dir_put(s[0].d, &h, in_ms(5000), &s[0].why), 0);
	CHECK_INT(epd_dir_find(s[1].d, EPD_HINT_PAGE, h.key, 1, out, 2,
	    in_ms(5000), &s[1].why), 2);
	CHECK_INT(out[0].owner[0], 0x10);
	CHECK_INT(out[1].owner[0], 0x12);
	/* Whether they hold is known, and counted, by who tries them (wire_where). */
	CHECK_INT(seat_count(&s[1], EPD_M_DIR_STALE), 0);
	/* One's own alone is removed. */
	CHECK_INT(epd_dir_remove(s[2].d, EPD_HINT_PAGE, h.key, in_ms(5000),
	    &s[2].why), 0);
	CHECK_INT(epd_dir_find(s[1].d, EPD_HINT_PAGE, h.key, 1, out, 8,
	    in_ms(5000), &s[1].why), 2);
	for (int i = 0; i < 3; i++)
		seat_close(&s[i]);
}

TEST(a_hint_with_a_lease_of_its_own)
{
	for (int way = 0; way < WAYS; way++) {
		struct epd_hint out[2], h = hint_of(EPD_HINT_FEATURE, 6);
		struct seat s;

		open_way(&s, way, "own-lease");
		CHECK_INT(seat_open(&s), 0);
		h.lease_ms = 2000;
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		CHECK_INT(find_till(&s, EPD_HINT_FEATURE, 6, 1, out, 2, 2000), 1);
		CHECK_INT(out->lease_ms, 2000);
		CHECK_INT(find_till(&s, EPD_HINT_FEATURE, 6, 0, out, 2, 15000), 0);
		seat_close(&s);
	}
}

/* Who took it from the queue has it till it is told, whoever finds that it is over. */
TEST(what_is_being_told_is_not_freed)
{
	struct epd_hint out[1], h = hint_of(EPD_HINT_PAGE, 6);
	struct epd_dir d = { .closing = 0 };
	struct epd_told *t;

	d.last = &d.first;
	h.lease_ms = 1;
	CHECK_INT(epd_told_put(&d, "page/x", &h), 1);
	epd_told_wait(&d, (struct epd_told *)(void *)epd_map_get(&d.told,
	    "page/x"));
	t = epd_told_next(&d);
	CHECK(t != NULL);
	CHECK(!d.first);
	epd_clock_sleep_ns(5 * MS);
	CHECK_INT(epd_told_find(&d, "page/x", out, 1), 0);
	CHECK_INT(d.told.n, 1);
	t->busy = 0;
	CHECK_INT(epd_told_find(&d, "page/x", out, 1), 0);
	CHECK_INT(d.told.n, 0);
	epd_map_clear(&d.told);
}

TEST(who_serves_nobody_tells_nobody)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 9);
	struct seat a, b;
	uint8_t w[16] = { 1 };
	uint64_t term;

	seat_set(&a, 1, "nobody");
	a.o.self.address[0] = '\0';
	seat_set(&b, 2, "nobody");
	CHECK_INT(seat_open(&a), 0);
	CHECK_INT(seat_open(&b), 0);
	CHECK_INT(epd_dir_put(a.d, &h, in_ms(5000), &a.why), 0);
	CHECK_INT(epd_dir_put(b.d, &h, in_ms(5000), &b.why), 0);
	CHECK_INT(find_till(&a, EPD_HINT_PAGE, 9, 1, out, 2, 5000), 1);
	CHECK_INT(out->owner[0], 0x12);
	CHECK_INT(epd_dir_claim(a.d, w, 1, &term, in_ms(2000), &a.why),
	    EPD_EUSAGE);
	seat_close(&a);
	seat_close(&b);
}

static int
list(void *arg, const struct epd_node_info *n)
{
	char *text = arg;

	strcat(text, n->name);
	strcat(text, " ");
	return strlen(text) > 500;
}

TEST(nodes_that_live)
{
	struct seat s[4];
	char text[600];

	for (int i = 0; i < 4; i++) {
		seat_set(&s[i], i, "nodes");
		s[i].o.stays = i < 3;
		CHECK_INT(seat_open(&s[i]), 0);
	}
	for (int k = 0; k < 400; k++) {
		text[0] = '\0';
		CHECK_INT(epd_dir_nodes(s[3].d, list, text, in_ms(5000),
		    &s[3].why), 0);
		if (strlen(text) == 18)
			break;
		epd_clock_sleep_ns(5 * MS);
	}
	CHECK_STR(text, "node0 node1 node2 ");
	/* One that is closed is gone at once. */
	seat_close(&s[1]);
	text[0] = '\0';
	CHECK_INT(epd_dir_nodes(s[3].d, list, text, in_ms(5000), &s[3].why), 0);
	CHECK_STR(text, "node0 node2 ");
	seat_close(&s[0]);
	seat_close(&s[2]);
	seat_close(&s[3]);
	seat_set(&s[0], 5, "nodes");
	strcpy(s[0].c.directory_backend, "local");
	CHECK_INT(seat_open(&s[0]), 0);
	text[0] = '\0';
	CHECK_INT(epd_dir_nodes(s[0].d, list, text, in_ms(5000), &s[0].why), 0);
	CHECK_STR(text, "node5 ");
	seat_close(&s[0]);
}

static void
terms_only_grow(int way, const char *prefix)
{
	const uint8_t w[16] = { 1, 2, 3 }, other[16] = { 9 };
	struct epd_node_info n;
	uint64_t term = 0, again = 0;
	struct seat s;

	open_way(&s, way, prefix);
	CHECK_INT(seat_open(&s), 0);
	CHECK_INT(epd_dir_owner(s.d, w, &n, &term, in_ms(5000), &s.why), 0);
	CHECK_INT(epd_dir_claim(s.d, w, 5, &term, in_ms(5000), &s.why), 0);
	CHECK_INT(term, 5);
	CHECK_INT(epd_dir_claim(s.d, w, 1, &again, in_ms(5000), &s.why), 0);
	CHECK_INT(again, 5);
	CHECK_INT(epd_dir_owner(s.d, w, &n, &again, in_ms(5000), &s.why), 1);
	CHECK_INT(again, 5);
	CHECK_STR(n.name, "node1");
	CHECK_INT(epd_dir_owner(s.d, other, &n, &again, in_ms(5000), &s.why), 0);
	CHECK_INT(epd_dir_disclaim(s.d, w, in_ms(5000), &s.why), 0);
	CHECK_INT(epd_dir_disclaim(s.d, other, in_ms(5000), &s.why), 0);
	CHECK_INT(epd_dir_owner(s.d, w, &n, &again, in_ms(5000), &s.why), 0);
	CHECK_INT(epd_dir_claim(s.d, w, 1, &term, in_ms(5000), &s.why), 0);
	CHECK_INT(term, 6);
	CHECK_INT(epd_dir_claim(s.d, w, 100, &term, in_ms(5000), &s.why), 0);
	CHECK_INT(term, 100);
	seat_close(&s);
}

TEST(terms_only_grow_local) { terms_only_grow(LOCAL, "terms"); }
TEST(terms_only_grow_etcd) { terms_only_grow(STAYS, "terms-stays"); }
TEST(terms_only_grow_by_short_commands) { terms_only_grow(SHORT, "terms-short"); }

/* A short command's hint stands as long as the node that stays. */
TEST(a_short_command_tells_by_the_lease_of_its_node)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_STATE, 7);
	struct seat node, cmd, reader;

	seat_set(&node, 1, "by-node");
	seat_set(&cmd, 1, "by-node");
	seat_set(&reader, 2, "by-node");
	cmd.o.stays = reader.o.stays = 0;
	CHECK_INT(seat_open(&node), 0);
	CHECK_INT(seat_open(&reader), 0);
	epd_clock_sleep_ns(300 * MS);
	CHECK_INT(seat_open(&cmd), 0);
	CHECK_INT(epd_dir_put(cmd.d, &h, in_ms(5000), &cmd.why), 0);
	seat_close(&cmd);
	CHECK_INT(epd_dir_find(reader.d, EPD_HINT_STATE, h.key, 1, out, 2,
	    in_ms(5000), &reader.why), 1);
	seat_close(&node);
	CHECK_INT(epd_dir_find(reader.d, EPD_HINT_STATE, h.key, 1, out, 2,
	    in_ms(5000), &reader.why), 0);
	seat_close(&reader);
}

TEST(what_cannot_be_opened)
{
	struct seat s;
	char many[EPD_CONFIG_STR] = "";

	seat_set(&s, 1, "open");
	strcpy(s.c.directory_endpoints, "http://");
	CHECK_INT(epd_dir_open(&s.d, &s.o, &s.why), EPD_EUSAGE);
	strcpy(s.c.directory_endpoints, "http://a:1,ftp://b:2");
	CHECK_INT(epd_dir_open(&s.d, &s.o, &s.why), EPD_EUSAGE);
	for (int i = 0; i < 9; i++)
		strcat(many, "http://a:1,");
	strcpy(s.c.directory_endpoints, many);
	CHECK_INT(epd_dir_open(&s.d, &s.o, &s.why), EPD_EUSAGE);
	strcpy(s.c.directory_endpoints, etcd.base);
	strcpy(s.o.self.address, "udp://x:1");
	CHECK_INT(epd_dir_open(&s.d, &s.o, &s.why), EPD_EUSAGE);
	epd_dir_close(NULL);
}

static int
put_raw(const char *key, const char *value, size_t n)
{
	struct epd_buf b = { 0 };
	int rc;

	epd_buf_str(&b, "{\"key\":\"");
	epd_base64_pack(&b, epd_span_str(key));
	epd_buf_str(&b, "\",\"value\":\"");
	epd_base64_pack(&b, epd_span(value, n));
	epd_buf_str(&b, "\"}");
	rc = etcd_ask("POST", "/v3/kv/put", epd_buf_cstr(&b), NULL, 0) == 200 ?
	    0 : -1;
	epd_buf_free(&b);
	return rc;
}

/* Whatever stands under the prefix, the true one is found among it. */
TEST(values_of_others_are_passed_over_and_counted)
{
	static const char *const values[] = {
		"", "x", "{", "null", "[]", "{}", "{\"schema_version\": 1}",
		"{\"schema_version\": 2, \"kind\": \"page\"}",
		"{\"schema_version\": \"1\"}", "\0\1\2\377",
	};
	struct epd_hint out[64], h = hint_of(EPD_HINT_PAGE, 21);
	struct epd_buf good = { 0 };
	char key[EPD_ETCD_KEY], text[600];
	struct seat s;
	char *big = malloc(600000);

	for (int stays = 0; stays < 2; stays++) {
		seat_set(&s, 1, stays ? "alien1" : "alien0");
		s.o.stays = stays;
		CHECK_INT(seat_open(&s), 0);
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		CHECK_INT(find_till(&s, EPD_HINT_PAGE, 21, 1, out, 64, 5000), 1);
		for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
			snprintf(key, sizeof key, "%shints/page/%s/%032x",
			    s.c.directory_prefix, h.key, i);
			CHECK_INT(put_raw(key, values[i], strlen(values[i])), 0);
		}
		/* A true value at another's key, and keys that are none. */
		memcpy(h.owner, s.o.self.uuid, 16);
		strcpy(h.address, s.o.self.address);
		epd_buf_free(&good);
		epd_hint_format(&good, &h);
		snprintf(key, sizeof key, "%shints/page/%s/%032x",
		    s.c.directory_prefix, h.key, 99);
		CHECK_INT(put_raw(key, (char *)good.p, good.n), 0);
		snprintf(key, sizeof key, "%shints/page/%s/x",
		    s.c.directory_prefix, h.key);
		CHECK_INT(put_raw(key, (char *)good.p, good.n), 0);
		snprintf(key, sizeof key, "%shints/page/%s/",
		    s.c.directory_prefix, h.key);
		CHECK_INT(put_raw(key, (char *)good.p, good.n), 0);
		memset(text, 'k', sizeof text);
		text[sizeof text - 1] = '\0';
		memcpy(text, key, strlen(key));
		CHECK_INT(put_raw(text, "v", 1), 0);
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 1, out, 64,
		    in_ms(5000), &s.why), 1);
		CHECK(!memcmp(out->owner, s.o.self.uuid, 16));
		CHECK_INT(seat_count(&s, EPD_M_DIR_ERRORS),
		    sizeof values / sizeof *values + 4);
		CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 0);
		/* So large that it is not read: nothing is told, nobody is away. */
		memset(big, 'b', 600000);
		snprintf(key, sizeof key, "%shints/page/%s/%032x",
		    s.c.directory_prefix, h.key, 7);
		CHECK_INT(put_raw(key, big, 600000), 0);
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 1, out, 64,
		    in_ms(5000), &s.why), EPD_EPEER);
		CHECK_INT(put_raw(key, "", 0), 0);
		CHECK_INT(epd_dir_find(s.d, EPD_HINT_PAGE, h.key, 1, out, 64,
		    in_ms(5000), &s.why), 1);
		seat_close(&s);
	}
	epd_buf_free(&good);
	free(big);
}

TEST(shards_of_which_nothing_can_be_read_are_nobodys_and_not_claimed)
{
	static const char *const values[] = { "x", "{}",
		"{\"schema_version\": 1, \"term\": 0}",
		"{\"schema_version\": 1, \"term\": -3}",
		"{\"schema_version\": 1, \"term\": \"3\"}",
		"{\"schema_version\": 1, \"term\": 1.5}",
		"{\"schema_version\": 7, \"term\": 3}" };
	const uint8_t w[16] = { 0 };
	struct epd_node_info n;
	uint64_t term = 0;
	char key[128];
	struct seat s;

	seat_set(&s, 1, "unread");
	CHECK_INT(seat_open(&s), 0);
	snprintf(key, sizeof key, "/unread/terms/%032x", 0);
	for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
		CHECK_INT(put_raw(key, values[i], strlen(values[i])), 0);
		CHECK_INT(epd_dir_claim(s.d, w, 1, &term, in_ms(5000), &s.why),
		    EPD_EPEER);
		CHECK_INT(epd_dir_owner(s.d, w, &n, &term, in_ms(5000), &s.why),
		    EPD_EPEER);
	}
	CHECK(seat_count(&s, EPD_M_DIR_ERRORS) >=
	    2 * sizeof values / sizeof *values);
	strcpy(key, "{\"schema_version\": 1, \"term\": 9223372036854775807}");
	put_raw("/unread/terms/00000000000000000000000000000000", key, strlen(key));
	CHECK_INT(epd_dir_claim(s.d, w, 1, &term, in_ms(5000), &s.why),
	    EPD_ETOOBIG);
	strcpy(key, "{\"schema_version\": 1, \"term\": 41}");
	put_raw("/unread/terms/00000000000000000000000000000000", key, strlen(key));
	CHECK_INT(epd_dir_claim(s.d, w, 1, &term, in_ms(5000), &s.why), 0);
	CHECK_INT(term, 42);
	CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 0);
	seat_close(&s);
}

/* Each allocation in turn, and all from each on. */
TEST(memory_that_fails_is_said)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 17);
	const uint8_t w[16] = { 5 };
	uint64_t term;

	for (int way = 0; way < WAYS; way += 2)
		for (int on = 0; on < 2; on++)
			for (int nth = 1; nth < 70; nth++) {
				struct seat s;
				int rc;

				open_way(&s, way, "memory");
				s.bare = 1;
				scratch_starve(nth, on);
				rc = seat_open(&s);
				if (!rc) {
					rc = epd_dir_put(s.d, &h, in_ms(5000),
					    &s.why);
					if (!rc)
						rc = epd_dir_find(s.d, h.kind,
						    h.key, 0, out, 2,
						    in_ms(5000), &s.why);
					if (rc >= 0)
						rc = epd_dir_claim(s.d, w, 1,
						    &term, in_ms(5000), &s.why);
				}
				scratch_starve(0, 0);
				CHECK(rc == 0 || rc == -ENOMEM);
				if (s.d)
					CHECK_INT(epd_dir_is_away(s.d), 0);
				epd_dir_close(s.d);
			}
}

/* One that does not answer is passed over. */
TEST(the_next_endpoint_is_asked)
{
	struct epd_hint out[2], h = hint_of(EPD_HINT_PAGE, 3);
	struct seat s;

	for (int stays = 0; stays < 2; stays++) {
		seat_set(&s, 1, "next");
		s.o.stays = stays;
		snprintf(s.c.directory_endpoints, EPD_CONFIG_STR,
		    "http://127.0.0.1:%d, %s", service_free_port(), etcd.base);
		CHECK_INT(seat_open(&s), 0);
		CHECK_INT(epd_dir_put(s.d, &h, in_ms(5000), &s.why), 0);
		CHECK_INT(find_till(&s, EPD_HINT_PAGE, 3, 1, out, 2, 5000), 1);
		CHECK_INT(s.gone, 0);
		CHECK_INT(seat_count(&s, EPD_M_DIR_AWAY), 0);
		seat_close(&s);
	}
}

int
main(int argc, char **argv)
{
	return etcd_main("dir_hints", argc, argv);
}
