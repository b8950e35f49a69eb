/* base_cut - mapped files that end too soon, in any thread. */
#include "tests/check.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cut.h"
#include "base/thread.h"

enum { PAGES = 3 };

static size_t page;

/* A file of as many pages, each byte 7, mapped; its descriptor in *fd. */
static uint8_t *
map(int *fd)
{
	char name[] = "/tmp/epd-cut-XXXXXX";
	uint8_t *p;

	page = (size_t)sysconf(_SC_PAGESIZE);
	*fd = mkstemp(name);
	unlink(name);
	if (ftruncate(*fd, (off_t)(PAGES * page)))
		return MAP_FAILED;
	p = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE, MAP_SHARED, *fd,
	    0);
	if (p != MAP_FAILED)
		memset(p, 7, PAGES * page);
	return p;
}

TEST(what_is_gone_is_zero_and_is_counted)
{
	uint8_t *p;
	unsigned n;
	int fd;

	CHECK_INT(epd_cut_catch(), 0);
	p = map(&fd);
	CHECK(p != MAP_FAILED);
	n = epd_cut_count();
	CHECK_INT(ftruncate(fd, (off_t)page), 0);
	CHECK_INT(p[page - 1], 7);
	CHECK_INT(epd_cut_count() - n, 0);
	CHECK_INT(p[page], 0);
	CHECK_INT(epd_cut_count() - n, 1);
	/* Once a page; a store does not end it either. */
	CHECK_INT(p[page + 1], 0);
	p[2 * page] = 1;
	CHECK_INT(epd_cut_count() - n, 2);
	munmap(p, PAGES * page);
	close(fd);
}

static void *
sum(void *arg)
{
	const uint8_t *p = arg;
	uintptr_t n = 0;

	for (size_t i = 0; i < PAGES * page; i++)
		n += p[i];
	return (void *)n;
}

TEST(in_a_thread_that_takes_no_signals)
{
	unsigned n;
	pthread_t t;
	uint8_t *p;
	void *got;
	int fd;

	CHECK_INT(epd_cut_catch(), 0);
	p = map(&fd);
	CHECK(p != MAP_FAILED);
	n = epd_cut_count();
	CHECK_INT(ftruncate(fd, 0), 0);
	CHECK_INT(epd_thread_begin(&t, sum, p), 0);
	pthread_join(t, &got);
	CHECK_INT((uintptr_t)got, 0);
	CHECK_INT(epd_cut_count() - n, PAGES);
	munmap(p, PAGES * page);
	close(fd);
}

/* A SIGBUS of another kind ends the process as ever. */
TEST(what_is_not_a_cut_is_not_swallowed)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		epd_cut_catch();
		raise(SIGBUS);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
