/*
 * tier_mooncake_real - pages in a real Mooncake Store, killed, stopped and
 * full.
 */
#include <pthread.h>

#include "tests/unit/mooncake_real.h"

static struct epd_lower *tier, *other;
static struct moon_lot lot, two;

static struct epd_mooncake_options
options(void)
{
	struct epd_mooncake_options o = moon_options(REAL_URL);

	o.admin = REAL_ADMIN;
	return o;
}

static int
open_tier(struct epd_lower **t, struct epd_mooncake_options o)
{
	*t = NULL;
	return epd_mooncake_open(t, &o, &why);
}

static void
end(void)
{
	moon_close(tier);
	moon_close(other);
	tier = other = NULL;
	moon_lot_free(&lot);
	moon_lot_free(&two);
	memset(&lot, 0, sizeof lot);
	memset(&two, 0, sizeof two);
	real_end();
}

TEST(pages_come_back_with_the_same_bits)
{
	REAL(1000, 64);
	for (int level = 0; level < 4; level += 3) {
		struct epd_mooncake_options o = options();

		o.level = level;
		moon_lot_make(&lot, 10 + (uint64_t)level, 9, 96 << 10);
		CHECK_INT(open_tier(&tier, o), 0);
		CHECK_INT(moon_has(tier, &lot, 5000), 0);
		CHECK_INT(moon_get(tier, &lot, 5000), 0);
		CHECK_INT(moon_put(tier, &lot, 5000), 0);
		CHECK_INT(moon_has(tier, &lot, 5000), 9);
		CHECK_INT(moon_get(tier, &lot, 5000), 9);
		/* Again it is there already. */
		CHECK_INT(moon_put(tier, &lot, 5000), 0);
		moon_lot_free(&lot);
		moon_close(tier);
		tier = NULL;
	}
	CHECK_INT(COUNTED(HITS), 18);
	CHECK_INT(COUNTED(MISSES), 18);
	CHECK_INT(COUNTED(CORRUPT), 0);
	CHECK_INT(COUNTED(ERRORS), 0);
	memset(&lot, 0, sizeof lot);
out:
	end();
}

TEST(another_store_reads_it_with_the_same_key_alone)
{
	struct epd_mooncake_options o;

	REAL(1000, 64);
	o = options();
	moon_lot_make(&lot, 20, 3, 64 << 10);
	o.key = epd_span("a key of 16 bytes", 17);
	CHECK_INT(open_tier(&tier, o), 0);
	memset(o.store, 1, sizeof o.store);
	CHECK_INT(open_tier(&other, o), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(other, &lot, 5000), 3);
	moon_close(other);
	o.key = epd_span("a key of 16 bytez", 17);
	CHECK_INT(open_tier(&other, o), 0);
	CHECK_INT(moon_get(other, &lot, 5000), 0);
	/* Neither is in the other's way. */
	CHECK_INT(moon_put(other, &lot, 5000), 0);
	CHECK_INT(moon_get(other, &lot, 5000), 3);
	CHECK_INT(moon_get(tier, &lot, 5000), 3);
	CHECK_INT(COUNTED(CORRUPT), 0);
	CHECK_INT(COUNTED(MISSES), 3);
out:
	end();
}

TEST(given_pages_serve_their_workflow_alone)
{
	REAL(1000, 64);
	moon_lot_make(&lot, 30, 2, 64 << 10);
	moon_lot_make(&two, 30, 2, 64 << 10);
	two.lot.workflow = "w2";
	CHECK_INT(open_tier(&tier, options()), 0);
	lot.lot.given = two.lot.given = 1;
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &two, 5000), 0);
	/* Nor anybody who computed them, nor another store's w1. */
	two.lot.given = 0;
	CHECK_INT(moon_get(tier, &two, 5000), 0);
	{
		struct epd_mooncake_options o = options();

		o.store[0] ^= 1;
		CHECK_INT(open_tier(&other, o), 0);
		CHECK_INT(moon_get(other, &lot, 5000), 0);
	}
	CHECK_INT(moon_get(tier, &lot, 5000), 2);
	CHECK_INT(COUNTED(CORRUPT), 0);
out:
	end();
}

