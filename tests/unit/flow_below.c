/*
 * flow_below.c - the tier on the disk kept in order: packs that nobody shows, damage and
 * loss, who died over a state, and pages that are only looked at.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/lock.h"
#include "flow/hints.h"
#include "tests/unit/flow_rest.h"

static const char text[] = "A state that is to rest for a while, with some pages to "
    "be moved out and back again.";

static struct told {
	int litter, lost, faults, said;
	char last[256];
} told;

static void
tell(void *arg, enum epd_finding what, const char *t)
{
	(void)arg;
	told.litter += what == EPD_LITTER;
	told.lost += what == EPD_LOST;
	snprintf(told.last, sizeof told.last, "%s", t);
}

/* What check finds, its sums in *p. */
static struct told
look(struct kit *k, int quick, struct epd_proof *p)
{
	const struct epd_findings f = { .fault = kit_fault, .litter = tell,
		.quick = quick };

	told = (struct told){ 0 };
	*p = (struct epd_proof){ 0 };
	told.faults = epd_flow_prove(k->s, "", &f, p, kit_why(k));
	return told;
}

static void
said(void *arg, int rc, const char *t)
{
	(void)arg;
	told.said += rc == 0;
	told.faults += rc < 0;
	snprintf(told.last, sizeof told.last, "%s", t);
}

static struct epd_swept
sweep(struct kit *k)
{
	struct epd_swept s = { .runs = 0 };

	told = (struct told){ 0 };
	told.faults += epd_flow_sweep(k->s, &s, said, NULL);
	return s;
}

/* A state at rest in nvme; what it comes to in *was. */
static uint32_t
begin(struct kit *k, uint64_t *was)
{
	struct epd_offloaded off;
	struct epd_prefilled p;

	rest_begin(k);
	kit_open(k);
	if (kit_say(k, 0, text, NULL, &p) < 0 ||
	    rest_draw(k, p.state, REST_DRAWN) < 0)
		golden_die("state", k->why.text);
	*was = rest_hash(k, p.state);
	if (rest_offload(k, p.state, EPD_TIER_NVME, &off) < 0)
		golden_die("offload", k->why.text);
	return p.state;
}

/* The folder of the workflow's packs, and the first of them. */
static int
packs(struct kit *k, char name[64])
{
	char path[400];
	struct dirent *e;
	DIR *d;
	int dir;

	snprintf(path, sizeof path, "%s/disk", k->path);
	d = opendir(path);
	while ((e = readdir(d)) && strncmp(e->d_name, "epd-", 4))
		;
	snprintf(path + strlen(path), sizeof path - strlen(path), "/%s/w/w1",
	    e ? e->d_name : "none");
	closedir(d);
	d = opendir(path);
	if (!d)
		golden_die("packs", path);
	*name = '\0';
	while ((e = readdir(d)))
		if (strlen(e->d_name) == 16 && (!*name ||
		    strcmp(e->d_name, name) < 0))
			snprintf(name, 64, "%.16s", e->d_name);
	dir = dup(dirfd(d));
	closedir(d);
	return dir;
}

static void
copy(int dir, const char *from, const char *to)
{
	static uint8_t room[1 << 20];
	int in = openat(dir, from, O_RDONLY), out = openat(dir, to, O_WRONLY |
	    O_CREAT | O_TRUNC, 0600);
	ssize_t n = read(in, room, sizeof room);

	CHECK(n > 0 && n < (ssize_t)sizeof room && write(out, room,
	    (size_t)n) == n);
	close(in);
	close(out);
}

/* A byte of it is another one. */
static void
spoil(int dir, const char *name, off_t at)
{
	uint8_t b = 0;
	int fd;

	CHECK_INT(fchmodat(dir, name, 0600, 0), 0);
	fd = openat(dir, name, O_RDWR);
	CHECK_INT(pread(fd, &b, 1, at), 1);
	b ^= 0x40;
	CHECK_INT(pwrite(fd, &b, 1, at), 1);
	close(fd);
}

TEST(packs_that_no_version_shows)
{
	struct epd_proof p;
	struct epd_swept s;
	char name[64];
	uint64_t was;
	struct kit k;
	uint32_t id = begin(&k, &was);
	int dir = packs(&k, name), runs;

	copy(dir, name, "0123456789abcdef");
	/* Its record may be under way, and a hand-off may be about to show it. */
	CHECK_INT(look(&k, 0, &p).litter, 0);
	runs = epd_memory_find(k.s->memory, "w1");
	CHECK(runs >= 0);
	CHECK_INT(epd_lock_share(runs, 0), 0);
	s = sweep(&k);
	CHECK_INT(s.disk.runs, 0);
	epd_lock_drop(runs);
	close(runs);
	s = sweep(&k);
	CHECK_INT(s.disk.runs, 1);
	CHECK(s.disk.run_bytes > 0);
	CHECK_INT(s.runs, 0);
	CHECK_INT(faccessat(dir, name, F_OK, 0), 0);
	CHECK_INT(look(&k, 0, &p).litter, 0);
	CHECK_INT(rest_hash(&k, id) == was || rest_draw(&k, id, 0) == 0, 1);
	CHECK_INT(rest_hash(&k, id), was);
	close(dir);
	kit_end(&k);
}

