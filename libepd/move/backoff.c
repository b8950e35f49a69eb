/* backoff.c - sleeping in slices, so that it can be called off. */
#include <sys/random.h>

#include "base/clock.h"
#include "base/stop.h"
#include "move/backoff.h"

#define MS UINT64_C(1000000)
static const uint64_t LEAST = 10 * MS, MOST = 500 * MS, SLICE = 20 * MS;

static uint64_t
chance(void)
{
	uint64_t x;

	/* Where there is none to be had, the clock will do: nothing is kept secret. */
	return getrandom(&x, sizeof x, GRND_NONBLOCK) == (ssize_t)sizeof x ? x :
	    epd_clock_boot_ns();
}

int
epd_back_off(uint64_t *wait_ns, uint64_t deadline_ns)
{
	const uint64_t most = *wait_ns ? *wait_ns : LEAST;
	const uint64_t ns = most / 2 + chance() % (most / 2 + 1);
	uint64_t now = epd_clock_boot_ns();
	const uint64_t till = now + ns;

	if (till >= deadline_ns || epd_is_stopped())
		return 0;
	*wait_ns = most < MOST / 2 ? most * 2 : MOST;
	for (; now < till; now = epd_clock_boot_ns()) {
		if (epd_is_stopped())
			return 0;
		epd_clock_sleep_ns(till - now < SLICE ? till - now : SLICE);
	}
	return 1;
}
