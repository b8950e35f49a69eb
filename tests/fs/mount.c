/* mount.c - the mount under operations at random, writers, kills, and loss. */
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
	CHECK(looks > 100 && g->forked > 10);
	munmap(g, sizeof *g);
}

TEST(operations_at_random)
{
	MT_BEGIN(300);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	printf("# seed %llu\n", (unsigned long long)mt.seed);
	CHECK_INT(fsx_all(4, mt_env("EPD_OPS", 20000)), 0);
	for (int i = 0; i < FSX_OPS; i++)
		printf("# %s %llu\n", fsx_ops[i].name, (unsigned long long)mt.sh->done[i]);
	CHECK_INT(mt.sh->bad, 0);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	mt_end();
}

TEST(no_file_disagrees_with_the_log)
{
	MT_BEGIN(300);
	CHECK_INT(mt_fill(), 0);
	CHECK_INT(mt_up(), 0);
	agree(8, 8, 3, mt_env("EPD_SECONDS", 10));
	CHECK_INT(mt.sh->bad, 0);
	CHECK_INT(mt_down(0), 0);
	CHECK_INT(mt_check(), 0);
	mt_end();
}

int main(int argc, char **argv)
{
	mt_find_bin(argv[0]);
	return check_main(argc, argv);
}
