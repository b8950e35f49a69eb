/* wire_uring.c - files beneath a folder: right bytes, aligned or not, and no others. */
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/stop.h"
#include "tests/unit/wire.h"

static int dir;
static char address[400];

/* In a folder of $TMPDIR, and once on a disk's file system. */
static struct epd_link *
up(void)
{
	dir = scratch_open();
	snprintf(address, sizeof address, "file://%s", scratch_path);
	return wire_link(EPD_VIA_IO_URING, address, NULL, 0);
}

static int
is_there(void)
{
	const struct epd_transport *t = wire_table(EPD_VIA_IO_URING);
	struct epd_transport_facts f;

	return t->probe(t, &f, &wire_why) == 0;
}
#define NEED if (!is_there()) SKIP(wire_why.text)

static uint64_t
open_file(struct epd_link *l, const char *name, uint32_t flags, uint64_t size,
    int *rc)
{
	struct epd_buf q = { 0 }, a = { 0 };
	struct epd_cur c;
	uint64_t id = 0;

	epd_pack_u32(&q, flags);
	epd_pack_u64(&q, size);
	epd_buf_str(&q, name);
	*rc = epd_link_ops(l)->call(l, EPD_FILE_OPEN, epd_span(q.p, q.n), &a,
	    wire_in(5000), &wire_why);
	if (!*rc) {
		c = epd_cur(epd_span(a.p, a.n));
		id = epd_unpack_u64(&c);
	}
	epd_buf_free(&q);
	epd_buf_free(&a);
	return id;
}

static int
sync_file(struct epd_link *l, uint64_t id)
{
	struct epd_buf a = { 0 };
	uint8_t q[8];

	for (int i = 0; i < 8; i++)
		q[i] = (uint8_t)(id >> 8 * i);
	return epd_link_ops(l)->call(l, EPD_FILE_SYNC, epd_span(q, 8), &a,
	    wire_in(5000), &wire_why);
}

/* Every mix of aligned and not, written, flushed, read back. */
static void
there_and_back(struct epd_link *l)
{
	static const uint64_t at[] = { 0, 1, 4096, 4097, 65536, 1 << 20 };
	static const uint64_t size[] = { 1, 511, 4096, 8192, 12289, 1 << 20 };
	uint8_t *p = NULL, *q;
	uint64_t id;
	int rc;

	CHECK(!posix_memalign((void **)&p, 4096, 2 << 20));
	q = malloc(WIRE_BYTES);
	CHECK((id = open_file(l, "a", EPD_FILE_CREATE, WIRE_BYTES, &rc)));
	for (size_t i = 0; i < 6; i++)
		for (size_t j = 0; j < 6; j++)
			for (uint64_t off = 0; off < 2; off++) {
				struct epd_piece_done d;

				for (uint64_t k = 0; k < size[j]; k++)
					p[off + k] = wire_byte(at[i] + k + off);
				d = wire_move(l, EPD_OP_WRITE, id, at[i], p + off,
				    size[j]);
				CHECK(!d.rc && d.bytes == size[j]);
				memset(p, 0, 2 << 20);
				d = wire_move(l, EPD_OP_READ, id, at[i],
				    p + 1 - off, size[j]);
				CHECK(!d.rc && d.bytes == size[j]);
				CHECK(wire_is_right(p + 1 - off, at[i] + off,
				    size[j]));
			}
	CHECK_INT(sync_file(l, id), 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, WIRE_BYTES, p, 1).rc, EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, UINT64_MAX, p, 2).rc, EPD_EUSAGE);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 0).rc, 0);
	CHECK_INT(epd_link_ops(l)->shut(l, id, wire_in(1000), &wire_why), 0);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 1).rc, EPD_ENOTHING);
	/* Once more, to be read only. */
	CHECK((id = open_file(l, "a", 0, 0, &rc)));
	CHECK_INT(wire_move(l, EPD_OP_WRITE, id, 0, p, 1).rc, -EACCES);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, q, WIRE_BYTES).rc, 0);
	free(p);
	free(q);
}

TEST(there_and_back_in_memory)
{
	struct epd_link *l;
	int fds = scratch_have("fd");

	NEED;
	CHECK((l = up()));
	there_and_back(l);
	epd_link_ops(l)->close(l);
	scratch_close(dir);
	CHECK_INT(scratch_have("fd"), fds);
}

/* A disk's, where O_DIRECT asks for what it asks. */
TEST(there_and_back_on_a_disk)
{
	char path[] = "/var/tmp/epd-test.XXXXXX";
	struct epd_link *l;
	struct statfs st;

	NEED;
	if (!mkdtemp(path))
		SKIP("no /var/tmp");
	snprintf(address, sizeof address, "file://%s", path);
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK((l = wire_link(EPD_VIA_IO_URING, address, NULL, 0)));
	there_and_back(l);
	epd_link_ops(l)->close(l);
	if (!fstatfs(dir, &st))
		printf("# file system %lx\n", (unsigned long)st.f_type);
	scratch_close(dir);
}

TEST(names_stay_beneath)
{
	static const char *const no[] = { "", "..", "../x", "/etc/passwd", "link",
		"link/x", "sub/../../x", "folder", "no/such" };
	struct epd_link *l;
	int rc;

	NEED;
	CHECK((l = up()));
	CHECK(!symlinkat("/etc/passwd", dir, "link") && !mkdirat(dir, "folder", 0700));
	for (size_t i = 0; i < sizeof no / sizeof *no; i++) {
		CHECK(!open_file(l, no[i], 0, 0, &rc));
		CHECK(rc < 0);
		CHECK(!open_file(l, no[i], EPD_FILE_CREATE, 10, &rc));
	}
	CHECK(open_file(l, "folder/x", EPD_FILE_CREATE, 10, &rc));
	CHECK(!open_file(l, "folder/x", EPD_FILE_CREATE, 10, &rc));
	CHECK_INT(rc, -EEXIST);
	CHECK(!open_file(l, "x", 8, 10, &rc));
	CHECK(!open_file(l, "x", EPD_FILE_CREATE, UINT64_MAX, &rc));
	epd_link_ops(l)->close(l);
	scratch_close(dir);
	CHECK(!wire_link(EPD_VIA_IO_URING, "file:///no/such/folder", NULL, 0));
	CHECK(!wire_link(EPD_VIA_IO_URING, "tcp://127.0.0.1:1", NULL, 0));
}

