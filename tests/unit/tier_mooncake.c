/* tier_mooncake - pages in a store that is away, slow, full, or lies. */
#include <pthread.h>

#include "base/alloc.h"
#include "base/json.h"
#include "base/stop.h"
#include "tests/unit/mooncake.h"
#include "tests/unit/service.h"

enum { OBJECTS = 128 };
enum lie {
	HONEST, HTML, EMPTY, CUT, ANOTHER, BITS, HUGE_ONE, ENDLESS, STATUS_500,
	MOVED, SHUT, RAW, LIES_OF_OBJECTS,
	SILENT = LIES_OF_OBJECTS, FORGETS, TAKES_NONE, EXIST_NO_JSON
};
static const char *const lies[] = { "honest", "html", "empty", "cut",
    "another's", "bits", "huge", "endless", "500", "moved", "shut", "raw" };

/* What the store in this process has, and how it answers. */
static struct {
	struct service s;
	pthread_mutex_t lock;
	struct {
		char key[EPD_MOONCAKE_KEY], *value;
		size_t n;
	} object[OBJECTS];
	_Atomic int lie, leased, slow_ms;	/* leased: nothing is removed */
	_Atomic int now, most, puts, gets, exists;
} store = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct epd_lower *tier;
static struct moon_lot lot;
static char url[64];

static int
find(const char *key)
{
	for (int i = 0; i < OBJECTS; i++)
		if (store.object[i].value && !strcmp(store.object[i].key, key))
			return i;
	return -1;
}

static int
set(const char *key, const char *value, size_t n)
{
	int i = find(key);

	for (int k = 0; i < 0 && k < OBJECTS; k++)
		if (!store.object[k].value)
			i = k;
	if (i < 0)
		return -1;
	free(store.object[i].value);
	store.object[i].value = malloc(n + 1);
	memcpy(store.object[i].value, value, n);
	store.object[i].n = n;
	snprintf(store.object[i].key, sizeof store.object[i].key, "%s", key);
	return 0;
}

/* What a test puts there itself. */
static void
lay(const char *key, const char *value, size_t n)
{
	pthread_mutex_lock(&store.lock);
	set(key, value, n);
	pthread_mutex_unlock(&store.lock);
}

static int
say(int fd, int status, const char *text)
{
	return service_reply(fd, status, text, strlen(text));
}

static int
lie_of(int fd, int i)
{
	const char *v = store.object[i].value;
	const size_t n = store.object[i].n;
	const int lie = store.lie;
	struct epd_buf raw = { 0 };
	char *copy;
	int rc;

	switch (lie) {
	case HTML: return say(fd, 200, "<html><body>Sign in</body></html>");
	case EMPTY: return say(fd, 200, "");
	case CUT: return service_reply(fd, 200, v, n / 2 / 4 * 4);
	case ANOTHER:
		i = i ? 0 : 1;
		return service_reply(fd, 200, store.object[i].value,
		    store.object[i].n);
	case BITS:
		copy = malloc(n);
		memcpy(copy, v, n);
		copy[n - n / 3] = copy[n - n / 3] == 'A' ? 'B' : 'A';
		rc = service_reply(fd, 200, copy, n);
		free(copy);
		return rc;
	case HUGE_ONE:
		service_say(fd, "HTTP/1.1 200 OK\r\n"
		    "Content-Length: 1099511627776\r\n\r\n");
		/* fallthrough */
	case ENDLESS:
		if (lie == ENDLESS)
			service_say(fd, "HTTP/1.1 200 OK\r\n\r\n");
		while (!service_put(fd, v, n))
			;
		return -1;
	case STATUS_500: return say(fd, 500, "{\"error\": \"no\"}");
	case MOVED: return service_say(fd, "HTTP/1.1 302 Found\r\nLocation: "
	    "http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n");
	case SHUT: return -1;
	case RAW:
		epd_base64_unpack(&raw, epd_span(v, n));
		rc = service_reply(fd, 200, raw.p, raw.n);
		epd_buf_free(&raw);
		return rc;
	default: return service_reply(fd, 200, v, n);
	}
}

