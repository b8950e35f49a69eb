/*
 * shard_residue.c - what is left by those who were killed, whose pids others
 * have, and for whom the clock was set: nothing.
 */
#include "shard/shard_in.h"
#include "tests/unit/shard_hold.h"

enum { DAY_MS = 86400000, LONG = 86400000 };

/* What may pile up. */
struct residue {
	int descriptors, shm, files, leases, nodes, states;
};

static int
entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Shared memory that is mapped; what others have in /dev/shm comes and goes. */
static int
mapped(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[400];
	int n = 0;

	while (f && fgets(line, sizeof line, f))
		n += strstr(line, "/dev/shm/") || strstr(line, "memfd:") ||
		    strstr(line, "/SYSV");
	if (f)
		fclose(f);
	return n;
}

static int
count(struct epd_shard *s, int dir, struct residue *r)
{
	struct epd_lease l = { .id = 0 };
	struct epd_state st;
	int rc = epd_shard_expire(s, NULL, NULL, NULL);

	/* Of several segments as many stay as one would. */
	if (rc >= 0)
		rc = epd_shard_checkpoint(s, NULL);
	*r = (struct residue){
		.descriptors = entries("/proc/self/fd"),
		.shm = mapped(),
		.files = scratch_count(dir, NULL), .nodes = hold_nodes(s),
	};
	while (!epd_shard_lease_next(s, l.id, &l))
		r->leases++;
	for (uint32_t id = 0; !epd_shard_next(s, id, &st); id = st.id)
		r->states++;
	return rc;
}

static int
same(const struct residue *a, const struct residue *b)
{
	return a->descriptors == b->descriptors && a->shm == b->shm &&
	    a->files == b->files && a->leases == b->leases &&
	    a->nodes == b->nodes && a->states == b->states;
}

/* It leases, advances, forks and releases till it is killed. */
static void
victim(int dir, int store, uint64_t r)
{
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	uint32_t version, id;
	uint64_t lease;
	int rc = epd_procs_open(&o.procs, store);

	o.checkpoint_bytes = 4096;
	if (!rc)
		rc = epd_shard_open(&s, dir, &o, NULL);
	while (!rc) {
		struct epd_fork_ask f = { .state = 1, .branches = 1 };

		rc = epd_shard_lease(s, 1, 0, shard_mix(++r) % 2 ?
		    EPD_LEASE_TRANSFER : EPD_LEASE_RESTORE, LONG, &lease, NULL);
		/* A branch of its own, on which it decodes. */
		if (!rc)
			rc = epd_shard_fork(s, &f, &id, NULL);
		if (!rc)
			rc = epd_shard_lease(s, id, 0, EPD_LEASE_DECODE, LONG,
			    &lease, NULL);
		if (!rc)
			rc = shard_advance(s, id, 9, 0, r, 0, &version);
		if (rc == EPD_ELOCKED || rc == EPD_EVERSION)
			rc = 0;
		if (!rc)
			rc = epd_shard_release(s, id, "", NULL, NULL, NULL);
	}
	_exit(1);
}

/* A lease of one who is not there: pid is alive, but another process has it. */
static int
forge(struct epd_shard *s, struct epd_proc who)
{
	struct epd_lease l = {
		.state = 1, .version = 1, .kind = EPD_LEASE_TRANSFER,
		.holder = who, .deadline_ms = UINT64_MAX,
	};
	int rc = epd_shard_begin(s, NULL);

	if (rc)
		return rc;
	epd_frame_begin(&s->frame);
	epd_lease_pack(&s->frame, &l);
	return epd_shard_end(s, epd_shard_append(s, NULL), NULL);
}

/* Wall time is set so many ms on; the boot clock goes as it goes. */
static void
set_clock(int64_t by)
{
	static struct epd_clock_fake now;

	epd_clock_fake(NULL);
	now.wall_ms = (uint64_t)((int64_t)epd_clock_wall_ms() + by);
	now.boot_ns = epd_clock_boot_ns();
	if (by)
		epd_clock_fake(&now);
}

/*
 * A lease and a state with time to live, across clocks that are set: the lease
 * is not touched; the state's time is over when the wall clock says so, and
 * what is released then does not come back with the old time.
 */