TEST(damage_is_told_and_is_no_fault)
{
	struct stat before, after;
	struct epd_proof p;
	char name[64];
	uint64_t was, pages;
	struct kit k;
	uint32_t id = begin(&k, &was);
	int dir = packs(&k, name);

	CHECK_INT(fstatat(dir, name, &before, 0), 0);
	epd_clock_sleep_ns(20000000);
	CHECK_INT(look(&k, 0, &p).faults, 0);
	CHECK(!told.litter && !told.lost && p.packs && p.packed > 2 && !p.lost);
	pages = p.packed;
	/* A proof is no use. */
	CHECK_INT(fstatat(dir, name, &after, 0), 0);
	CHECK(before.st_atim.tv_sec == after.st_atim.tv_sec &&
	    before.st_atim.tv_nsec == after.st_atim.tv_nsec);
	/* A page. */
	spoil(dir, name, 4200);
	CHECK_INT(look(&k, 0, &p).faults, 0);
	CHECK_INT(told.lost, 1);
	CHECK_INT(p.lost, 1);
	CHECK_INT(p.packed, pages - 1);
	CHECK_INT(look(&k, 1, &p).lost, 0);
	CHECK_INT(p.packed, pages);
	CHECK_INT(sweep(&k).disk.runs, 0);
	/* Every byte of the front, and each is found without the pages. */
	spoil(dir, name, 4200);
	for (off_t at = 0; at < 4096; at += 67) {
		spoil(dir, name, at);
		CHECK_INT(look(&k, 1, &p).faults, 0);
		CHECK_INT(told.litter, 1);
		CHECK(p.lost > 0);
		spoil(dir, name, at);
	}
	CHECK_INT(look(&k, 0, &p).litter + told.lost, 0);
	spoil(dir, name, 100);
	CHECK_INT(sweep(&k).disk.runs, 1);
	CHECK_INT(look(&k, 0, &p).litter, 0);
	CHECK_INT(told.lost, 1);
	CHECK(strstr(told.last, "in no tier here"));
	CHECK_INT(rest_draw(&k, id, 0), 0);
	CHECK_INT(rest_hash(&k, id), was);
	close(dir);
	kit_end(&k);
}

/* One begins and dies. */
static void
begun(struct kit *k, uint32_t id, int restoring)
{
	pid_t pid;
	int st;

	fflush(stdout);
	if ((pid = fork()) == 0) {
		struct epd_workflow w;
		struct epd_rest r;

		if (kit_try_open(k) < 0 || epd_workflow_open(&w, k->s, "w1", 0,
		    NULL) < 0)
			_exit(1);
		_exit((restoring ? epd_shard_restore(w.shard, id, 600000, "",
		    &r, NULL) : epd_shard_offload(w.shard, id, "nvme", 600000,
		    "", &r, NULL)) < 0);
	}
	CHECK_INT(waitpid(pid, &st, 0), pid);
	CHECK_INT(st, 0);
}

TEST(who_died_over_a_state_is_told)
{
	struct epd_restored back;
	struct epd_swept s;
	uint64_t was;
	struct kit k;
	uint32_t id = begin(&k, &was);

	begun(&k, id, 1);
	CHECK_INT(rest_status(&k, id), EPD_RESTORING);
	s = sweep(&k);
	CHECK_INT(s.restores, 1);
	CHECK_INT(s.offloads + s.dead, 0);
	CHECK_INT(told.said, 1);
	CHECK(strstr(told.last, "which restored it"));
	CHECK(strstr(told.last, "ACTIVE, at version 2"));
	CHECK_INT(rest_status(&k, id), EPD_ACTIVE);
	begun(&k, id, 0);
	CHECK_INT(rest_status(&k, id), EPD_OFFLOADING);
	s = sweep(&k);
	CHECK_INT(s.offloads, 1);
	CHECK(strstr(told.last, "which moved it out"));
	CHECK_INT(rest_status(&k, id), EPD_ACTIVE);
	s = sweep(&k);
	CHECK_INT(s.offloads + s.restores + s.dead, 0);
	CHECK_INT(told.said, 0);
	CHECK_INT(rest_restore(&k, id, &back), 0);
	CHECK_INT(rest_hash(&k, id), was);
	CHECK_INT(kit_check(&k), 0);
	kit_end(&k);
}