/* No room: no file, and nothing is half made. */
TEST(a_file_too_large_for_the_disk)
{
	struct epd_link *l;
	int rc;

	NEED;
	CHECK((l = up()));
	CHECK(!open_file(l, "huge", EPD_FILE_CREATE, INT64_MAX / 2, &rc));
	CHECK(rc == -ENOSPC || rc == -EFBIG);
	CHECK(*wire_why.text);
	CHECK_INT(scratch_count(dir, NULL), 0);
	epd_link_ops(l)->close(l);
	scratch_close(dir);
}

/* Shortened behind our back: the move says so and how far it got. */
TEST(kind32_a_file_that_shrinks)
{
	static uint8_t p[1 << 20];
	struct epd_piece_done d;
	struct epd_link *l;
	uint64_t id;
	char path[300];
	int rc;

	NEED;
	CHECK((l = up()));
	CHECK((id = open_file(l, "a", EPD_FILE_CREATE, sizeof p, &rc)));
	snprintf(path, sizeof path, "%s/a", scratch_path);
	CHECK(!truncate(path, 100000));
	d = wire_move(l, EPD_OP_READ, id, 1, p, sizeof p - 1);
	CHECK_INT(d.rc, -ENODATA);
	CHECK_INT(d.bytes, 99999);
	epd_link_ops(l)->close(l);
	scratch_close(dir);
}

TEST(many_under_way_and_called_off)
{
	enum { N = 1000, EACH = 65536 };
	struct epd_piece_done d[64];
	struct epd_link *l;
	uint8_t *p = malloc((size_t)N * 64);
	uint64_t id;
	int put = 0, told = 0, rc, n;

	NEED;
	CHECK((l = up()));
	CHECK((id = open_file(l, "a", EPD_FILE_CREATE, EACH, &rc)));
	while (told < N) {
		while (put < N) {
			struct epd_piece piece = { (uint64_t)put, put % 2 ?
			    EPD_OP_READ : EPD_OP_WRITE, id,
			    (uint64_t)(put % 1000) * 64, 64, p + put * 64, 0 };

			rc = epd_link_ops(l)->submit(l, &piece, &wire_why);
			if (rc == -EAGAIN)
				break;
			CHECK_INT(rc, 0);
			if (put++ % 7 == 0)
				epd_link_ops(l)->cancel(l, piece.tag);
		}
		n = epd_link_ops(l)->wait(l, d, 64, wire_in(5000), &wire_why);
		CHECK(n > 0);
		for (int i = 0; i < n; i++)
			CHECK(!d[i].rc || (d[i].rc == -ECANCELED &&
			    d[i].tag % 7 == 0));
		told += n;
	}
	CHECK_INT(told, N);
	CHECK_INT(epd_link_ops(l)->wait(l, d, 1, wire_in(0), &wire_why),
	    EPD_EUSAGE);
	/* Closed with some under way. */
	for (int i = 0; i < 50; i++) {
		struct epd_piece piece = { 1, EPD_OP_READ, id, 0, 64, p, 0 };

		CHECK_INT(epd_link_ops(l)->submit(l, &piece, &wire_why), 0);
	}
	epd_link_ops(l)->close(l);
	free(p);
	scratch_close(dir);
}

static int
is_over(void *arg)
{
	(void)arg;
	return 1;
}

/* A wait is called off; closing it waits for the kernel all the same. */
TEST(a_wait_is_called_off)
{
	static uint8_t p[64];
	const struct epd_piece piece = { .op = EPD_OP_READ, .bytes = 64, .local = p };
	struct epd_piece one = piece;
	struct epd_piece_done d;
	struct epd_link *l;
	int rc;

	NEED;
	CHECK((l = up()));
	CHECK((one.window = open_file(l, "a", EPD_FILE_CREATE, 4096, &rc)));
	CHECK_INT(epd_link_ops(l)->submit(l, &one, &wire_why), 0);
	epd_stop_heed(is_over, NULL);
	CHECK_INT(epd_link_ops(l)->wait(l, &d, 1, wire_in(10000), &wire_why),
	    -ECANCELED);
	epd_link_ops(l)->close(l);
	epd_stop_heed(NULL, NULL);
	scratch_close(dir);
}

/* A deadline that is over looks once and leaves all as it is. */
TEST(kind30_a_deadline)
{
	static uint8_t p[64];
	struct epd_piece_done d;
	struct epd_link *l;
	uint64_t id;
	int rc;

	NEED;
	CHECK((l = up()));
	CHECK((id = open_file(l, "a", EPD_FILE_CREATE, 4096, &rc)));
	for (int i = 0; i < 100; i++) {
		struct epd_piece piece = { (uint64_t)i, EPD_OP_READ, id, 0, 64, p, 0 };

		CHECK_INT(epd_link_ops(l)->submit(l, &piece, &wire_why), 0);
		do
			rc = epd_link_ops(l)->wait(l, &d, 1, 0, &wire_why);
		while (rc == EPD_ETIMEOUT);
		CHECK_INT(rc, 1);
		CHECK(d.tag == (uint64_t)i);
	}
	epd_link_ops(l)->close(l);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
