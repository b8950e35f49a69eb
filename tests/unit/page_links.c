/* page_links - one run file under several ids: whole, in part, given, damaged. */
#include "fault.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "page/layout.h"
#include "scratch.h"
#include "tests/check.h"

static const struct epd_run_shape shape = { EPD_OBJECT_KV_PAGE, 1, 16, 5000 };
enum { N = 5, STRIDE = 8192 };

/* A run of n pages under id, its page i full of the byte tint + i. */
static int
make_run(int dir, uint64_t id, long n, int tint, int given,
    struct epd_page_entry *e)
{
	struct epd_run *r;
	void *p;
	int rc = epd_run_new(&r, dir, &shape);

	if (rc)
		return rc;
	for (long i = 0; !rc && i < n; i++) {
		memset(&e[i], 0, sizeof e[i]);
		memset(e[i].name.b, tint + (int)i, EPD_NAME);
		e[i].rows = 16;
		if (!(rc = epd_run_add(r, &p)))
			memset(p, tint + (int)i, (size_t)shape.bytes);
	}
	if (given)
		epd_run_given(r);
	if (!rc)
		rc = epd_run_publish(r, id, e, n);
	epd_run_close(r);
	return rc;
}

static int
run_fd(int dir, uint64_t id)
{
	char name[EPD_RUN_NAME];

	epd_run_format(name, id);
	fchmodat(dir, name, 0600, 0);
	return openat(dir, name, O_RDWR | O_CLOEXEC, 0);
}

static nlink_t
names(int dir, uint64_t id)
{
	char name[EPD_RUN_NAME];
	struct stat st;

	epd_run_format(name, id);
	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) ? 0 : st.st_nlink;
}

TEST(kind26_every_holder_has_a_name_of_its_own)
{
	struct epd_page_entry e[N];
	struct epd_run *r;
	int dir = scratch_open(), other = epd_dir_make(dir, "other");

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, other, 2), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 3), 0);
	CHECK_INT(epd_run_link(other, 2, dir, 4), 0);
	CHECK_INT(names(dir, 1), 4);
	/* Done already, from whichever name. */
	CHECK_INT(epd_run_link(dir, 1, other, 2), 0);
	CHECK_INT(epd_run_link(dir, 4, dir, 3), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 1), 0);
	CHECK_INT(names(dir, 1), 4);
	/* A name that stands for another file is let be. */
	CHECK_INT(make_run(dir, 9, 1, 90, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 9), -EEXIST);
	CHECK_INT(epd_run_link(dir, 9, other, 2), -EEXIST);
	CHECK_INT(epd_run_link(dir, 8, other, 7), -ENOENT);
	CHECK_INT(epd_run_link(dir, 1, other, 0), -EINVAL);
	CHECK_INT(names(dir, 9), 1);
	/* Each lets go of its own, the last takes the file along. */
	CHECK_INT(epd_run_free(dir, 1), 0);
	CHECK_INT(epd_run_free(dir, 4), 0);
	CHECK_INT(epd_run_free(other, 2), 0);
	CHECK_INT(make_run(dir, 1, N, 50, 0, e), 0);
	CHECK_INT(make_run(other, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_open(&r, dir, 3, &shape, e, N, NULL), 0);
	CHECK_INT(epd_run_origin_id(r), 1);
	for (long i = 0; i < N; i++) {
		CHECK_INT(epd_run_verify(r, i), 0);
		CHECK(*(const uint8_t *)epd_run_page(r, i) == 10 + i);
	}
	CHECK_INT(names(dir, 3), 1);
	CHECK_INT(epd_run_free(dir, 3), 0);
	CHECK_INT(names(dir, 3), 0);
	epd_run_close(r);
	close(other);
	scratch_close(dir);
}

