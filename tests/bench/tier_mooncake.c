/*
 * tier_mooncake.c - pages to a Mooncake Store and back.
 *
 *	tier_mooncake URL ADMIN PAGES BYTES AT_ONCE
 *
 * New pages each time; put and get are GB/s of their bytes.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/hash.h"
#include "tests/bench/measure.h"
#include "tier/mooncake.h"

enum { PAGES = 1024 };
#define MINUTE UINT64_C(60000000000)

static struct epd_page_entry entry[PAGES];
static void *page[PAGES], *out[PAGES];
static uint8_t had[PAGES];

static void
make(long n, size_t bytes)
{
	for (long i = 0; i < n; i++) {
		page[i] = malloc(bytes);
		out[i] = malloc(bytes);
		for (size_t at = 0; at < bytes; at += 256)
			must((int)getrandom((uint8_t *)page[i] + at, 256, 0),
			    "random bytes");
		memset(out[i], 1, bytes);
		must((int)getrandom(entry[i].name.b, EPD_NAME, 0), "a name");
		entry[i].rows = 16;
		entry[i].sum = epd_xxh3_64(page[i], bytes);
	}
}

int
main(int argc, char **argv)
{
	const long n = argc == 6 ? atol(argv[3]) : 0;
	const long bytes = argc == 6 ? atol(argv[4]) : 0;
	struct epd_mooncake_options o = { .page_ns = MINUTE };
	struct epd_lot lot = { .workflow = "w1", .run = 1, .n = n,
	    .shape = { EPD_OBJECT_KV_PAGE, 1, 16, (uint64_t)bytes },
	    .entry = entry };
	struct epd_lower *t;
	double put, get;

	if (n < 1 || n > PAGES || bytes < 256 || bytes % 256) {
		fputs("usage: tier_mooncake URL ADMIN PAGES BYTES AT_ONCE\n",
		    stderr);
		return 2;
	}
	o.url = argv[1];
	o.admin = argv[2];
	o.most = atoi(argv[5]);
	make(n, (size_t)bytes);
	must(epd_mooncake_open(&t, &o, &why), "open");
	/* Connections and libcurl are there before anything is timed. */
	epd_lower_ops(t)->get(t, &lot, out, had, epd_clock_boot_ns() + MINUTE,
	    &why);
	put = now();
	must(epd_lower_ops(t)->put(t, &lot, (const void *const *)page,
	    epd_clock_boot_ns() + MINUTE, &why), "put");
	get = now();
	put = get - put;
	if (epd_lower_ops(t)->get(t, &lot, out, had,
	    epd_clock_boot_ns() + MINUTE, &why) != n)
		must(-EIO, "get");
	get = now() - get;
	for (long i = 0; i < n; i++)
		if (memcmp(page[i], out[i], (size_t)bytes))
			must(-EBADMSG, "other bytes");
	epd_lower_ops(t)->close(t);
	printf("{\"put\": %.5f, \"get\": %.5f}\n",
	    1e-9 * (double)bytes * (double)n / put,
	    1e-9 * (double)bytes * (double)n / get);
	return 0;
}