static int
take_put(int fd, const struct service_ask *a)
{
	struct epd_json *j = NULL;
	struct epd_span value;
	int rc = 0;

	store.puts++;
	if (store.lie == TAKES_NONE)
		return say(fd, 500, "{\"error\": \"PUT operation failed\"}");
	if (epd_json_parse(&j, epd_span(a->body, a->n), "a put", NULL))
		return say(fd, 500, "{\"error\": \"no JSON\"}");
	value = epd_json_bytes(epd_json_get(j, "value"));
	pthread_mutex_lock(&store.lock);
	/* As the real one: what is there stays, and nobody is told. */
	if (store.lie != FORGETS && find(epd_json_str(epd_json_get(j, "key"),
	    "")) < 0)
		rc = set(epd_json_str(epd_json_get(j, "key"), ""), value.p,
		    value.n);
	pthread_mutex_unlock(&store.lock);
	epd_json_free(j);
	return say(fd, rc ? 500 : 200, "{\"status\": \"success\"}");
}

static int
take(int fd, const struct service_ask *a)
{
	const char *key = strrchr(a->path, '/') + 1;
	int i, rc;

	if (!strcmp(a->method, "PUT"))
		return take_put(fd, a);
	pthread_mutex_lock(&store.lock);
	i = find(key);
	if (!strncmp(a->path, "/api/exist/", 11)) {
		store.exists++;
		rc = say(fd, 200, store.lie == EXIST_NO_JSON ? "yes" : i < 0 ?
		    "{\"exists\": false}" : "{\"exists\": true}");
	} else if (!strcmp(a->method, "DELETE")) {
		const int can = i >= 0 && !store.leased;

		if (can) {
			free(store.object[i].value);
			store.object[i].value = NULL;
		}
		rc = say(fd, can ? 200 : 500, "{}");
	} else {
		store.gets++;
		rc = i < 0 ? say(fd, 404, "{\"error\": \"Key not found\"}") :
		    lie_of(fd, i);
	}
	pthread_mutex_unlock(&store.lock);
	return rc;
}

static int
answer(struct service *s, int fd, const struct service_ask *a)
{
	const int now = ++store.now;
	int rc;

	if (now > store.most)
		store.most = now;
	if (store.lie == SILENT)
		rc = service_idle(s, fd, 20000);
	else
		rc = (store.slow_ms && service_idle(s, fd, store.slow_ms)) ||
		    take(fd, a);
	store.now--;
	return rc;
}

static struct epd_mooncake_options
options(void)
{
	return moon_options(url);
}

static int
open_tier(const struct epd_mooncake_options *o)
{
	return epd_mooncake_open(&tier, o, &why);
}

/* A store, and pages of `bytes` each for it. */
static int
begin(long n, size_t bytes)
{
	struct epd_mooncake_options o;

	moon_begin();
	store.lie = HONEST;
	store.leased = store.slow_ms = 0;
	store.now = store.most = store.puts = store.gets = store.exists = 0;
	if (!service_begin(&store.s, 0, answer, NULL))
		return -1;
	snprintf(url, sizeof url, "http://127.0.0.1:%d/", store.s.port);
	moon_lot_make(&lot, 7, n, bytes);
	o = options();
	return open_tier(&o);
}

static void
end(void)
{
	moon_close(tier);
	tier = NULL;
	moon_lot_free(&lot);
	memset(&lot, 0, sizeof lot);
	service_end(&store.s);
	for (int i = 0; i < OBJECTS; i++) {
		free(store.object[i].value);
		store.object[i].value = NULL;
	}
	moon_end();
}

