/*
 * shard_tail.c - what lies behind the end of what is published, told by who may
 * not touch it: what a crash leaves is nothing, what a writer refuses is damage,
 * and all else is named and cut by a sweep.
 */
#include "base/lock.h"
#include "tests/unit/fault.h"
#include "tests/unit/shard.h"

enum { RECORDS = 6, SHOWN = 2 };

/* A log of RECORDS flushed frames, and what the folder was behind each. */
struct tail {
	int dir;
	struct shard_image at[RECORDS + 1];
	size_t size[RECORDS + 1];	/* of the log */
};

static int
begin(struct tail *t)
{
	struct epd_shard *s = NULL;
	uint32_t id;
	int rc;

	memset(t, 0, sizeof *t);
	if ((t->dir = scratch_open()) < 0)
		return t->dir;
	rc = shard_open(&s, t->dir, 0);
	for (int i = 0; !rc && i <= RECORDS; i++) {
		if (i)
			rc = shard_create(s, (uint64_t)i, 0, &id);
		if (!rc)
			rc = shard_grab(&t->at[i], t->dir);
		if (!rc)
			t->size[i] = shard_file(&t->at[i],
			    "log.00000001")->data.n;
	}
	epd_shard_close(s);
	return rc;
}

static void
end(struct tail *t)
{
	for (int i = 0; i <= RECORDS; i++)
		shard_image_free(&t->at[i]);
	scratch_close(t->dir);
}

/* The folder as it was at SHOWN records, but for its log's bytes. */
static int
lay(struct tail *t, const void *log, size_t n)
{
	int rc = shard_lay(&t->at[SHOWN], t->dir);

	return rc ? rc : shard_put(t->dir, "log.00000001", log, n);
}

static const uint8_t *
log_of(struct tail *t, int records)
{
	return shard_file(&t->at[records], "log.00000001")->data.p;
}

/* What who looks is told; -EDOM if he does not see what was published. */
static int
tell(struct tail *t, struct epd_why *why)
{
	struct epd_shard *s = NULL;
	int rc = shard_open(&s, t->dir, 1);

	why->text[0] = '\0';
	if (!rc)
		rc = epd_shard_lsn(s) != SHOWN ? -EDOM :
		    epd_shard_tail(s, why);
	epd_shard_close(s);
	return rc;
}

TEST(what_a_crash_leaves_is_nothing)
{
	struct epd_why why;
	struct tail t;
	uint8_t *p;

	CHECK_INT(begin(&t), 0);
	/* Cut anywhere in the next frames, whole ones before that or not. */
	for (size_t n = t.size[SHOWN]; n <= t.size[SHOWN + 2]; n++) {
		CHECK_INT(lay(&t, log_of(&t, RECORDS), n), 0);
		CHECK_INT(tell(&t, &why), 0);
	}
	/* The size came to the disk, and the bytes did not, or not all. */
	p = malloc(t.size[RECORDS] + 5000);
	memcpy(p, log_of(&t, RECORDS), t.size[RECORDS]);
	for (size_t k = 0; k < 3; k++) {
		size_t from = t.size[SHOWN] + (k ? k * 40 : 0);

		memcpy(p, log_of(&t, RECORDS), t.size[RECORDS]);
		memset(p + from, 0, t.size[SHOWN + 1] + 5000 - from);
		CHECK_INT(lay(&t, p, t.size[SHOWN + 1] + 5000), 0);
		CHECK_INT(tell(&t, &why), 0);
	}
	free(p);
	end(&t);
}

TEST(what_is_no_record_is_named_and_cut_by_a_sweep)
{
	struct epd_why why;
	struct epd_shard *s;
	struct tail t;
	struct stat st;
	uint8_t *p;

	CHECK_INT(begin(&t), 0);
	p = malloc(t.size[SHOWN] + 4000);
	memcpy(p, log_of(&t, SHOWN), t.size[SHOWN]);
	for (size_t n = 1; n < 4000; n += 1 + n / 3) {
		char want[80];
		const uint8_t mark = log_of(&t, RECORDS)[t.size[SHOWN]];

		for (size_t i = 0; i < n; i++)
			p[t.size[SHOWN] + i] = (uint8_t)shard_mix(n * 7919 + i);
		/* Neither the begin of a frame nor nothing. */
		p[t.size[SHOWN]] = mark == 1 ? 2 : 1;
		CHECK_INT(lay(&t, p, t.size[SHOWN] + n), 0);
		CHECK_INT(tell(&t, &why), 1);
		snprintf(want, sizeof want, "log.00000001: byte %zu: %zu byte",
		    t.size[SHOWN], n);
		CHECK(!strncmp(why.text, want, strlen(want)));
		/* Told again, since it was not touched. */
		CHECK_INT(tell(&t, &why), 1);
		CHECK_INT(shard_open(&s, t.dir, 0), 0);
		CHECK_INT(epd_shard_expire(s, NULL, NULL, NULL), 0);
		epd_shard_close(s);
		CHECK_INT(fstatat(t.dir, "log.00000001", &st, 0), 0);
		CHECK_INT(st.st_size, t.size[SHOWN]);
		CHECK_INT(tell(&t, &why), 0);
	}
	free(p);
	end(&t);
}