TEST(any_consecutive_part_of_a_link)
{
	struct epd_page_entry e[N];
	struct epd_run *r;
	int dir = scratch_open();

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 2), 0);
	for (long at = 0; at < N; at++)
		for (long n = 1; at + n <= N; n++) {
			CHECK_INT(epd_run_open(&r, dir, 2, &shape, e + at, n,
			    NULL), 0);
			CHECK_INT(epd_run_first(r), at);
			CHECK_INT(epd_run_count(r), n);
			CHECK_INT(epd_run_origin_id(r), 1);
			for (long i = 0; i < n; i++) {
				const uint8_t *p = epd_run_page(r, i);

				CHECK(p[0] == 10 + at + i && p[4999] == p[0]);
				CHECK_INT(epd_run_verify(r, i), 0);
				CHECK(epd_name_equal(&epd_run_entries(r)[i].name,
				    &e[at + i].name));
				CHECK(epd_run_entries(r)[i].sum ==
				    e[at + i].sum);
			}
			CHECK(!epd_run_page(r, n) && !epd_run_page(r, -1));
			CHECK_INT(epd_run_verify(r, n), -EINVAL);
			epd_run_close(r);
		}
	/* Mapped, a part outlives all names. */
	CHECK_INT(epd_run_look(&r, dir, 2, &shape, e + 3, 2, NULL), 0);
	CHECK_INT(epd_run_free(dir, 1), 0);
	CHECK_INT(epd_run_free(dir, 2), 0);
	CHECK(*(const uint8_t *)epd_run_page(r, 1) == 14);
	CHECK_INT(epd_run_verify(r, 1), 0);
	epd_run_close(r);
	scratch_close(dir);
}

TEST(kind17_a_part_that_is_not_in_the_file_is_refused)
{
	struct epd_page_entry e[N], x[N + 1];
	struct epd_why why;
	struct epd_run *r = NULL;
	int dir = scratch_open();

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 2), 0);
	/* Under its own id a run is whole, and under another it is expected. */
	CHECK_INT(epd_run_open(&r, dir, 1, &shape, e, N - 1, &why),
	    EPD_ECORRUPT);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, NULL, 0, &why),
	    EPD_ECORRUPT);
	CHECK(strstr(why.text, "holds run 0000000000000001"));
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, 0, &why), EPD_ECORRUPT);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, -1, &why), EPD_ECORRUPT);
	/* More than there is. */
	memcpy(x, e, sizeof e);
	x[N] = e[N - 1];
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, x, N + 1, &why),
	    EPD_ECORRUPT);
	CHECK(strstr(why.text, "5 pages, not 6"));
	/* Over the end, backwards, with a hole, twice. */
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, x + N - 1, 2, &why),
	    EPD_ECORRUPT);
	x[0] = e[2];
	x[1] = e[1];
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, x, 2, &why), EPD_ECORRUPT);
	CHECK(strstr(why.text, "page 1 has another name"));
	x[1] = e[4];
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, x, 2, &why), EPD_ECORRUPT);
	x[1] = e[2];
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, x, 2, &why), EPD_ECORRUPT);
	/* Any field of any entry of a part. */
	for (int at = 0; at < N - 1; at++)
		for (int i = 0; i < 2; i++)
			for (int k = 0; k < 3; k++) {
				memcpy(x, e + at, 2 * sizeof *x);
				if (k == 0)
					x[i].name.b[31] ^= 1;
				if (k == 1)
					x[i].rows--;
				if (k == 2)
					x[i].sum ^= 1;
				CHECK_INT(epd_run_open(&r, dir, 2, &shape, x,
				    2, &why), EPD_ECORRUPT);
			}
	CHECK(!r);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e + 1, 3, &why), 0);
	epd_run_close(r);
	scratch_close(dir);
}

