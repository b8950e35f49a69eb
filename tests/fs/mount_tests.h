/*
 * mount_tests.h - the mount under operations at random, writers, kills, and loss.
 * How much of each is said before: MT_OPS, MT_SECONDS, MT_KILLS, MT_STOPS, and
 * MT_LIMIT, seconds that any of it may take.
 */
#ifndef TESTS_MOUNT_TESTS_H
#define TESTS_MOUNT_TESTS_H

#include "tests/fs/mount_beneath.h"
#include "tests/fs/mount_kill.h"
#include "tests/fs/mount_replay.h"

/* Writers, readers, those at random, for so many seconds. */
static void
agree(int writers, int readers, int others, long seconds)
{
	struct ag *g = mt_share(sizeof *g);
	pid_t pid[64];
	char name[EPD_WORKFLOW], made[EPD_WORKFLOW];
	unsigned old = 0;
	uint64_t looks = 0;
	int n = 0, rc = 0;

	CHECK(g != NULL);
	for (int w = 0; w < AG_WORKFLOWS; w++) {
		ag_name(w, name);
		CHECK_INT(epd_workflow_make(mt.s, name, made, &mt_why), 0);
	}
	for (int i = 0; i < writers; i++, n++)
		if ((pid[n] = mt_fork()) == 0)
			_exit(ag_write(g, i % AG_WORKFLOWS,
			    mt_mix(mt.seed + 1000 + (uint64_t)i)));
	usleep(200000);
	for (int i = 0; i < readers; i++, n++)
		if ((pid[n] = mt_fork()) == 0)
			_exit(ag_read(g, mt_mix(mt.seed + 2000 + (uint64_t)i)));
	for (int i = 0; i < others; i++, n++)
		if ((pid[n] = mt_fork()) == 0)
			_exit(i ? fsx_run(mt_mix(mt.seed + 3000 + (uint64_t)i),
			    0) : ag_follow(g));
	sleep((unsigned)seconds);
	mt.sh->stop = 1;
	for (int i = 0; i < n; i++)
		rc |= mt_wait(pid[i], 20000);
	CHECK_INT(rc, 0);
	for (int w = 0; w < AG_WORKFLOWS; w++) {
		struct rp r;

		CHECK_INT(rp_open(&r, w), 0);
		looks += rp_all(&r, g, &old);
		rp_quiet(&r);
		rp_close(&r);
	}
	printf("# row 13: %d writers (%s created, %s advanced, %s forked, %s "
	    "released) under %d readers for %ld s: %s looks and %s listings, %s "
	    "lines of events, %u mismatches; %s counts of links were up to a "
	    "second old\n", writers, mt_n(g->created), mt_n(g->advanced),
	    mt_n(g->forked), mt_n(g->released), readers, seconds, mt_n(looks),
	    mt_n(g->lists), mt_n(g->lines), mt.sh->bad, mt_n(old));
	CHECK(looks > (mt.slow ? 10 : 100) && g->forked > 10);
	munmap(g, sizeof *g);
}

/* Descriptors of the daemon; the kernel closes what was closed a moment later. */
static int
settled(void)
{
	int n = mt_fds(mt.daemon, ""), last;

	do {
		last = n;
		usleep(300000);
		n = mt_fds(mt.daemon, "");
	} while (n < last);
	return n;
}

TEST(operations_at_random)
{
	int fds, more_fds;
	long rss, more_rss;

	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK(bn_stir() > 100);
	CHECK_INT(fsx_all(4, 1000), 0);
	fds = settled();
	rss = mt_rss_kib(mt.daemon);
	CHECK_INT(fsx_all(4, mt_env("EPD_OPS", MT_OPS)), 0);
	more_fds = settled() - fds;
	more_rss = mt_rss_kib(mt.daemon) - rss;
	printf("# row 13: %s operations at random in %d ways (seed %llu), %u "
	    "mismatches; the daemon has %d descriptors and %ld KiB more\n",
	    mt_n(mt.sh->ops), FSX_OPS, (unsigned long long)mt.seed, mt.sh->bad,
	    more_fds, more_rss);
	for (int i = 0; i < FSX_OPS; i++)
		CHECK(mt.sh->done[i] > 0);
	CHECK_INT(mt.sh->bad, 0);
	/* A workflow that was shut may be open; of open files none is left. */
	CHECK(more_fds <= 4);
	/* 16 threads may each have a MiB of libfuse and a heap of as much. */
	CHECK(more_rss <= 32 * 1024 || mt.slow);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	mt_end();
}

TEST(no_file_disagrees_with_the_log)
{
	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	agree(8, 8, 3, mt_env("EPD_SECONDS", MT_SECONDS));
	CHECK_INT(mt.sh->bad, 0);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	mt_end();
}

