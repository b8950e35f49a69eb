/*
 * tier_mooncake_library - pages in a store that its C library reaches: a
 * stand-in.
 */
#include <dlfcn.h>

#include "tests/mooncake_double.h"
#include "tests/unit/mooncake.h"

static struct {
	struct mooncake_double *(*of)(void);
	void (*hang)(int on);
	int (*set)(const char *key, const void *p, size_t n);
	size_t (*get)(const char *key, void *p, size_t room);
	void (*clear)(void);
	char path[4096];
} library;

static struct epd_lower *tier;
static struct moon_lot lot;

/* It lies beside the folder this program is in. */
static int
load(void)
{
	const ssize_t n = readlink("/proc/self/exe", library.path,
	    sizeof library.path - 32);
	void *so;

	for (int i = 0; n > 0 && i < 2 && strrchr(library.path, '/'); i++)
		*strrchr(library.path, '/') = '\0';
	strcat(library.path, "/mooncake-double.so");
	so = dlopen(library.path, RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return -1;
	library.of = (struct mooncake_double *(*)(void))dlsym(so, "double_of");
	library.hang = (void (*)(int))dlsym(so, "double_hang");
	library.set = (int (*)(const char *, const void *, size_t))dlsym(so,
	    "double_set");
	library.get = (size_t (*)(const char *, void *, size_t))dlsym(so,
	    "double_get");
	library.clear = (void (*)(void))dlsym(so, "double_clear");
	return library.of && library.hang && library.set && library.get &&
	    library.clear ? 0 : -1;
}

static struct epd_mooncake_options
options(void)
{
	struct epd_mooncake_options o = moon_options(NULL);

	o.master = "127.0.0.1:50051";
	o.library = library.path;
	return o;
}

static int
open_tier(const struct epd_mooncake_options *o)
{
	moon_close(tier);
	tier = NULL;
	return epd_mooncake_open(&tier, o, &why);
}

static int
begin(long n, size_t bytes)
{
	struct epd_mooncake_options o = options();

	moon_begin();
	o.metrics = moon_metrics;
	library.clear();
	moon_lot_make(&lot, 3, n, bytes);
	return open_tier(&o);
}

static void
end(void)
{
	moon_close(tier);
	tier = NULL;
	moon_lot_free(&lot);
	memset(&lot, 0, sizeof lot);
	moon_end();
}

TEST(pages_go_in_batches_from_registered_memory)
{
	CHECK(!begin(10, 8192));
	CHECK_INT(library.of()->calls, 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(library.of()->registered, 1);
	CHECK_INT(library.of()->handles, 1);
	CHECK_INT(moon_get(tier, &lot, 5000), 10);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK(strstr(moon_said, "way=library"));
	CHECK_INT(COUNTED(HITS), 10);
	CHECK_INT(COUNTED(MISSES), 10);
	CHECK_INT(COUNTED(ERRORS), 0);
	CHECK_INT(moon_has(tier, &lot, 1000), EPD_EUNSUPPORTED);
	/* Larger pages want a larger room. */
	moon_lot_free(&lot);
	moon_lot_make(&lot, 4, 3, 64 << 10);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 3);
	CHECK_INT(library.of()->registered, 1);
	moon_close(tier);
	tier = NULL;
	CHECK_INT(library.of()->registered, 0);
	CHECK_INT(library.of()->handles, 0);
out:
	end();
}

TEST(what_rest_has_put_is_read)
{
	struct epd_buf text = { 0 };
	char object[8192];
	size_t n;

	CHECK(!begin(1, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	n = library.get(moon_key(tier, &lot, 0), object, sizeof object);
	CHECK(n > EPD_OBJECT_HEAD);
	epd_base64_pack(&text, epd_span(object, n));
	library.set(moon_key(tier, &lot, 0), text.p, text.n);
	CHECK_INT(moon_get(tier, &lot, 5000), 1);
out:
	epd_buf_free(&text);
	end();
}

TEST(pins_are_told_whatever_form_they_have)
{
	static const struct { int form, pin, soft, hard; } seen[] = {
		{ DOUBLE_FIRST, EPD_MOONCAKE_PIN_NONE, 0, 0 },
		{ DOUBLE_THEN, EPD_MOONCAKE_PIN_NONE, 0, 0 },
		{ DOUBLE_NOW, EPD_MOONCAKE_PIN_NONE, 0, 0 },
		{ DOUBLE_FIRST, EPD_MOONCAKE_PIN_SOFT, 1, 0 },
		{ DOUBLE_THEN, EPD_MOONCAKE_PIN_SOFT, 1, 0 },
		{ DOUBLE_NOW, EPD_MOONCAKE_PIN_SOFT, 1, 0 },
		{ DOUBLE_FIRST, EPD_MOONCAKE_PIN_HARD, 1, 0 },
		{ DOUBLE_THEN, EPD_MOONCAKE_PIN_HARD, 1, 1 },
		{ DOUBLE_NOW, EPD_MOONCAKE_PIN_HARD, 0, 1 },
	};

	CHECK(!begin(2, 4096));
	for (size_t i = 0; i < sizeof seen / sizeof *seen; i++) {
		struct epd_mooncake_options o = options();

		o.pin = (enum epd_mooncake_pin)seen[i].pin;
		CHECK_INT(open_tier(&o), 0);
		library.clear();
		library.of()->form = seen[i].form;
		CHECK_INT(moon_put(tier, &lot, 5000), 0);
		CHECK_INT(library.of()->soft, seen[i].soft);
		CHECK_INT(library.of()->hard, seen[i].hard);
		/* What was put to find out is not left there. */
		CHECK_INT(library.get("epd1-pin-5a5a5a5a5a5a5a5a"
		    "5a5a5a5a5a5a5a5a", (char[8]){ 0 }, 8), 0);
	}
out:
	end();
}

TEST(without_it_rest_is_asked)
{
	static const char *const no[] = { "/nonexistent/library.so",
	    "libc.so.6", NULL };

	CHECK(!begin(1, 4096));
	for (int i = 0; i < 3; i++) {
		struct epd_mooncake_options o = options();

		o.library = no[i] ? no[i] : library.path;
		library.of()->setup_fails = !no[i];
		CHECK_INT(open_tier(&o), 0);
		moon_said[0] = '\0';
		CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
		/* Of a master that is away it is not known yet. */
		CHECK(!strstr(moon_said, "way=rest") == !no[i]);
		o.url = "http://127.0.0.1:9";
		CHECK_INT(open_tier(&o), 0);
		moon_said[0] = '\0';
		CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
		CHECK(strstr(moon_said, "way=rest"));
		CHECK(strstr(why.text, "127.0.0.1:9"));
		CHECK_INT(library.of()->handles, 0);
	}
out:
	end();
}

TEST(something_else_under_a_key_goes_whoever_reads_it)
{
	CHECK(!begin(5, 4096));
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	library.set(moon_key(tier, &lot, 1), "AAAA", 4);
	library.set(moon_key(tier, &lot, 2), lot.page[2], 4096);
	library.set(moon_key(tier, &lot, 3), "", 0);
	library.of()->leased = 1;
	CHECK_INT(moon_get(tier, &lot, 5000), 2);
	CHECK_INT(COUNTED(CORRUPT), 3);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 5);
	/* Larger than any object can be. */
	{
		char *big = calloc(1, 1 << 20);

		library.set(moon_key(tier, &lot, 0), big, 1 << 20);
		free(big);
	}
	CHECK_INT(moon_get(tier, &lot, 5000), 4);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 5);
out:
	end();
}

/* Given in this workflow: whoever asks has it, and is told; another's is not there. */
TEST(what_was_given_is_told_here_too)
{
	CHECK(!begin(6, 4096));
	lot.lot.given = 1;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	for (int asks = 0; asks < 2; asks++) {
		lot.lot.given = asks;
		CHECK_INT(moon_get(tier, &lot, 5000), 6);
		CHECK_INT(lot.had[0], EPD_HAD_GIVEN);
		CHECK_INT(lot.had[5], EPD_HAD_GIVEN);
	}
	CHECK_INT(COUNTED(CORRUPT), 0);
	lot.lot.workflow = "another";
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
	lot.lot.workflow = "w1";
	lot.lot.given = 0;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	lot.lot.given = 1;
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	lot.lot.workflow = "another";
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	CHECK_INT(lot.had[5], EPD_HAD);
out:
	end();
}

TEST(what_was_given_can_be_dropped_here_too)
{
	CHECK(!begin(6, 4096));
	lot.lot.given = 1;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	library.of()->leased = 1;
	CHECK_INT(moon_drop(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	library.of()->leased = 0;
	CHECK_INT(moon_drop(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
out:
	end();
}

TEST(failures_are_what_they_are)
{
	struct epd_mooncake_options o = options();

	CHECK(!begin(6, 4096));
	o.metrics = moon_metrics;
	library.of()->puts_fail = -200;
	CHECK_INT(moon_put(tier, &lot, 5000), -ENOSPC);
	library.of()->puts_fail = -900;
	CHECK_INT(moon_put(tier, &lot, 5000), EPD_EPEER);
	library.of()->puts_fail = 0;
	library.of()->forgets = 1;
	CHECK_INT(moon_put(tier, &lot, 5000), -ENOSPC);
	library.of()->forgets = 0;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	library.of()->gets_fail = -900;
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK(COUNTED(ERRORS) >= 3);
	CHECK_INT(COUNTED(MISSES), 6);
	library.of()->gets_fail = 0;
	CHECK_INT(open_tier(&o), 0);
	library.of()->registering_fails = 1;
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	library.of()->registering_fails = 0;
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
out:
	end();
}

/* No REST service is set, and the master is away for a while. */
TEST(a_master_that_comes_later_is_reached)
{
	struct epd_mooncake_options o = options();

	CHECK(!begin(6, 4096));
	o.metrics = moon_metrics;
	CHECK_INT(open_tier(&o), 0);
	library.of()->setup_fails = 1;
	CHECK_INT(moon_put(tier, &lot, 5000), EPD_EPEER);
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	library.of()->setup_fails = 0;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	CHECK_INT(COUNTED(ERRORS), 2);
out:
	end();
}

/* Its calls have no deadline; ours have. */
TEST(a_call_that_does_not_come_back_is_left)
{
	struct epd_mooncake_options o = options();
	uint64_t began;

	CHECK(!begin(8, 4096));
	o.metrics = moon_metrics;
	o.page_ns = 200 * MS;
	CHECK_INT(open_tier(&o), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	library.hang(1);
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_ETIMEOUT);
	CHECK(epd_clock_boot_ns() - began < 900 * MS);
	for (int i = 0; i < 4; i++)
		CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK(epd_clock_boot_ns() - began < 1200 * MS);
	/* It comes back: what it brings is nobody's, and it is asked again. */
	library.hang(0);
	began = moon_in(3000);
	while (moon_get(tier, &lot, 5000) != 8 && epd_clock_boot_ns() < began)
		epd_clock_sleep_ns(20 * MS);
	CHECK_INT(moon_get(tier, &lot, 5000), 8);
	/* Nor does closing wait for ever; the thread has all it needs. */
	library.hang(1);
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_ETIMEOUT);
	began = epd_clock_boot_ns();
	moon_close(tier);
	tier = NULL;
	CHECK(epd_clock_boot_ns() - began < 2500 * MS);
	library.hang(0);
	for (int i = 0; i < 100 && library.of()->handles; i++)
		epd_clock_sleep_ns(20 * MS);
	CHECK_INT(library.of()->handles, 0);
	epd_clock_sleep_ns(50 * MS);
out:
	library.hang(0);
	end();
}

TEST(kind16_memory_fails_at_each_place)
{
	struct epd_mooncake_options o = options();
	int at, rc = -ENOMEM;
	long n = 0;

	CHECK(!begin(6, 4096));
	o.metrics = moon_metrics;
	for (at = 1; at < 300 && rc; at++) {
		moon_close(tier);
		tier = NULL;
		scratch_starve(at, 0);
		rc = epd_mooncake_open(&tier, &o, &why);
		rc = rc ? rc : moon_put(tier, &lot, 5000);
		scratch_starve(0, 0);
		CHECK(!rc || rc == -ENOMEM);
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
	if (load()) {
		fprintf(stderr, "%s cannot be loaded\n", library.path);
		return 1;
	}
	return check_main(argc, argv);
}
