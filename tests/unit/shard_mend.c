/*
 * shard_mend.c - what a sweep puts right: a torn tail is cut and counted, a
 * damaged checkpoint is written again while the log has what was in it.
 */
#include "tests/unit/shard.h"

enum { STATES = 30 };

/* Some states with a checkpoint in their midst; the log is kept or not. */
static int
begin(int keep)
{
	struct epd_shard_options o = shard_plain;
	int dir = scratch_open(), rc;
	struct epd_shard *s;
	uint32_t id;

	o.log_keep = keep ? -1 : 0;
	rc = epd_shard_open(&s, dir, &o, NULL);
	for (uint64_t i = 1; !rc && i <= STATES; i++) {
		rc = shard_create(s, i, i, &id);
		if (!rc && i == STATES / 2)
			rc = epd_shard_checkpoint(s, NULL);
	}
	epd_shard_close(s);
	return dir;
}

static uint64_t
shown(int dir)
{
	struct epd_shard *s;
	uint64_t h = 0;

	if (!shard_open(&s, dir, 1)) {
		h = shard_hash(s);
		epd_shard_close(s);
	}
	return h;
}

static int
faults(int dir)
{
	struct epd_shard *s;
	int n = shard_open(&s, dir, 1);

	if (n)
		return n;
	n = epd_shard_check(s, NULL, NULL, NULL);
	epd_shard_close(s);
	return n;
}

/* As a sweep: opened to write, and mended. */
static int
mend(int dir, struct epd_why *why)
{
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	int rc;

	o.log_keep = -1;
	why->text[0] = '\0';
	rc = epd_shard_open(&s, dir, &o, why);
	if (rc)
		return rc;
	rc = epd_shard_mend(s, why);
	epd_shard_close(s);
	return rc;
}

TEST(a_damaged_checkpoint_is_written_again)
{
	struct shard_image im;
	struct epd_why why;
	int dir = begin(1), n = 0;
	const uint64_t was = shown(dir);
	const struct shard_file *f;
	uint8_t *p;

	CHECK(was != 0);
	CHECK_INT(mend(dir, &why), 0);
	CHECK_INT(shard_grab(&im, dir), 0);
	f = shard_file(&im, "checkpoint");
	p = malloc(f->data.n);
	for (size_t at = 0; at < f->data.n; at += 1 + at / 16) {
		int rc;

		memcpy(p, f->data.p, f->data.n);
		p[at] ^= 0x41;
		CHECK_INT(shard_lay(&im, dir), 0);
		CHECK_INT(shard_put(dir, "checkpoint", p, f->data.n), 0);
		CHECK(faults(dir) > 0);
		rc = mend(dir, &why);
		CHECK_INT(rc, 1);
		CHECK_INT(faults(dir), 0);
		CHECK(shown(dir) == was);
		CHECK_INT(mend(dir, &why), 0);
		n++;
	}
	CHECK(n > 20);
	CHECK_INT(shard_lay(&im, dir), 0);
	CHECK_INT(shard_put(dir, "checkpoint", "x\n", 2), 0);
	CHECK_INT(faults(dir), 1);
	CHECK_INT(mend(dir, &why), 1);
	CHECK_INT(faults(dir), 0);
	CHECK(shown(dir) == was);
	free(p);
	shard_image_free(&im);
	scratch_close(dir);
}

/* It is damage then, and says so; nothing is written. */
TEST(not_without_the_log)
{
	struct shard_image im, now;
	struct epd_why why;
	int dir = begin(0), said = 0;
	const struct shard_file *f, *g;
	uint8_t *p;

	CHECK_INT(shard_grab(&im, dir), 0);
	f = shard_file(&im, "checkpoint");
	p = malloc(f->data.n);
	/* Its index and its bodies. */
	for (size_t at = 100; at < f->data.n; at += 1 + at / 4) {
		memcpy(p, f->data.p, f->data.n);
		p[at] ^= 0x41;
		CHECK_INT(shard_lay(&im, dir), 0);
		CHECK_INT(shard_put(dir, "checkpoint", p, f->data.n), 0);
		CHECK_INT(mend(dir, &why), EPD_ECORRUPT);
		CHECK(strstr(why.text, "the log's first records are gone") ||
		    strstr(why.text, "the log has no more what was in it"));
		said += strstr(why.text, "no more what was") != NULL;
		CHECK_INT(shard_grab(&now, dir), 0);
		g = shard_file(&now, "checkpoint");
		CHECK(g->data.n == f->data.n &&
		    !memcmp(g->data.p, p, f->data.n));
		shard_image_free(&now);
	}
	CHECK(said > 0);
	free(p);
	shard_image_free(&im);
	scratch_close(dir);
}

TEST(a_torn_tail_is_cut_and_counted)
{
	int dir = begin(1), fd;
	const uint64_t was = shown(dir);
	uint64_t bytes = 7;
	struct epd_why why = { "" };
	struct epd_shard *s;
	struct stat st;
	off_t size;

	CHECK_INT(fstatat(dir, "log.00000002", &st, 0), 0);
	size = st.st_size;
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_trim(s, &bytes, &why), 0);
	CHECK_INT(bytes, 0);
	fd = openat(dir, "log.00000002", O_WRONLY | O_APPEND);
	CHECK_INT(write(fd, "half a frame", 12), 12);
	close(fd);
	CHECK_INT(epd_shard_trim(s, &bytes, &why), 0);
	CHECK_INT(bytes, 12);
	epd_shard_close(s);
	CHECK_INT(fstatat(dir, "log.00000002", &st, 0), 0);
	CHECK_INT(st.st_size, size);
	CHECK(shown(dir) == was);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
