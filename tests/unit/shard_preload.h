/*
 * shard_preload.h - the operations of shard_score.h in a program of its own
 * beneath faults.so, which also reaches the calls made through syscall().
 */
#ifndef TESTS_SHARD_PRELOAD_H
#define TESTS_SHARD_PRELOAD_H

#include <limits.h>
#include <sys/mman.h>

#include "tests/unit/shard_score_hold.h"

/* In the environment a store's path: do what shard_score_hold.h has. */
#define PRELOAD_STORE "EPD_TEST_STORE"

/* argv of the child: "child", the folder, the file of the score. */
static inline int
preload_child(char **argv)
{
	int dir = open(argv[2], O_RDONLY | O_DIRECTORY);
	int fd = open(argv[3], O_RDWR);
	struct fault_score *score = mmap(NULL, sizeof *score,
	    PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	const char *store = getenv(PRELOAD_STORE);

	if (dir < 0 || score == MAP_FAILED)
		return dir < 0 ? 8 : 7;
	if (!store)
		fault_work(score, dir, 1);
	else if (epd_procs_open(&hold_procs, open(store,
	    O_RDONLY | O_DIRECTORY)))
		return 6;
	else
		hold_work(score, dir, 1);
	return 0;
}

/* faults.so lies beside the folder this program is in. */
static inline int
preload_path(char path[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 20);

	if (n < 0)
		return 0;
	path[n] = '\0';
	*strrchr(path, '/') = '\0';
	if (!strrchr(path, '/'))
		return 0;
	strcpy(strrchr(path, '/'), "/faults.so");
	return !access(path, R_OK);
}

static inline void
preload_env(int nth, const char *act, int ever, const char *lib)
{
	char text[16], in[sizeof scratch_path + 1];

	snprintf(text, sizeof text, "%d", nth);
	snprintf(in, sizeof in, "%s/", scratch_path);
	setenv("EPD_FAULT_CALL", "any", 1);
	/* Files of the workflow alone; the score lies elsewhere. */
	setenv("EPD_FAULT_PATH", in, 1);
	setenv("EPD_FAULT_NTH", text, 1);
	setenv("EPD_FAULT_DO", act, 1);
	if (ever)
		setenv("EPD_FAULT_EVER", "1", 1);
	setenv("LD_PRELOAD", lib, 1);
}

/* Run it with the nth call so; the number of calls, or -1. */
static inline int
preload_one(int nth, const char *act, int ever, int *status)
{
	char score_path[] = "/dev/shm/epd-score.XXXXXX";
	char count_path[40], lib[PATH_MAX], text[24] = "";
	int fd = mkostemp(score_path, O_CLOEXEC), dir = scratch_open();
	int calls = -1, n;
	struct fault_score *score;
	pid_t pid;

	snprintf(count_path, sizeof count_path, "%s.n", score_path);
	if (fd < 0 || ftruncate(fd, sizeof *score) || !preload_path(lib))
		return -1;
	score = mmap(NULL, sizeof *score, PROT_READ | PROT_WRITE, MAP_SHARED,
	    fd, 0);
	/* Killed before the score was begun: nothing was tried. */
	for (int k = 0; k < FAULT_MOST; k++)
		score->rc[k] = 1;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		preload_env(nth, act, ever, lib);
		setenv("EPD_FAULT_COUNT", count_path, 1);
		execl("/proc/self/exe", "shard_preload", "child", scratch_path,
		    score_path, (char *)NULL);
		_exit(9);
	}
	*status = scratch_wait(pid);
	n = open(count_path, O_RDONLY);
	if (n >= 0 && read(n, text, sizeof text - 1) > 0)
		calls = atoi(text);
	if (n >= 0)
		close(n);
	if ((*status == 0 || *status == -9) && hold_procs)
		hold_verify(score, dir);
	else if (*status == 0 || *status == -9)
		fault_verify(score, dir);
	munmap(score, sizeof *score);
	close(fd);
	unlink(score_path);
	unlink(count_path);
	if (check_failed)
		printf("# call %d, %s, ever %d\n", nth, act, ever);
	scratch_close(dir);
	return calls;
}

/* How many calls fell short, failed, or killed. */
static struct { unsigned fell_short, failed, killed; } preload_told;

static inline void
preload_tell(void)
{
	printf("# row 4: %s writes fell short, %s calls failed, %s killed\n",
	    row_n(preload_told.fell_short), row_n(preload_told.failed),
	    row_n(preload_told.killed));
}

/* Every stride-th call in turn. */
static inline void
preload_each(const char *act, int ever, int stride)
{
	int status = -1, calls = preload_one(0, act, 0, &status);
	int kills = !strcmp(act, "KILL") || !strcmp(act, "TORN");

	CHECK_INT(status, 0);
	CHECK(calls > 80);
	for (int n = 1; n <= calls && !check_failed; n += stride) {
		preload_one(n, act, ever, &status);
		CHECK_INT(status, kills ? -9 : 0);
		preload_told.killed += kills != 0;
		preload_told.fell_short += !strcmp(act, "SHORT");
		preload_told.failed += !kills && strcmp(act, "SHORT");
	}
}

/* The same with what forks, leases and hands over. */
static inline void
preload_holds(const char *act, int ever, int stride)
{
	int store = scratch_open();

	setenv(PRELOAD_STORE, scratch_path, 1);
	if (epd_procs_open(&hold_procs, store))
		check_failed = 1;
	else
		preload_each(act, ever, stride);
	epd_procs_close(hold_procs);
	hold_procs = NULL;
	unsetenv(PRELOAD_STORE);
	epd_clock_fake(NULL);
	scratch_close(store);
}

#endif
