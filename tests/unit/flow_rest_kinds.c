/*
 * flow_rest_kinds.c - kinds of fault (tests/README.md) where they concern tiers: a move
 * told done twice, one that is frozen past its lease, another store's packs, and a log
 * and a disk that are not of one time.
 */
#include "tests/unit/flow_rest.h"
#include "tests/unit/flow_stop.h"

static const char text[] = "A state that is to rest for a while, with some pages to "
    "be moved out and back again.";

static uint64_t
counted(const struct kit *k, enum epd_metric id)
{
	return epd_metrics_get(k->s->metrics, id);
}

/* A state of two versions. */
static uint32_t
begin(struct kit *k)
{
	struct epd_prefilled p;

	kit_open(k);
	if (kit_say(k, 0, text, NULL, &p) < 0 ||
	    rest_draw(k, p.state, REST_DRAWN) < 0)
		golden_die("state", k->why.text);
	return p.state;
}

static uint32_t
begin_new(struct kit *k)
{
	rest_begin(k);
	return begin(k);
}

static uint64_t
memory(const struct kit *k)
{
	uint64_t used = 0;

	if (epd_memory_used(k->s->memory, &used))
		return UINT64_MAX;
	return used - epd_index_bytes(k->s->memory);
}

/* What the packs beneath a kit's folder are called and have in them. */
static uint64_t
disk(const struct kit *k)
{
	char line[300];
	uint64_t h = 0;
	FILE *p;

	snprintf(line, sizeof line, "find %s/disk -type f -path '*/w/*' "
	    "-exec md5sum {} + | sort", k->path);
	p = popen(line, "r");
	while (p && fgets(line, sizeof line, p))
		h = h * 31 + epd_xxh3_64(line, strlen(line));
	if (p)
		pclose(p);
	return h;
}

/* A shell's words, in the kit's folder. */
static void
sh(const struct kit *k, const char *words)
{
	char line[900];

	snprintf(line, sizeof line, "cd %s && %s", k->path, words);
	if (system(line))
		golden_die("sh", words);
}

/* Which of the calls that a verb makes on a state is the first of a kind. */
static int
first_of(enum stop_kind kind, struct kit *k, enum rest_verb v, uint32_t state)
{
	static struct stop_seen seen;
	int n = 0;

	/* As a process does that comes anew. */
	kit_reopen(k);
	seen.count = 0;
	stop.seen = &seen;
	stop_arm(0, STOP_KILL);
	if (rest_do(k, v, state))
		golden_die("calls", k->why.text);
	stop_arm(0, STOP_NOT);
	stop.seen = NULL;
	while (n < seen.count && n < STOP_CALLS && seen.kind[n] != kind)
		n++;
	return n + 1;
}

/* A process that does it, frozen before its nth call; called off it ends with 0. */
static pid_t
freeze(struct kit *k, enum rest_verb v, uint32_t state, int nth)
{
	pid_t pid;
	int st;

	fflush(stdout);
	if ((pid = fork()) == 0) {
		if (kit_try_open(k) < 0)
			_exit(1);
		stop_arm(nth, STOP_FREEZE);
		st = rest_do(k, v, state);
		_exit(st == EPD_ESTATUS || st == EPD_ELEASE ? 0 : 2);
	}
	if (waitpid(pid, &st, WUNTRACED) != pid || !WIFSTOPPED(st))
		golden_die("frozen", "it is not");
	return pid;
}

static struct epd_swept
gc(struct kit *k)
{
	struct epd_swept swept = { .runs = 0 };

	if (epd_flow_gc(k->s, &swept, kit_why(k)) < 0)
		golden_die("gc", k->why.text);
	return swept;
}