/* Computed pages may be anybody's; given ones go. */
TEST(what_was_given_can_be_dropped)
{
	REAL(200, 64);
	moon_lot_make(&lot, 40, 3, 64 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_drop(tier, &lot, 5000), 0);
	CHECK_INT(moon_has(tier, &lot, 5000), 3);
	lot.lot.given = 1;
	CHECK_INT(moon_drop(tier, &lot, 5000), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	epd_clock_sleep_ns(300 * MS);
	CHECK_INT(moon_drop(tier, &lot, 5000), 0);
	CHECK_INT(moon_has(tier, &lot, 5000), 0);
out:
	end();
}

/*
 * A key that was only looked at can be removed, which one with a lease cannot.
 */
TEST(kind24_neither_has_nor_put_takes_a_lease)
{
	char path[EPD_MOONCAKE_KEY + 32];

	REAL(60000, 64);
	moon_lot_make(&lot, 50, 2, 64 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	for (int i = 0; i < 3; i++)
		CHECK_INT(moon_has(tier, &lot, 5000), 2);
	snprintf(path, sizeof path, "/api/remove/%s", moon_key(tier, &lot, 0));
	CHECK_INT(real_ask(REAL_URL, "DELETE", path, NULL, NULL), 200);
	CHECK_INT(moon_has(tier, &lot, 5000), 1);
	/* A read does take one. */
	CHECK_INT(moon_get(tier, &lot, 5000), 1);
	snprintf(path, sizeof path, "/api/remove/%s", moon_key(tier, &lot, 1));
	CHECK_INT(real_ask(REAL_URL, "DELETE", path, NULL, NULL), 500);
out:
	end();
}

/* Looked at all the time, the oldest pages are evicted all the same. */
TEST(kind24_what_is_looked_at_can_be_evicted)
{
	long least = 8;

	REAL(60000, 32);
	moon_lot_make(&lot, 60, 8, 256 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	for (uint64_t i = 0; i < 30 && least == 8; i++) {
		moon_lot_make(&two, 6000 + i, 8, 256 << 10);
		moon_put(tier, &two, 5000);
		moon_lot_free(&two);
		least = moon_has(tier, &lot, 5000);
	}
	memset(&two, 0, sizeof two);
	CHECK(least >= 0 && least < 8);
out:
	end();
}

static int
put_raw(const char *key, const char *value)
{
	char body[1024];

	snprintf(body, sizeof body, "{\"key\":\"%s\",\"value\":\"%s\"}", key,
	    value);
	return real_ask(REAL_URL, "PUT", "/api/put", body, NULL);
}

/*
 * It is seen by who reads it, and by who puts, and is out of the way in the
 * end.
 */
TEST(what_lies_under_a_pages_key_is_removed)
{
	REAL(1000, 64);
	moon_lot_make(&lot, 70, 3, 64 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	for (long i = 0; i < 2; i++)
		CHECK_INT(put_raw(moon_key(tier, &lot, i), i ? "no base64!" :
		    "AAAA"), 200);
	CHECK_INT(moon_get(tier, &lot, 5000), 0);
	CHECK_INT(COUNTED(CORRUPT), 2);
	CHECK_INT(COUNTED(MISSES), 3);
	/* The read's own lease is on it: too soon, and that is said. */
	CHECK_INT(moon_put(tier, &lot, 300), -EBUSY);
	CHECK(COUNTED(ERRORS) >= 2);
	CHECK(strstr(moon_said, "status=not_removed"));
	CHECK_INT(moon_put(tier, &lot, 10000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 3);
	/* Who has not read it before looks before it puts. */
	CHECK_INT(open_tier(&other, options()), 0);
	moon_lot_make(&two, 71, 2, 64 << 10);
	CHECK_INT(put_raw(moon_key(tier, &two, 1), "AAAA"), 200);
	CHECK_INT(moon_put(other, &two, 10000), 0);
	CHECK_INT(moon_get(tier, &two, 5000), 2);
out:
	end();
}

TEST(the_master_is_killed_and_comes_back)
{
	uint64_t began;

	REAL(1000, 64);
	moon_lot_make(&lot, 80, 6, 64 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	real_kill(&real.master);
	began = epd_clock_boot_ns();
	CHECK(moon_get(tier, &lot, 1000) <= 0);
	CHECK(epd_clock_boot_ns() - began < 1800 * MS);
	began = epd_clock_boot_ns();
	CHECK(moon_put(tier, &lot, 3000) < 0);
	CHECK(epd_clock_boot_ns() - began < 3800 * MS);
	for (int i = 0; i < 3; i++)
		CHECK(moon_get(tier, &lot, 5000) <= 0);
	/* By now it is passed over. */
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
	CHECK(epd_clock_boot_ns() - began < 500 * MS);
	CHECK_INT(COUNTED(HITS) + COUNTED(MISSES), 6 * 6);
	CHECK(strstr(moon_said, "status=away"));
	CHECK_INT(real_master(), 0);
	for (began = moon_in(60000); epd_clock_boot_ns() < began &&
	    moon_put(tier, &lot, 5000);)
		epd_clock_sleep_ns(200 * MS);
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
out:
	end();
}

static void *
kill_soon(void *arg)
{
	(void)arg;
	epd_clock_sleep_ns(60 * MS);
	kill(real.master, SIGKILL);
	return NULL;
}

TEST(the_master_is_killed_within_a_put)
{
	struct epd_mooncake_options o = options();
	pthread_t thread;
	uint64_t began;

	REAL(1000, 64);
	o.metrics = moon_metrics;
	o.page_ns = 1000 * MS;
	moon_lot_make(&lot, 85, 32, 1 << 20);
	CHECK_INT(open_tier(&tier, o), 0);
	began = epd_clock_boot_ns();
	pthread_create(&thread, NULL, kill_soon, NULL);
	CHECK(moon_put(tier, &lot, 8000) < 0);
	pthread_join(thread, NULL);
	CHECK(epd_clock_boot_ns() - began < 9000 * MS);
	real_kill(&real.master);
	CHECK_INT(real_master(), 0);
	for (began = moon_in(60000); epd_clock_boot_ns() < began &&
	    moon_put(tier, &lot, 8000);)
		epd_clock_sleep_ns(200 * MS);
	CHECK_INT(moon_get(tier, &lot, 8000), 32);
out:
	end();
}

TEST(the_rest_service_is_stopped)
{
	uint64_t began;

	REAL(1000, 64);
	moon_lot_make(&lot, 90, 6, 64 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 5000), 0);
	kill(real.rest, SIGSTOP);
	began = epd_clock_boot_ns();
	CHECK_INT(moon_get(tier, &lot, 700), EPD_ETIMEOUT);
	CHECK_INT(moon_put(tier, &lot, 700), EPD_ETIMEOUT);
	CHECK(epd_clock_boot_ns() - began < 2400 * MS);
	/* It answers for what it has all the same. */
	CHECK_INT(moon_has(tier, &lot, 5000), 6);
	kill(real.rest, SIGCONT);
	CHECK_INT(moon_get(tier, &lot, 5000), 6);
	real_kill(&real.rest);
	CHECK(moon_get(tier, &lot, 5000) < 0);
	CHECK_INT(moon_get(tier, &lot, 5000), EPD_EPEER);
out:
	end();
}

/* More than it holds: what is acknowledged is there, what is not is said. */
TEST(kind19_a_full_store)
{
	long full = 0, kept = 0;

	REAL(60000, 32);
	CHECK_INT(open_tier(&tier, options()), 0);
	for (uint64_t i = 0; i < 16; i++) {
		int rc;

		moon_lot_make(&lot, 100 + i, 4, 1 << 20);
		rc = moon_put(tier, &lot, 20000);
		if (rc) {
			CHECK_INT(rc, -ENOSPC);
			full++;
		} else {
			/* Its lease keeps it there: room runs out. */
			CHECK_INT(moon_get(tier, &lot, 20000), 4);
			kept++;
		}
		moon_lot_free(&lot);
	}
	memset(&lot, 0, sizeof lot);
	printf("# %ld lots kept, %ld refused\n", kept, full);
	CHECK(kept > 2);
	CHECK(full > 0);
out:
	end();
}

struct reader {
	pthread_t thread;
	struct moon_lot lot;
	long n;
};

static void *
read_all(void *arg)
{
	struct reader *r = arg;
	struct epd_mooncake_options o = options();
	struct epd_lower *t = NULL;

	o.log.fn = NULL;
	if (open_tier(&t, o))
		return NULL;
	for (int i = 0; i < 5; i++) {
		uint64_t end_ns = moon_in(20000);
		long n = epd_lower_ops(t)->get(t, &r->lot.lot, r->lot.out,
		    r->lot.had, end_ns, NULL);

		for (long k = 0; k < r->lot.lot.n; k++)
			r->n += r->lot.had[k] && !memcmp(r->lot.out[k],
			    r->lot.page[k], r->lot.lot.shape.bytes);
		if (n != r->lot.lot.n)
			break;
	}
	moon_close(t);
	return NULL;
}

TEST(eight_read_at_once)
{
	static struct reader r[8];

	REAL(5000, 64);
	moon_lot_make(&lot, 110, 8, 128 << 10);
	CHECK_INT(open_tier(&tier, options()), 0);
	CHECK_INT(moon_put(tier, &lot, 10000), 0);
	for (int i = 0; i < 8; i++) {
		moon_lot_make(&r[i].lot, 110, 8, 128 << 10);
		r[i].n = 0;
		pthread_create(&r[i].thread, NULL, read_all, &r[i]);
	}
	for (int i = 0; i < 8; i++) {
		pthread_join(r[i].thread, NULL);
		moon_lot_free(&r[i].lot);
	}
	for (int i = 0; i < 8; i++)
		CHECK_INT(r[i].n, 40);
	CHECK_INT(COUNTED(HITS), 8 * 40);
	CHECK_INT(COUNTED(MISSES), 0);
out:
	end();
}

int
main(int argc, char **argv)
{
	real_find();
	return check_main(argc, argv);
}
