/*
 * clock.c - the kernel's clocks, or the one a test has set.
 */
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/span.h"

static const struct epd_clock_fake *_Atomic fake_clock;

static uint64_t
read_ns(clockid_t id)
{
	struct timespec t = { 0, 0 };

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t
epd_clock_wall_ms(void)
{
	const struct epd_clock_fake *f = fake_clock;

	return f ? f->wall_ms : read_ns(CLOCK_REALTIME) / 1000000u;
}

uint64_t
epd_clock_boot_ns(void)
{
	const struct epd_clock_fake *f = fake_clock;

	return f ? f->boot_ns : read_ns(CLOCK_BOOTTIME);
}

void
epd_clock_sleep_ns(uint64_t ns)
{
	struct timespec t = {
		(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)
	};

	while (nanosleep(&t, &t) < 0 && errno == EINTR)
		continue;
}

void
epd_clock_fake(const struct epd_clock_fake *fake)
{
	fake_clock = fake;
}

int
epd_clock_boot_id(uint8_t id[16])
{
	char text[48], hex[33];
	ssize_t n;
	size_t k = 0;
	int fd;

	fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = epd_file_pread(fd, text, sizeof text, 0);
	close(fd);
	if (n < 0)
		return (int)n;
	for (ssize_t i = 0; i < n && k < 32; i++)
		if (text[i] != '-')
			hex[k++] = text[i];
	hex[k] = '\0';
	return epd_hex_parse(id, 16, hex);
}
