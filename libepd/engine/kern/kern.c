/* kern.c - choosing an instruction set at run time. */
#include <stddef.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#endif

#include "engine/kern/kern.h"

#if defined __x86_64__
/* Not every compiler's __builtin_cpu_supports() knows it. */
static int
has_f16c(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#endif

static int
runs(const struct epd_kern *k)
{
#if defined __x86_64__
	if (k == &epd_kern_avx512)
		return __builtin_cpu_supports("avx512f") &&
		    __builtin_cpu_supports("avx512bw") &&
		    __builtin_cpu_supports("avx512dq") &&
		    __builtin_cpu_supports("avx512vl") &&
		    runs(&epd_kern_avx2);
	if (k == &epd_kern_avx2)
		return __builtin_cpu_supports("avx2") &&
		    __builtin_cpu_supports("fma") &&
		    has_f16c();
#endif
	return k == &epd_kern_scalar;
}

const struct epd_kern *
epd_kern_get(const char *name)
{
	static const struct epd_kern *const all[] = {
#if defined __x86_64__
		&epd_kern_avx512, &epd_kern_avx2,
#endif
		&epd_kern_scalar,
	};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if ((!name || !strcmp(name, all[i]->name)) && runs(all[i]))
			return all[i];
	return NULL;
}
