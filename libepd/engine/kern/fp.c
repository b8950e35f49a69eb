/*
 * fp.c - MXCSR on x86-64, FPCR on AArch64: whoever called us may have set
 * flush-to-zero or another rounding, and new threads inherit it.
 */
#if defined __x86_64__
#include <xmmintrin.h>
#endif

#include "engine/kern/fp.h"

#if defined __x86_64__

unsigned long
epd_fp_enter(void)
{
	unsigned was = _mm_getcsr();

	_mm_setcsr(0x1f80);	/* to nearest, all exceptions masked */
	return was;
}

void
epd_fp_leave(unsigned long was)
{
	_mm_setcsr((unsigned)was);
}

#elif defined __aarch64__

unsigned long
epd_fp_enter(void)
{
	unsigned long was;

	__asm__ volatile("mrs %0, fpcr" : "=r"(was));
	__asm__ volatile("msr fpcr, %0" : : "r"(0ul) : "memory");
	return was;
}

void
epd_fp_leave(unsigned long was)
{
	__asm__ volatile("msr fpcr, %0" : : "r"(was) : "memory");
}

#else
#include <fenv.h>

/* Rounding is all that C can reach. */
unsigned long
epd_fp_enter(void)
{
	int was = fegetround();

	fesetround(FE_TONEAREST);
	return (unsigned long)was;
}

void
epd_fp_leave(unsigned long was)
{
	fesetround((int)was);
}

#endif