TEST(keys_tell_pages_and_whose_they_are)
{
	struct epd_mooncake_options o = moon_options("http://127.0.0.1:1");
	struct epd_page_entry e = { .sum = 0x1234 };
	struct epd_lot l = { .workflow = "w.1_x-y", .entry = &e, .n = 1 };
	char key[EPD_MOONCAKE_KEY];

	memset(e.name.b, 0xab, EPD_NAME);
	CHECK_INT(open_tier(&o), 0);
	epd_mooncake_key((struct epd_mooncake *)(void *)tier, &l, 0, key);
	CHECK_STR(key, "epd1-abababababababababababababababababababababababab"
	    "abababababababab-0000000000001234");
	moon_close(tier);
	o.key = epd_span("sixteen bytes or", 16);
	l.given = 1;
	CHECK_INT(open_tier(&o), 0);
	epd_mooncake_key((struct epd_mooncake *)(void *)tier, &l, 0, key);
	CHECK(!strncmp(key + 86, "-k", 2));
	CHECK(!strncmp(key + 86 + 18, "-5a5a5a5a5a5a5a5a", 17));
	CHECK(!strcmp(key + 86 + 18 + 33, "-w.1_x-y"));
	o.url = o.master = "";
	CHECK_INT(epd_mooncake_open(NULL, &o, &why), EPD_EUSAGE);
	o.url = "http://127.0.0.1:1";
	o.most = 65;
	CHECK_INT(epd_mooncake_open(NULL, &o, &why), EPD_EUSAGE);
out:
	moon_close(tier);
	tier = NULL;
}

TEST(opening_asks_nobody)
{
	CHECK(!begin(1, 4096));
	CHECK_INT(store.s.asked, 0);
	CHECK_INT(store.s.guests, 0);
	CHECK_INT(moon_has(tier, &lot, 1000), EPD_EUNSUPPORTED);
	CHECK_INT(store.s.asked, 0);
out:
	end();
}

TEST(what_was_put_comes_back_and_is_not_sent_twice)
{
	CHECK(!begin(20, 8192));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(store.puts, 20);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(store.puts, 20);
	CHECK_INT(moon_get(tier, &lot, 5000), 20);
	/* Of pages that nobody asks for nothing is read or counted. */
	store.gets = 0;
	memset(lot.had, 0, sizeof lot.had);
	for (int i = 0; i < 20; i += 2) {
		free(lot.out[i]);
		lot.out[i] = NULL;
		lot.had[i] = i % 4 == 0;
	}
	CHECK_INT(epd_lower_ops(tier)->get(tier, &lot.lot, lot.out, lot.had,
	    moon_in(5000), &why), 10);
	CHECK_INT(store.gets, 10);
	/* What is said of them stays as it was. */
	for (int i = 0; i < 20; i++)
		CHECK_INT(lot.had[i], i % 2 || i % 4 == 0);
	CHECK_INT(COUNTED(HITS), 30);
	CHECK_INT(COUNTED(MISSES), 0);
	CHECK(strstr(moon_said, "way=rest"));
	for (int i = 0; i < 20; i++)
		lot.out[i] = realloc(lot.out[i], 8192);
out:
	end();
}

TEST(no_more_are_under_way_than_there_may_be)
{
	struct epd_mooncake_options o;

	CHECK(!begin(24, 4096));
	moon_close(tier);
	o = options();
	o.most = 6;
	CHECK_INT(open_tier(&o), 0);
	store.slow_ms = 20;
	CHECK_INT(moon_put(tier, &lot, 20000), 0);
	CHECK_INT(moon_get(tier, &lot, 20000), 24);
	CHECK_INT(store.most, 6);
out:
	end();
}