static int
count_page(void *arg, const struct epd_hint *h)
{
	*(int *)arg += h->kind == EPD_HINT_PAGE;
	return 0;
}

/* Hints of pages that the directory would be told. */
static int
hints(struct kit *k)
{
	struct epd_workflow w;
	int n = 0;

	if (epd_workflow_open(&w, k->s, "w1", 1, kit_why(k)) < 0)
		golden_die("w1", k->why.text);
	if (epd_flow_hints(k->s, &w, count_page, &n) < 0)
		n = -1;
	epd_workflow_close(&w);
	return n;
}

TEST(what_is_nowhere_here_is_not_told_of)
{
	struct epd_restored back;
	struct kit k;
	uint64_t was;
	uint32_t id = begin(&k, &was);
	char name[64];
	int dir = packs(&k, name), n = hints(&k);

	CHECK(n > 0);
	CHECK_INT(scratch_count(dir, "."), 2);
	CHECK_INT(unlinkat(dir, name, 0), 0);
	close(dir);
	dir = packs(&k, name);
	CHECK_INT(unlinkat(dir, name, 0), 0);
	CHECK_INT(hints(&k), 0);
	CHECK_INT(rest_restore(&k, id, &back), 0);
	CHECK_INT(hints(&k), 0);
	CHECK_INT(rest_draw(&k, id, 0), 0);
	CHECK_INT(hints(&k), n);
	close(dir);
	kit_end(&k);
}

TEST(a_page_that_is_looked_at)
{
	struct epd_version v;
	struct epd_workflow w;
	uint64_t was, node;
	struct kit k;
	uint32_t id = begin(&k, &was), n;

	CHECK_INT(epd_workflow_open(&w, k.s, "w1", 1, kit_why(&k)), 0);
	CHECK_INT(epd_shard_holds(w.shard, id, 0, &node), 0);
	CHECK_INT(epd_shard_node(w.shard, node, &v), 0);
	n = v.npages;
	epd_workflow_close(&w);
	CHECK_INT(kit_runs(&k), 0);
	CHECK_INT(epd_flow_touch(k.s, "w1", node, n - 1, kit_why(&k)), 0);
	CHECK_INT(kit_runs(&k), 1);
	CHECK_INT(rest_status(&k, id), EPD_OFFLOADED);
	CHECK_INT(epd_flow_touch(k.s, "w1", node, n - 1, kit_why(&k)), 0);
	CHECK_INT(epd_flow_touch(k.s, "w1", node, n, kit_why(&k)), EPD_ENOTHING);
	CHECK_INT(epd_flow_touch(k.s, "w1", 999, 0, kit_why(&k)), EPD_ENOTHING);
	CHECK_INT(epd_flow_touch(k.s, "w9", node, 0, kit_why(&k)), EPD_ENOTHING);
	kit_lose(&k, 0);
	CHECK_INT(epd_flow_touch(k.s, "w1", node, 0, kit_why(&k)), 0);
	kit_end(&k);
}

TEST(one_folder_is_not_two_tiers)
{
	struct epd_offloaded off;
	struct epd_prefilled p;
	struct kit k;

	rest_begin(&k);
	snprintf(k.config.memory_dir, sizeof k.config.memory_dir, "%s/disk",
	    k.path);
	kit_open(&k);
	CHECK_INT(kit_say(&k, 0, text, NULL, &p), 0);
	CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), EPD_EUSAGE);
	CHECK_INT(rest_status(&k, p.state), EPD_ACTIVE);
	CHECK_INT(rest_draw(&k, p.state, REST_DRAWN), 0);
	kit_end(&k);
}

/* The cap was made smaller since. */
TEST(gc_holds_the_disk_to_its_cap)
{
	struct epd_offloaded off;
	struct epd_prefilled p;
	struct epd_swept s;
	uint64_t was;
	struct kit k;
	uint32_t id = begin(&k, &was);

	for (int i = 0; i < 3; i++) {
		CHECK_INT(kit_say(&k, 0, text + i, NULL, &p), 0);
		CHECK_INT(rest_offload(&k, p.state, EPD_TIER_NVME, &off), 0);
	}
	s = sweep(&k);
	CHECK_INT(s.disk.evicted, 0);
	k.config.tier_nvme_cap = 1 << 16;
	kit_reopen(&k);
	s = sweep(&k);
	CHECK(s.disk.evicted && s.disk.evicted_bytes);
	CHECK_INT(s.evicted, 0);
	CHECK_INT(kit_check(&k), 0);
	CHECK_INT(rest_draw(&k, id, 0), 0);
	CHECK_INT(rest_hash(&k, id), was);
	kit_end(&k);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
