/*
 * clock.h - two clocks, and one way for a test to turn them.  Deadlines and
 * leases go by the boot clock; wall time is for people and for TTLs.
 */
#ifndef EPD_BASE_CLOCK_H
#define EPD_BASE_CLOCK_H

#include <stdint.h>

uint64_t epd_clock_wall_ms(void);	/* since 1970, CLOCK_REALTIME */
uint64_t epd_clock_boot_ns(void);	/* CLOCK_BOOTTIME */
void epd_clock_sleep_ns(uint64_t ns);
/* The kernel's boot_id, another at each boot.  Fails: -errno. */
int epd_clock_boot_id(uint8_t id[16]);

/* For tests: what fake holds replaces both readings; NULL restores. */
struct epd_clock_fake {
	uint64_t wall_ms, boot_ns;
};
void epd_clock_fake(const struct epd_clock_fake *fake);

#endif