static int
steps(struct epd_shard *s)
{
	static const int64_t by[] = { DAY_MS, -DAY_MS, 30 * (int64_t)DAY_MS,
	    -30 * (int64_t)DAY_MS, 1000, -1000, 3600000, -3600000 };
	int n = 0;

	for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
		struct epd_state st = shard_traits(1), got;
		struct epd_lease l = { .id = 0 };
		struct shard_made m;
		uint64_t lease, mine = 0;
		uint32_t id;
		int over = by[i] > 60000;

		st.ttl_deadline_ms = epd_clock_wall_ms() + 60000;
		if (epd_shard_create(s, &st, shard_make(&m, 5, 0), &id, NULL) ||
		    epd_shard_lease(s, 1, 0, EPD_LEASE_TRANSFER, LONG, &lease,
		    NULL))
			return -1;
		set_clock(by[i]);
		if (epd_shard_expire(s, NULL, NULL, NULL) != over)
			return -2;
		set_clock(0);
		if (epd_shard_state(s, id, &got) != (over ? EPD_ENOSTATE : 0))
			return -3;
		while (!epd_shard_lease_next(s, l.id, &l))
			if (l.id == lease && epd_shard_lease_stands(s, &l))
				mine = l.id;
		if (mine != lease || epd_shard_renew(s, lease, LONG, NULL) ||
		    epd_shard_drop(s, lease, "", NULL) ||
		    epd_shard_release(s, id, "", NULL, NULL, NULL))
			return -4;
		n++;
	}
	return n;
}

TEST(nothing_is_left)
{
	const int kills = SHARD_SLOW ? 60 : 500;
	int dir = scratch_open(), store = scratch_open(), held = 0, reused = 0;
	struct residue before, after;
	struct epd_lease l = { .id = 0 };
	struct epd_procs *procs;
	struct epd_proc who;
	struct epd_shard *s;
	uint64_t r = 7;
	uint32_t id;
	int stepped;
	pid_t pid[4] = { 0 };

	CHECK_INT(epd_procs_open(&procs, store), 0);
	CHECK_INT(hold_open(&s, dir, procs), 0);
	CHECK_INT(shard_create(s, 1, 1, &id), 0);
	CHECK_INT(count(s, dir, &before), 0);
	/* The first checkpoint made a file that stays. */
	CHECK_INT(count(s, dir, &before), 0);
	fflush(stdout);
	for (int k = 0; k < kills + 4; k++) {
		int at = k % 4;

		if (pid[at]) {
			usleep((useconds_t)(shard_mix(++r) % 3000));
			kill(pid[at], SIGKILL);
			CHECK_INT(scratch_wait(pid[at]), -SIGKILL);
		}
		if (k < kills && !(pid[at] = fork()))
			victim(dir, store, (uint64_t)k << 20);
	}
	CHECK_INT(epd_shard_catch_up(s, NULL), 0);
	while (!epd_shard_lease_next(s, l.id, &l))
		held++;
	CHECK(held > kills / 4);
	/* Their pids, held by a process that lives and is not they. */
	pid[0] = fork();
	if (!pid[0]) {
		struct epd_procs *own;

		_exit(epd_procs_open(&own, store) || pause());
	}
	usleep(20000);
	who = *epd_procs_self(procs);
	for (int i = 0; i < 40; i++, reused++) {
		who.pid = i % 2 ? pid[0] : getpid();
		who.start = epd_procs_self(procs)->start - 1 - (unsigned)i;
		CHECK_INT(forge(s, who), 0);
	}
	stepped = steps(s);
	CHECK_INT(stepped, 8);
	/* States that were branched and not released are the victims' own. */
	{
		struct epd_state st;

		for (uint32_t at = 1; !epd_shard_next(s, at, &st); at = st.id)
			CHECK_INT(epd_shard_release(s, st.id, "", NULL, NULL,
			    NULL), 0);
	}
	CHECK(count(s, dir, &after) >= 0);
	CHECK_INT(after.leases, 0);
	if (!same(&before, &after))
		CHECK_FAIL("descriptors %d, %d; shm %d, %d; files %d, %d; nodes "
		    "%d, %d; states %d, %d", before.descriptors,
		    after.descriptors, before.shm, after.shm, before.files,
		    after.files, before.nodes, after.nodes, before.states,
		    after.states);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	kill(pid[0], SIGKILL);
	scratch_wait(pid[0]);
	printf("# row 14: %d kills, %d leases left by them, %d pids used again, "
	    "%d clock steps: descriptors %d, shm %d, files %d, leases 0, nodes "
	    "%d, all as before\n", kills, held, reused, stepped,
	    after.descriptors, after.shm, after.files, after.nodes);
	epd_shard_close(s);
	epd_procs_close(procs);
	scratch_close(store);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
