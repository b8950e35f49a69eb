/*
 * again.c - restore or compute.
 *
 * What a run costs at all and what its bytes cost are in one sum; so both are taken to be
 * as much above or below what is usual.
 */
#include "plan/again.h"

/* Files opened, locked and linked; a disk's byte; a token of a small model. */
static const double run_ns = 4e5, byte_ns = 0.7, token_ns = 2e5;

void
epd_again_decide(const struct epd_again_measured *m, uint64_t runs,
    uint64_t bytes, uint64_t tokens, struct epd_again *out)
{
	const double all = (double)m->restored_ns;
	const double by_runs = run_ns * (double)m->restored_runs;
	const double by_bytes = byte_ns * (double)m->restored_bytes;
	/* As much slower, or faster, as it was so far. */
	const double slower = m->restored_runs ? all / (by_runs + by_bytes) : 1;
	const double token = m->computed_tokens ? (double)m->computed_ns /
	    (double)m->computed_tokens : token_ns;

	out->restore_ns = slower * (run_ns * (double)runs +
	    byte_ns * (double)bytes);
	out->recompute_ns = token * (double)tokens;
	out->restore = out->restore_ns <= out->recompute_ns;
}