/* Where a writer finds damage so does who looks, and nowhere else. */
TEST(what_a_writer_refuses_is_damage)
{
	int damage = 0, litter = 0;
	struct epd_why why;
	struct tail t;

	CHECK_INT(begin(&t), 0);
	for (uint64_t i = 0; i < 400; i++) {
		uint64_t r = shard_mix(i);
		size_t size = t.size[RECORDS], from = t.size[SHOWN];
		uint8_t *p = malloc(size + 200);
		struct epd_shard *s = NULL;
		int told, rc;

		memcpy(p, log_of(&t, RECORDS), size);
		switch (r % 4) {
		case 0:		/* a byte */
			p[from + (r >> 8) % (size - from)] ^=
			    (uint8_t)(1 + (r >> 40) % 255);
			break;
		case 1:		/* a hole */
			memset(p + from + (r >> 8) % (size - from - 60), 0,
			    60);
			break;
		case 2:		/* something put in between */
			memmove(p + from + 100, p + from, size - from);
			for (int k = 0; k < 100; k++)
				p[from + (size_t)k] =
				    (uint8_t)shard_mix(r + (uint64_t)k);
			size += 100;
			break;
		default:	/* something behind */
			for (size_t k = 0; k < 100; k++)
				p[size + k] = (uint8_t)shard_mix(r + k);
			size += 100;
		}
		CHECK_INT(lay(&t, p, size), 0);
		free(p);
		told = tell(&t, &why);
		rc = shard_open(&s, t.dir, 0);
		epd_shard_close(s);
		CHECK(rc == 0 || rc == EPD_ECORRUPT);
		CHECK_INT(told == EPD_ECORRUPT, rc == EPD_ECORRUPT);
		CHECK(told == EPD_ECORRUPT || told == 0 || told == 1);
		CHECK(!told == !why.text[0]);
		damage += rc == EPD_ECORRUPT;
		litter += told == 1;
	}
	printf("# %d of 400 damaged, %d with what is no record's\n", damage,
	    litter);
	CHECK(damage > 100 && litter > 50);
	end(&t);
}

TEST(a_segment_too_many)
{
	struct epd_why why;
	struct tail t;

	CHECK_INT(begin(&t), 0);
	/* Behind a torn tail it cannot be; without one it is not the next. */
	for (size_t n = 0; n < 2; n++) {
		CHECK_INT(lay(&t, log_of(&t, RECORDS), t.size[SHOWN] + 9 * n),
		    0);
		CHECK_INT(shard_put(t.dir, "log.00000002", log_of(&t, SHOWN),
		    64), 0);
		CHECK_INT(tell(&t, &why), EPD_ECORRUPT);
	}
	end(&t);
}

/* What somebody is at means nothing. */
TEST(while_the_lock_is_held)
{
	struct epd_why why;
	struct tail t;
	uint8_t *p;
	int fd;

	CHECK_INT(begin(&t), 0);
	p = malloc(t.size[SHOWN] + 50);
	memcpy(p, log_of(&t, SHOWN), t.size[SHOWN]);
	memset(p + t.size[SHOWN], 'x', 50);
	CHECK_INT(lay(&t, p, t.size[SHOWN] + 50), 0);
	free(p);
	CHECK_INT(tell(&t, &why), 1);
	fd = openat(t.dir, "lock", O_RDWR);
	CHECK(fd >= 0);
	CHECK_INT(epd_lock_try(fd), 0);
	CHECK_INT(tell(&t, &why), 0);
	close(fd);
	CHECK_INT(tell(&t, &why), 1);
	end(&t);
}

/* At any read of who looks somebody else does something; *n is how many reads. */
static void
meanwhile(void (*what)(void), void (*undo)(void), int *n)
{
	struct epd_why why;
	struct tail t;
	uint8_t *p;
	int told, seen = 1;

	CHECK_INT(begin(&t), 0);
	p = malloc(t.size[SHOWN] + 50);
	memcpy(p, log_of(&t, SHOWN), t.size[SHOWN]);
	memset(p + t.size[SHOWN], 'x', 50);
	for (*n = 0; seen && !check_failed; *n += seen) {
		CHECK_INT(lay(&t, p, t.size[SHOWN] + 50), 0);
		fault.hook = what;
		fault_arm(*n + 1, 0, FAULT_HOOK);
		fault.only = "pread";
		told = tell(&t, &why);
		seen = fault_calls() > *n;
		CHECK_INT(told, !seen);
		if (undo)
			undo();
	}
	free(p);
	end(&t);
}

/* Cut what lies there and append; killed at the flush of that. */
static void
append(void)
{
	struct epd_shard *s;
	uint32_t id;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		int dir = open(scratch_path, O_RDONLY | O_DIRECTORY);

		fault_arm(2, 0, FAULT_KILL);
		fault.only = "fdatasync";
		if (dir >= 0 && !shard_open(&s, dir, 0))
			(void)shard_create(s, 9, 0, &id);
		_exit(0);
	}
	CHECK_INT(scratch_wait(pid), -SIGKILL);
}

TEST(somebody_appends_meanwhile)
{
	int n = 0;

	meanwhile(append, NULL, &n);
	printf("# at each of %d reads\n", n);
	CHECK(n >= 8);
}

static int lock_fd;

static void
take_lock(void)
{
	char path[300];

	snprintf(path, sizeof path, "%s/lock", scratch_path);
	lock_fd = open(path, O_RDWR);
	CHECK(lock_fd >= 0);
	CHECK_INT(epd_lock_try(lock_fd), 0);
}

static void
drop_lock(void)
{
	if (lock_fd > 0)
		close(lock_fd);
	lock_fd = 0;
}

TEST(somebody_takes_the_lock_meanwhile)
{
	int n = 0;

	meanwhile(take_lock, drop_lock, &n);
	printf("# at each of %d reads\n", n);
	CHECK(n >= 8);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
