/*
 * cut.c - zeros where a file that is mapped has ended.
 *
 * Nobody is told from within the handler; who has computed something asks before he
 * lets it out.  So it needs no table of what is mapped: whatever it is, it goes on with
 * zeros, and the count is never taken back.
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cut.h"

static unsigned cuts;
static uintptr_t page;		/* bytes of one, as the kernel maps them */

static void
on_bus(int sig, siginfo_t *info, void *context)
{
	const int no = errno;
	void *at = (void *)((uintptr_t)info->si_addr & ~(page - 1));

	(void)context;
	if (info->si_code == BUS_ADRERR && mmap(at, page,
	    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
	    -1, 0) == at) {
		__atomic_fetch_add(&cuts, 1, __ATOMIC_RELAXED);
		errno = no;
		return;
	}
	/* Not that: it ends the process, as ever. */
	signal(sig, SIG_DFL);
	raise(sig);
}

int
epd_cut_catch(void)
{
	struct sigaction a;
	const long n = sysconf(_SC_PAGESIZE);

	if (n <= 0)
		return -EINVAL;
	page = (uintptr_t)n;
	memset(&a, 0, sizeof a);
	sigemptyset(&a.sa_mask);
	a.sa_sigaction = on_bus;
	a.sa_flags = SA_SIGINFO;
	return sigaction(SIGBUS, &a, NULL) ? -errno : 0;
}

unsigned
epd_cut_count(void)
{
	return __atomic_load_n(&cuts, __ATOMIC_RELAXED);
}