/* What is open when the daemon is told to end goes with the process. */
static void
leaks(int told)
{
	static char had[256];
	char more[280];
	const char *now = getenv("ASAN_OPTIONS");

	if (!told) {
		snprintf(had, sizeof had, "%s", now ? now : "");
		snprintf(more, sizeof more, "%s:detect_leaks=0", had);
		setenv("ASAN_OPTIONS", more, 1);
	} else {
		setenv("ASAN_OPTIONS", had, 1);
	}
}

static void
killed(int sig, int rounds)
{
	struct kl_sum s = {0};
	const char *job;

	kl = mt_share(sizeof *kl);
	CHECK(kl != NULL);
	job = kl_job();
	leaks(0);
	setenv("EPD_ISA", "scalar", 1);		/* a decode that lasts */
	setenv("EPD_THREADS", "1", 1);
	for (int i = 0; i < rounds && s.stuck < 5; i++) {
		mt.seed = mt_mix(mt.seed);
		kl_round(&s, sig, job, 30 + (int)(mt.seed % 300));
		if (i % 10 == 9 || i == rounds - 1)
			CHECK_INT(mt_check(), 0);
	}
	leaks(1);
	unsetenv("EPD_ISA");
	unsetenv("EPD_THREADS");
	printf("# row 13: %u %s under %d processes in it, %u jobs at work: each "
	    "out within %llu ms (mean %llu), %u stuck, %u children left\n",
	    s.rounds, sig == SIGKILL ? "kills" : "stops", KL_LOADS, s.jobs,
	    (unsigned long long)s.worst_ms, (unsigned long long)(s.sum_ms /
	    (s.loads ? s.loads : 1)), s.stuck, s.left);
	munmap(kl, sizeof *kl);
	CHECK_INT(s.rounds, rounds);
	CHECK(s.in > s.loads / 2);
}

TEST(killed_under_load)
{
	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	killed(SIGKILL, (int)mt_env("EPD_KILLS", MT_KILLS));
	CHECK_INT(mt.sh->bad, 0);
	mt_end();
}

TEST(stopped_under_load)
{
	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	killed(SIGTERM, (int)mt_env("EPD_STOPS", MT_STOPS));
	CHECK_INT(mt.sh->bad, 0);
	mt_end();
}

/* Unmounting lets nobody wait: --lazy when it is in use, and else when it is not. */
TEST(unmounted_in_use)
{
	struct kl_sum s = {0};
	pid_t pid[KL_LOADS];
	int fd, rc;

	MT_BEGIN(MT_LIMIT);
	kl = mt_share(sizeof *kl);
	CHECK(kl != NULL);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK((fd = bn_page(1, 1)) >= 0);
	CHECK(MT_RUN(NULL, 10000, "epd-mount", "-u", mt.at) > 0);
	CHECK(mt_mounted());
	close(fd);
	CHECK_INT(mt_down(0), 0);
	leaks(0);
	CHECK_INT(mt_up(), 0);
	leaks(1);
	kl_start(pid, "");
	usleep(100000);
	CHECK_INT(MT_RUN(NULL, 10000, "epd-mount", "-u", "--lazy", mt.at), 0);
	CHECK(!mt_mounted());
	/* Who has a file there goes on; the daemon ends with the last. */
	for (int i = 0; i < KL_LOADS; i++) {
		kill(pid[i], SIGKILL);
		if (mt_wait(pid[i], 5000) == -ETIMEDOUT)
			s.stuck++;
	}
	CHECK_INT(s.stuck, 0);
	rc = mt_wait(mt.daemon, 10000);
	mt.sh->daemon = 0;
	CHECK_INT(mt_said(), 0);
	CHECK_INT(rc, 0);
	CHECK_INT(mt_check(), 0);
	munmap(kl, sizeof *kl);
	mt_end();
}