TEST(kind20_damage_is_seen_under_every_name)
{
	struct epd_page_entry e[N];
	struct epd_run_shape s;
	struct epd_run *r;
	int dir = scratch_open(), fd;
	const off_t table = 4096 + N * STRIDE;
	uint8_t was, x;

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 2), 0);
	fd = run_fd(dir, 1);
	CHECK(pwrite(fd, "x", 1, 4096 + 3 * STRIDE + 4000) == 1);
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e + 2, 2, NULL), 0);
	CHECK_INT(epd_run_verify(r, 0), 0);
	CHECK_INT(epd_run_verify(r, 1), EPD_ECORRUPT);
	epd_run_close(r);
	/* The table is one: damage to any entry is damage to all. */
	for (off_t at = table; at < table + N * 48; at++) {
		CHECK(pread(fd, &was, 1, at) == 1);
		x = was ^ 4;
		CHECK(pwrite(fd, &x, 1, at) == 1);
		CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, 1, NULL),
		    EPD_ECORRUPT);
		CHECK_INT(epd_run_table(&r, dir, 2, &s, NULL), EPD_ECORRUPT);
		CHECK(pwrite(fd, &was, 1, at) == 1);
	}
	for (off_t n = table + N * 48 - 1; n >= 0; n -= n > 4200 ? 997 : 1) {
		CHECK_INT(ftruncate(fd, n), 0);
		CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, 1, NULL),
		    EPD_ECORRUPT);
		CHECK_INT(epd_run_table(&r, dir, 2, &s, NULL), EPD_ECORRUPT);
	}
	close(fd);
	scratch_close(dir);
}

TEST(given_pages_stay_given)
{
	struct epd_page_entry e[N];
	struct epd_run_shape s;
	struct epd_run *r;
	uint8_t head[4096];
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, N, 10, 1, e), 0);
	CHECK_INT(make_run(dir, 3, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 2), 0);
	for (uint64_t id = 1; id <= 3; id++) {
		CHECK_INT(epd_run_open(&r, dir, id, &shape, e, N, NULL), 0);
		CHECK_INT(epd_run_is_given(r), id != 3);
		/* Too late to say. */
		epd_run_given(r);
		CHECK_INT(epd_run_is_given(r), id != 3);
		epd_run_close(r);
		CHECK_INT(epd_run_table(&r, dir, id, &s, NULL), 0);
		CHECK_INT(epd_run_is_given(r), id != 3);
		epd_run_close(r);
	}
	/* What nobody gave is written as it always was; a flag to come is refused. */
	fd = run_fd(dir, 3);
	CHECK(pread(fd, head, sizeof head, 0) == sizeof head);
	for (int i = 52; i < 4092; i++)
		CHECK(!head[i]);
	for (int bit = 1; bit < 32; bit++) {
		uint32_t crc;

		memset(head + 52, 0, 4);
		head[52 + bit / 8] = (uint8_t)(1 << bit % 8);
		crc = epd_crc32c(0, head, 4092);
		for (int i = 0; i < 4; i++)
			head[4092 + i] = (uint8_t)(crc >> 8 * i);
		CHECK(pwrite(fd, head, sizeof head, 0) == sizeof head);
		CHECK_INT(epd_run_open(&r, dir, 3, &shape, e, N, NULL),
		    EPD_ECORRUPT);
	}
	close(fd);
	scratch_close(dir);
}

TEST(a_table_alone_whatever_the_id_and_shape)
{
	struct epd_page_entry e[N];
	struct epd_run_shape s = { 0 };
	struct stat before, after;
	struct epd_run *r;
	int dir = scratch_open(), fd;

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	CHECK_INT(epd_run_link(dir, 1, dir, 2), 0);
	fd = run_fd(dir, 1);
	CHECK_INT(futimens(fd, (struct timespec[2]){ { 5, 0 }, { 6, 0 } }), 0);
	CHECK_INT(fstat(fd, &before), 0);
	CHECK_INT(epd_run_table(&r, dir, 2, &s, NULL), 0);
	CHECK(s.kind == shape.kind && s.type == shape.type &&
	    s.tokens == shape.tokens && s.bytes == shape.bytes);
	CHECK_INT(epd_run_count(r), N);
	CHECK_INT(epd_run_first(r), 0);
	CHECK_INT(epd_run_origin_id(r), 1);
	CHECK(!memcmp(epd_run_entries(r), e, sizeof e));
	CHECK(!epd_run_page(r, 0));
	CHECK_INT(epd_run_verify(r, 0), -EINVAL);
	epd_run_close(r);
	/* kind 24: it is no use of the run; nor is looking. */
	CHECK_INT(epd_run_look(&r, dir, 2, &shape, e, 2, NULL), 0);
	epd_run_close(r);
	CHECK_INT(fstat(fd, &after), 0);
	CHECK(!memcmp(&before.st_atim, &after.st_atim, sizeof after.st_atim));
	CHECK_INT(epd_run_open(&r, dir, 2, &shape, e, 2, NULL), 0);
	epd_run_close(r);
	CHECK_INT(fstat(fd, &after), 0);
	CHECK(after.st_atim.tv_sec > 5);
	CHECK_INT(epd_run_table(&r, dir, 7, &s, NULL), -ENOENT);
	CHECK_INT(mkfifoat(dir, "0000000000000008", 0600), 0);
	CHECK_INT(epd_run_table(&r, dir, 8, &s, NULL), EPD_ECORRUPT);
	CHECK_INT(symlinkat("0000000000000001", dir, "0000000000000009"), 0);
	CHECK_INT(epd_run_table(&r, dir, 9, &s, NULL), -ELOOP);
	close(fd);
	scratch_close(dir);
}