/* Whatever lies there is a miss, and told from one. */
TEST(a_lie_is_a_miss)
{
	CHECK(!begin(4, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	for (int lie = HTML; lie < LIES_OF_OBJECTS; lie++) {
		const int fails = lie == STATUS_500 || lie == MOVED ||
		    lie == SHUT;
		const long hits = COUNTED(HITS), misses = COUNTED(MISSES),
		    corrupt = COUNTED(CORRUPT), errors = COUNTED(ERRORS);
		struct epd_mooncake_options o = options();
		const uint64_t began = epd_clock_boot_ns();
		long n;

		moon_close(tier);
		CHECK_INT(open_tier(&o), 0);
		store.lie = lie;
		n = moon_get(tier, &lot, 5000);
		printf("# %s: %ld (%s)\n", lies[lie], n, why.text);
		CHECK_INT(n, lie == RAW ? 4 : fails ? EPD_EPEER : 0);
		CHECK_INT(COUNTED(HITS) - hits, lie == RAW ? 4 : 0);
		CHECK_INT(COUNTED(MISSES) - misses, lie == RAW ? 0 : 4);
		CHECK_INT(COUNTED(CORRUPT) - corrupt, lie == RAW || fails ?
		    0 : 4);
		CHECK(fails ? COUNTED(ERRORS) - errors >= 3 :
		    COUNTED(ERRORS) == errors);
		CHECK(epd_clock_boot_ns() - began < 4000 * MS);
	}
	CHECK(strstr(moon_said, "status=corrupt"));
out:
	end();
}

/*
 * Where a page was seen to be something else, put does not take it for the
 * page.
 */
TEST(something_else_under_a_key_goes_first)
{
	CHECK(!begin(3, 4096));
	lay(moon_key(tier, &lot, 1), "AAAA", 4);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(COUNTED(CORRUPT), 1);
	CHECK_INT(moon_get(tier, &lot, 5000), 3);
	/* A lease keeps it: said, and in time. */
	lay(moon_key(tier, &lot, 1), "AAAA", 4);
	store.leased = 1;
	CHECK_INT(moon_put(tier, &lot, 500), -EBUSY);
	CHECK(COUNTED(ERRORS) > 0);
	store.leased = 0;
	store.gets = 0;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	/* It was known: no read began another lease. */
	CHECK_INT(store.gets, 2);
	CHECK_INT(moon_get(tier, &lot, 5000), 3);
out:
	end();
}

/* Who can write to the store, but has not the key, makes no page of ours. */
TEST(an_object_that_is_not_sealed_by_the_key_is_no_page)
{
	struct epd_mooncake_options o;
	char *text = NULL;
	size_t n;

	CHECK(!begin(1, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	pthread_mutex_lock(&store.lock);
	n = store.object[find(moon_key(tier, &lot, 0))].n;
	text = malloc(n);
	memcpy(text, store.object[find(moon_key(tier, &lot, 0))].value, n);
	pthread_mutex_unlock(&store.lock);
	moon_close(tier);
	o = options();
	o.key = epd_span("sixteen bytes or", 16);
	CHECK_INT(open_tier(&o), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
	CHECK_INT(COUNTED(CORRUPT), 0);
	lay(moon_key(tier, &lot, 0), text, n);
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
	CHECK_INT(COUNTED(CORRUPT), 1);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 1);
out:
	free(text);
	end();
}

TEST(nothing_is_acknowledged_that_is_not_there)
{
	static const enum lie how[] = { FORGETS, TAKES_NONE, EXIST_NO_JSON };

	CHECK(!begin(5, 4096));
	for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
		store.lie = how[i];
		CHECK_INT(moon_put(tier, &lot, 5000), -ENOSPC);
	}
	store.lie = HONEST;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	/* A full store is not sent all the rest. */
	CHECK(store.puts < 5 + 4 + 5 + 5 + 1);
out:
	end();
}

TEST(a_store_that_says_nothing_costs_its_deadline_and_then_none)
{
	struct epd_mooncake_options o;
	uint64_t began;

	CHECK(!begin(12, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	moon_close(tier);
	o = options();
	o.page_ns = 300 * MS;
	CHECK_INT(open_tier(&o), 0);
	store.lie = SILENT;
	/* The call's own end is nobody's failure. */
	for (int i = 0; i < 4; i++) {
		began = epd_clock_boot_ns();
		CHECK_INT(moon_get(tier, &lot, 100), EPD_ETIMEOUT);
		CHECK(epd_clock_boot_ns() - began < 280 * MS);
	}
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_ETIMEOUT);
	CHECK(epd_clock_boot_ns() - began < 600 * MS);
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK_INT(moon_put(tier, &lot, 5000), EPD_EPEER);
	CHECK(epd_clock_boot_ns() - began < 200 * MS);
	CHECK_INT(COUNTED(MISSES), 6 * 12);
	/* It is asked again, and is well. */
	store.lie = HONEST;
	began = moon_in(3000);
	while (moon_get(tier, &lot, 5000) != 12 && epd_clock_boot_ns() < began)
		epd_clock_sleep_ns(50 * MS);
	CHECK_INT(moon_get(tier, &lot, 5000), 12);
out:
	end();
}

TEST(a_service_that_is_not_there)
{
	struct epd_mooncake_options o;
	uint64_t began;

	CHECK(!begin(8, 4096));
	moon_close(tier);
	o = options();
	snprintf(url, sizeof url, "http://127.0.0.1:%d", service_free_port());
	o.url = url;
	CHECK_INT(open_tier(&o), 0);
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK(epd_clock_boot_ns() - began < 500 * MS);
	CHECK_INT(COUNTED(MISSES), 16);
	CHECK(COUNTED(ERRORS) >= 3 && COUNTED(ERRORS) <= 4);
	moon_close(tier);
	o.url = "ftp://127.0.0.1";
	CHECK_INT(open_tier(&o), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EUSAGE);
out:
	end();
}

static _Atomic int master_lie;

static int
answer_master(struct service *s, int fd, const struct service_ask *a)
{
	static const char *const said[] = { "<html>", "{}", "[]",
	    "{\"success\":true,\"data\":[1]}", "{\"data\":{}}",
	    "{\"data\":{\"x\":{\"ok\":true}}}", "null", "" };
	const int i = master_lie;

	(void)s;
	(void)a;
	return say(fd, i == 8 ? 500 : 200, said[i % 8]);
}

TEST(a_master_that_lies)
{
	struct epd_mooncake_options o;
	struct service master;
	char at[64];

	memset(&master, 0, sizeof master);
	CHECK(!begin(5, 4096));
	CHECK(service_begin(&master, 0, answer_master, NULL));
	snprintf(at, sizeof at, "http://127.0.0.1:%d", master.port);
	moon_close(tier);
	o = options();
	o.admin = at;
	CHECK_INT(open_tier(&o), 0);
	for (int i = 0; i < 9; i++) {
		const int is_answer = i == 4 || i == 5;

		master_lie = i;
		CHECK_INT(moon_has(tier, &lot, 1000), is_answer ? 0 :
		    EPD_EPEER);
		CHECK_INT(moon_put(tier, &lot, 1000), is_answer ? -ENOSPC :
		    EPD_EPEER);
	}
out:
	if (master.port)
		service_end(&master);
	end();
}

static int
is_over(void *arg)
{
	return epd_clock_boot_ns() >= *(uint64_t *)arg;
}

TEST(a_call_can_be_called_off)
{
	uint64_t at;

	CHECK(!begin(8, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	store.lie = SILENT;
	at = moon_in(100);
	epd_stop_heed(is_over, &at);
	CHECK_INT(moon_get(tier, &lot, 5000), -ECANCELED);
	CHECK(epd_clock_boot_ns() < at + 1000 * MS);
	CHECK_INT(moon_put(tier, &lot, 5000), -ECANCELED);
	epd_stop_heed(NULL, NULL);
	store.lie = HONEST;
	CHECK_INT(moon_get(tier, &lot, 5000), 8);
out:
	epd_stop_heed(NULL, NULL);
	end();
}

/* kind16: what could not be read for want of memory is no hit. */
TEST(kind16_memory_fails_at_each_place)
{
	int at, rc = -ENOMEM;
	long n = 0;

	CHECK(!begin(6, 4096));
	for (at = 1; at < 300 && rc; at++) {
		scratch_starve(at, 0);
		rc = moon_put(tier, &lot, 5000);
		scratch_starve(0, 0);
		CHECK(rc == 0 || rc == -ENOMEM);
	}
	CHECK_INT(rc, 0);
	for (at = 1; at < 300 && n != 6; at++) {
		scratch_starve(at, 0);
		n = moon_get(tier, &lot, 5000);
		scratch_starve(0, 0);
		CHECK(n == -ENOMEM || n >= 0);
	}
	CHECK_INT(n, 6);
	CHECK_INT(COUNTED(CORRUPT), 0);
out:
	scratch_starve(0, 0);
	end();
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