/* Said again, by whoever, it moves nothing, pins nothing and counts nothing. */
TEST(kind25_a_move_that_is_told_again_is_one)
{
	const struct epd_ref all = { .kind = EPD_REF_WORKFLOW,
		.workflow = "w1" };
	struct epd_restored back;
	struct epd_offloaded off;
	struct epd_lease l = { .id = 0 };
	struct epd_workflow w;
	struct kit k;
	uint32_t s = begin_new(&k);
	uint64_t was;

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	was = disk(&k);
	CHECK(was);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
		CHECK_INT(off.before, 1);
		CHECK_INT(off.bytes, 0);
		CHECK_INT(disk(&k), was);
	}
	CHECK_INT(counted(&k, EPD_M_OFFLOADS), 1);
	for (int i = 0; i < 3; i++) {
		CHECK_INT(rest_restore(&k, s, &back), 0);
		CHECK_INT(back.rested, i == 0);
	}
	/* What is there from the last time is not written again. */
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(disk(&k), was);
	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 1, kit_why(&k)), 0);
	CHECK(epd_shard_lease_next(w.shard, 0, &l) != 0);
	epd_workflow_close(&w);
	CHECK_INT(epd_flow_release(k.s, &all, "test", kit_why(&k)), 0);
	(void)gc(&k);
	CHECK_INT(disk(&k), 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/*
 * Who moves a state out stands still while he does, past his lease or before: it is gone
 * on with, and when he wakes he takes nothing from it and says that he did not.
 */
static void
frozen(int past)
{
	struct kit k, calm;
	uint32_t s = begin_new(&k), t = begin_new(&calm);
	pid_t pid;
	int st;
	const int nth = first_of(STOP_CUT, &calm, REST_OFFLOAD, t);

	kit_close(&k);
	k.config.lease_ms = 100;
	pid = freeze(&k, REST_OFFLOAD, s, nth);
	kit_open(&k);
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADING);
	if (past) {
		epd_clock_sleep_ns(200000000);
		CHECK_INT(gc(&k).offloads, 1);
	}
	CHECK_INT(rest_draw(&k, s, REST_TOKENS), 0);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	kill(pid, SIGCONT);
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK_INT(st, 0);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(rest_draw(&calm, t, REST_TOKENS), 0);
	CHECK_INT(rest_hash(&k, s), rest_hash(&calm, t));
	CHECK_INT(rest_draw(&k, s, 1), 0);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
	kit_end(&calm);
}

TEST(kind27_frozen_on_the_way_out) { frozen(0); }
TEST(kind27_frozen_on_the_way_out_past_its_lease) { frozen(1); }

/* The same on the way in, while it is put to rest again. */
TEST(kind27_frozen_on_the_way_in_past_its_lease)
{
	struct epd_restored back;
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin_new(&k);
	uint64_t was = rest_hash(&k, s);
	pid_t pid;
	int st, nth;

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	nth = first_of(STOP_LINK, &k, REST_RESTORE, s);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	kit_close(&k);
	k.config.lease_ms = 100;
	pid = freeze(&k, REST_RESTORE, s, nth);
	kit_open(&k);
	CHECK_INT(rest_status(&k, s), EPD_RESTORING);
	epd_clock_sleep_ns(200000000);
	CHECK_INT(gc(&k).restores, 1);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	kill(pid, SIGCONT);
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK_INT(st, 0);
	CHECK_INT(rest_status(&k, s), EPD_OFFLOADED);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.missing, 0);
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Two stores that rest in one folder: neither takes, has or removes what is the other's. */
TEST(kind28_another_stores_packs_are_not_ones_own)
{
	const struct epd_ref all = { .kind = EPD_REF_WORKFLOW,
		.workflow = "w1" };
	struct epd_restored back;
	struct epd_offloaded off;
	struct kit k, other;
	uint32_t s = begin_new(&k), t;
	uint64_t was = rest_hash(&k, s), mine;

	rest_begin(&other);
	memcpy(other.config.tier_nvme_dir, k.config.tier_nvme_dir,
	    sizeof k.config.tier_nvme_dir);
	t = begin(&other);
	CHECK_INT(rest_hash(&other, t), was);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	mine = disk(&k);
	CHECK_INT(rest_offload(&other, t, EPD_TIER_NVME, &off), 0);
	CHECK(disk(&k) != mine);
	/* Its own are gone: the same pages of the other store serve it not. */
	CHECK_INT(epd_flow_release(other.s, &all, "test", kit_why(&other)), 0);
	(void)gc(&other);
	CHECK_INT(disk(&k), mine);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.came, back.pages);
	CHECK_INT(rest_hash(&k, s), was);
	kit_end(&other);
	rest_begin(&other);
	memcpy(other.config.tier_nvme_dir, k.config.tier_nvme_dir,
	    sizeof k.config.tier_nvme_dir);
	t = begin(&other);
	strcpy(other.config.tier_nvme_dir, "");
	kit_reopen(&other);
	CHECK_INT(rest_offload(&other, t, EPD_TIER_NVME, &off), 0);
	memcpy(other.config.tier_nvme_dir, k.config.tier_nvme_dir,
	    sizeof k.config.tier_nvme_dir);
	kit_reopen(&other);
	CHECK_INT(rest_restore(&other, t, &back), 0);
	CHECK_INT(back.came, 0);
	CHECK_INT(back.missing, back.pages);
	CHECK_INT(rest_draw(&other, t, 0), 0);
	CHECK_INT(rest_hash(&other, t), was);
	CHECK_INT(disk(&k), mine);
	CHECK_INT(kit_check(&other), 0);
	kit_end(&other);
	kit_end(&k);
}