/* The run of s2's first three pages, of 2.5 MB each, cut under who reads them. */
TEST(a_run_that_is_cut_under_a_reader)
{
	char run[512];
	uint8_t *p, buf[8192];
	off_t size = 0;
	int fd, other;

	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK(bn_find(mt.config.memory_dir, "/w/known/", run, &size));
	usleep(200000);		/* what is so old stays mapped */
	CHECK((fd = bn_page(2, 1)) >= 0);
	CHECK_INT(pread(fd, buf, sizeof buf, 0), sizeof buf);
	p = mmap(NULL, 2500000, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	CHECK_INT(bn_touch(p, 100000), 0);
	CHECK_INT(truncate(run, 4096 + 2502656), 0);
	CHECK_INT(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
	CHECK_INT(pread(fd, buf, sizeof buf, 2400000), -1);
	CHECK_INT(errno, EIO);
	CHECK_INT(bn_touch(p, 2500000), SIGBUS);
	/* One that nobody had opened, in what is mapped already. */
	CHECK((other = bn_page(2, 2)) < 0);
	CHECK(errno == EBADMSG || errno == EIO);
	CHECK(bn_stir() > 100);
	CHECK_INT(truncate(run, 0), 0);
	CHECK((other = bn_page(2, 0)) < 0);
	CHECK(bn_stir() > 100);
	CHECK_INT(truncate(run, size), 0);
	CHECK(bn_stir() > 100);
	munmap(p, 2500000);
	close(fd);
	CHECK_INT(mt_down(0), 0);
	mt_end();
}

TEST(memory_that_is_gone)
{
	uint8_t *got;
	int fd;

	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK(bn_stir() > 100);
	CHECK((fd = bn_page(2, 0)) >= 0);
	mt_remove(mt.config.memory_dir);
	CHECK(bn_page(1, 3) == -1 && errno == ENODATA);
	CHECK(bn_stir() > 100);
	/* Who had a page has it. */
	got = malloc(2500000);
	CHECK_INT(pread(fd, got, 2500000, 0), 2500000);
	for (int i = 0; i < mt_files; i++)
		if (mt_file[i].n == 2500000 && !memcmp(mt_file[i].p, got,
		    2500000))
			fd = -fd;
	CHECK(fd < 0);
	close(-fd);
	free(got);
	CHECK_INT(mt_down(0), 0);
	mt_end();
}

TEST(a_store_that_is_gone)
{
	struct epd_buf b = {0};

	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK(bn_stir() > 100);
	mt_remove(mt.store);
	CHECK(bn_stir() > 0);
	CHECK_INT(mt_slurp(mt_path("README"), &b), 0);
	CHECK_INT(access(mt_path("workflows/known/states/s1"), F_OK), -1);
	CHECK_INT(errno, ENOENT);
	CHECK(mkdir(mt_path("workflows/x"), 0755) == -1);
	epd_buf_free(&b);
	CHECK_INT(mt_down(0), 0);
	mt_end();
}

TEST(a_store_that_is_another)
{
	char aside[128];

	MT_BEGIN(MT_LIMIT);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	CHECK(bn_stir() > 100);
	snprintf(aside, sizeof aside, "%s/aside", mt.dir);
	epd_store_close(mt.s);
	mt.s = NULL;
	CHECK_INT(rename(mt.store, aside), 0);
	CHECK_INT(mt_open_store(), 0);
	CHECK(bn_stir() > 0);
	CHECK_INT(mt_fill(), 0);
	CHECK(bn_stir() > 0);
	mt_remove(aside);
	CHECK(bn_stir() > 0);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	/* Mounted anew it is the other one. */
	CHECK_INT(mt_up(), 0);
	CHECK_INT(fsx_run(mt.seed, 200), 0);
	CHECK_INT(mt.sh->bad, 0);
	CHECK_INT(mt_down(0), 0);
	mt_end();
}

/* A log that is cut, scribbled on, gone; its tip too; the folder remade. */
TEST(a_log_that_is_spoilt)
{
	static const char *const end[] = { "/log.", "/tip" };
	static const char junk[] = "junk junk junk junk junk junk junk";

	MT_BEGIN(MT_LIMIT);
	for (int i = 0; i < 8; i++) {
		char dir[160], path[512];
		off_t size = 0;
		int fd;

		CHECK_INT(mt_fill(), 0);
		CHECK_INT(mt_up(), 0);
		CHECK(bn_stir() > 100);
		snprintf(dir, sizeof dir, "%s/w/known", mt.store);
		CHECK(bn_find(dir, end[i & 1], path, &size));
		CHECK((fd = open(path, O_RDWR | O_CLOEXEC)) >= 0);
		switch (i / 2) {
		case 0: CHECK_INT(ftruncate(fd, size / 2), 0); break;
		case 1: CHECK_INT(ftruncate(fd, 0), 0); break;
		case 2: CHECK_INT(unlink(path), 0); break;
		default:
			CHECK_INT(pwrite(fd, junk, sizeof junk, size / 3),
			    sizeof junk);
		}
		close(fd);
		CHECK(bn_stir() > 0);
		mt_remove(dir);
		CHECK(bn_stir() > 0);
		CHECK_INT(mt_fill(), 0);	/* one of its name */
		CHECK_INT(fsx_run(mt.seed, 50), 0);
		CHECK(bn_stir() > 100);
		CHECK_INT(mt.sh->bad, 0);
		CHECK_INT(mt_down(0), 0);
		epd_store_close(mt.s);
		mt.s = NULL;
		mt_remove(mt.store);
		mt_remove(mt.config.memory_dir);
		CHECK_INT(mkdir(mt.config.memory_dir, 0700), 0);
		CHECK_INT(mt_open_store(), 0);
	}
	mt_end();
}

int
main(int argc, char **argv)
{
	mt_find_bin(argv[0]);
	return check_main(argc, argv);
}

#endif