/* In a child with mounts of its own. */
static int
over_the_edge(void)
{
	struct epd_page_entry e[N];
	char far[sizeof scratch_path + 4];
	int dir, fd;

	snprintf(far, sizeof far, "%s/far", scratch_path);
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL,
	    MS_REC | MS_PRIVATE, NULL) || mkdir(far, 0700) ||
	    mount("tmpfs", far, "tmpfs", 0, "size=64k"))
		return 77;
	dir = open(scratch_path, O_RDONLY | O_DIRECTORY);
	fd = open(far, O_RDONLY | O_DIRECTORY);
	if (make_run(dir, 1, 2, 10, 0, e) ||
	    epd_run_link(dir, 1, dir, 2))
		return 1;
	if (epd_run_link(dir, 1, fd, 2) != -EXDEV || names(fd, 2))
		return 2;
	return 0;
}

TEST(another_file_system_is_told)
{
	int dir = scratch_open(), rc;
	pid_t pid = fork();

	if (!pid)
		_exit(over_the_edge());
	rc = scratch_wait(pid);
	scratch_close(dir);
	if (rc == 77)
		SKIP("cannot mount a tmpfs");
	CHECK_INT(rc, 0);
}

TEST(kind16_every_allocation_and_call_fails)
{
	struct epd_page_entry e[N];
	int dir = scratch_open(), failed = 0;

	CHECK_INT(make_run(dir, 1, N, 10, 0, e), 0);
	for (int what = 0; what < 3; what++)
		for (int how = 0; how < 2; how++)
			for (int at = 1, hit = 1; hit; at++) {
				struct epd_run *r = NULL;
				struct epd_run_shape s;
				int rc;

				if (how)
					fault_arm(at, EIO, 0);
				else
					scratch_starve(at, 0);
				rc = what == 0 ? epd_run_link(dir, 1, dir, 2) :
				    what == 1 ? epd_run_table(&r, dir, 2, &s,
				    NULL) : epd_run_open(&r, dir, 2, &shape,
				    e + 1, 3, NULL);
				hit = how ? fault_calls() >= at :
				    scratch_mem.count >= at;
				scratch_starve(0, 0);
				CHECK(rc == 0 || rc == (how ? -EIO : -ENOMEM));
				CHECK(!rc || !r);
				failed += rc != 0;
				epd_run_close(r);
			}
	CHECK(failed >= 12);
	CHECK_INT(names(dir, 2), 2);
	scratch_close(dir);
}

/* ext4 refuses at once, and says EPERM; tmpfs when the file is to get its name. */
TEST(a_folder_that_was_removed_is_not_there)
{
	int dir = scratch_open(), gone, rc;
	struct epd_page_entry e = { .rows = 16 };
	struct epd_run *r = NULL;
	void *page;

	CHECK_INT(mkdirat(dir, "w", 0700), 0);
	gone = openat(dir, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(gone >= 0);
	CHECK_INT(unlinkat(dir, "w", AT_REMOVEDIR), 0);
	rc = epd_run_new(&r, gone, &shape);
	if (!rc && !(rc = epd_run_add(r, &page)))
		rc = epd_run_publish(r, 7, &e, 1);
	CHECK_INT(rc, -ENOENT);
	epd_run_close(r);
	close(gone);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