/* The log's last writes are lost: it knows nothing of what rests, and no page is. */
TEST(kind34_a_log_older_than_the_disk)
{
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin_new(&k);
	uint64_t was = rest_hash(&k, s);

	kit_close(&k);
	sh(&k, "cp -a store/w old");
	kit_open(&k);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	kit_close(&k);
	sh(&k, "rm -r store/w && mv old store/w");
	kit_open(&k);
	CHECK_INT(rest_status(&k, s), EPD_ACTIVE);
	CHECK_INT(kit_check(&k), 0);
	CHECK_INT(gc(&k).disk.runs, 0);
	CHECK_INT(rest_draw(&k, s, 0), 0);
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* The disk's are: it has some of what the log says, and the rest is computed again. */
TEST(kind34_a_disk_older_than_the_log)
{
	struct epd_restored back;
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin_new(&k);
	uint64_t was, all;

	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	sh(&k, "cp -a disk old");
	CHECK_INT(rest_draw(&k, s, 40), 0);
	was = rest_hash(&k, s);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	all = disk(&k);
	kit_close(&k);
	sh(&k, "rm -r disk && mv old disk");
	kit_open(&k);
	CHECK(disk(&k) != all);
	CHECK_INT(kit_check(&k), 0);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK(back.came && back.missing && back.came + back.missing ==
	    back.pages);
	CHECK_INT(rest_draw(&k, s, 0), 0);
	CHECK_INT(rest_hash(&k, s), was);
	/* What was computed goes there again. */
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.missing, 0);
	CHECK_INT(rest_restore(&k, s, &back), 0);
	CHECK_INT(back.missing, 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Packs torn as by a power loss: of their length and not their bytes, or of neither. */
TEST(kind34_torn_packs)
{
	static const char *const tears[] = {
		"truncate -s 0", "truncate -s 1", "truncate -s -4096",
		"truncate -s -1", "sh -c 'n=$(stat -c %s \"$1\"); truncate -s 0 "
		    "\"$1\"; truncate -s $n \"$1\"' sh",
		"sh -c 'n=$(stat -c %s \"$1\"); truncate -s 4096 \"$1\"; "
		    "truncate -s $n \"$1\"' sh",
	};
	struct epd_restored back;
	struct epd_offloaded off;
	struct kit k;
	uint32_t s = begin_new(&k);
	uint64_t was = rest_hash(&k, s);
	char line[400];

	for (size_t i = 0; i < sizeof tears / sizeof *tears; i++) {
		CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
		CHECK_INT(off.missing, 0);
		snprintf(line, sizeof line, "find disk -type f -path '*/w/*' "
		    "-exec chmod 600 {} \\; -exec %s {} \\;", tears[i]);
		sh(&k, line);
		CHECK_INT(kit_check(&k), 0);
		CHECK_INT(rest_restore(&k, s, &back), 0);
		CHECK_INT(back.came, 0);
		CHECK_INT(back.missing, back.pages);
		CHECK_INT(rest_draw(&k, s, 0), 0);
		CHECK_INT(rest_hash(&k, s), was);
	}
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

/* Who shares with him and goes lower takes nothing from memory; once he does it goes. */
TEST(who_rests_in_memory_keeps_his_pages_there)
{
	struct epd_offloaded off;
	struct epd_forked f;
	struct kit k;
	uint32_t s = begin_new(&k), id;
	const struct epd_fork_request ask = { .from = kit_ref(s),
		.branches = 1, .ids = &id, .reason = "test" };
	uint64_t was = rest_hash(&k, s), was_there;

	CHECK_INT(epd_flow_fork(k.s, &ask, &f, kit_why(&k)), 0);
	CHECK_INT(rest_offload(&k, id, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.freed, 0);
	CHECK_INT(rest_draw(&k, id, 0), 0);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_CPU, &off), 0);
	was_there = memory(&k);
	CHECK_INT(rest_offload(&k, id, EPD_TIER_NVME, &off), 0);
	CHECK_INT(off.freed, 0);
	CHECK(off.shared);
	CHECK_INT(memory(&k), was_there);
	CHECK_INT(rest_offload(&k, s, EPD_TIER_NVME, &off), 0);
	CHECK_INT(memory(&k), 0);
	CHECK_INT(rest_draw(&k, s, 0), 0);
	CHECK_INT(rest_hash(&k, s), was);
	CHECK_INT(counted(&k, EPD_M_PAGES_RECOMPUTED), 0);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
