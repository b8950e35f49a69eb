/* shard_log.c - logs cut at every byte, flipped at every byte, torn by 512s. */
#include "shard/segment.h"
#include "tests/unit/shard_log.h"

TEST(cut_at_every_byte)
{
	log_cut(6);
}

TEST(flip_every_byte_of_a_log)
{
	log_flip(6, -1, 0, 0, 16);
}

TEST(flip_every_byte_behind_a_checkpoint)
{
	log_flip(6, 4, 0, 0, 16);
}

TEST(flip_every_byte_with_the_log_whole)
{
	log_flip(6, 4, -1, 1, 16);
}

enum { APPENDS = 4000, CHECKPOINTS = 2000, GROUPS = 4500 };

TEST(power_loss_in_appends)
{
	log_torn(SHARD_SLOW ? 500 : APPENDS, 1);
}

TEST(power_loss_in_checkpoints)
{
	log_torn_checkpoint(SHARD_SLOW ? 200 : CHECKPOINTS, 1);
}

/* Many have appended, one is about to flush. */
TEST(power_loss_in_groups)
{
	log_torn_group(SHARD_SLOW ? 500 : GROUPS, 1);
	log_tell(SHARD_SLOW ? 1000 : 10000);
}

/* Damage is told by file and byte; what follows it shows it is no torn tail. */
TEST(damage_is_named)
{
	int dir = scratch_open();
	static struct log_history h;
	struct epd_why why = { "" };
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	struct shard_file *log;

	CHECK_INT(log_run(&h, dir, 6, -1, 0), 0);
	log = shard_file(&h.at[6], "log.00000001");
	log->data.p[64 + 8] ^= 1;	/* the first frame's length */
	CHECK_INT(shard_lay(&h.at[6], dir), 0);
	CHECK_INT(epd_shard_open(&s, dir, &o, &why), EPD_ECORRUPT);
	CHECK_STR(why.text, "log.00000001: byte 64: damaged before the end of "
	    "what was published");
	/* With a tip that knows nothing, the frames behind it tell. */
	CHECK_INT(shard_put(dir, "tip",
	    shard_file(&h.at[0], "tip")->data.p, 64), 0);
	CHECK_INT(epd_shard_open(&s, dir, &o, &why), EPD_ECORRUPT);
	CHECK_STR(why.text, "log.00000001: byte 64: damaged, and a whole frame "
	    "lies behind");
	log_free(&h);
	scratch_close(dir);
}

/* Without sync a lost frame may have a later one behind it: both are gone. */
TEST(relaxed_loses_a_tail_and_opens)
{
	int dir = scratch_open(), rc, sound;
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	struct shard_image im;
	struct shard_file *log;
	uint64_t two;
	uint32_t id;
	size_t end;

	epd_clock_fake(&log_now);
	o.sync = 0;
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(shard_create(s, 2, 0, &id), 0);
	two = shard_hash(s);
	epd_shard_close(s);
	CHECK_INT(shard_grab(&im, dir), 0);
	end = shard_file(&im, "log.00000001")->data.n;
	shard_image_free(&im);
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	CHECK_INT(shard_create(s, 3, 0, &id), 0);
	CHECK_INT(shard_create(s, 4, 0, &id), 0);
	epd_shard_close(s);
	CHECK_INT(shard_grab(&im, dir), 0);
	log = shard_file(&im, "log.00000001");
	log->data.p[end + 50] ^= 4;
	CHECK_INT(shard_lay(&im, dir), 0);
	CHECK(log_look(dir, &rc) == two);
	CHECK(log_settle(dir, &rc, &sound, 1) == two);
	CHECK(sound);
	/* What was flushed is still damage. */
	log->data.p[end + 50] ^= 4;
	log->data.p[70] ^= 4;
	CHECK_INT(shard_lay(&im, dir), 0);
	log_look(dir, &rc);
	CHECK_INT(rc, EPD_ECORRUPT);
	shard_image_free(&im);
	epd_clock_fake(NULL);
	scratch_close(dir);
}

TEST(missing_parts)
{
	int dir = scratch_open(), rc, sound;
	static struct log_history h;
	uint64_t hash;

	CHECK_INT(log_run(&h, dir, 8, 4, 0), 0);
	/* The tip alone can be had again. */
	unlinkat(dir, "tip", 0);
	CHECK(!log_look(dir, &rc));
	CHECK_INT(rc, EPD_ECORRUPT);
	hash = log_settle(dir, &rc, &sound, 1);
	CHECK(hash == h.hash[8] && sound);
	CHECK_INT(shard_lay(&h.at[8], dir), 0);
	unlinkat(dir, "checkpoint", 0);
	log_look(dir, &rc);
	CHECK_INT(rc, EPD_ECORRUPT);
	CHECK_INT(shard_lay(&h.at[8], dir), 0);
	unlinkat(dir, "log.00000002", 0);
	log_look(dir, &rc);
	CHECK_INT(rc, EPD_ECORRUPT);
	/* A tip that speaks of records is no empty folder. */
	unlinkat(dir, "checkpoint", 0);
	hash = log_settle(dir, &rc, &sound, 1);
	CHECK_INT(rc, EPD_ECORRUPT);
	log_free(&h);
	scratch_close(dir);
}

/* A sweep killed half way leaves segments with gaps: they are not the log. */
TEST(half_swept)
{
	int dir = scratch_open();
	struct epd_shard_options o = shard_plain;
	struct epd_shard *s;
	struct shard_image im;
	uint32_t id;

	o.log_keep = -1;
	CHECK_INT(epd_shard_open(&s, dir, &o, NULL), 0);
	for (int i = 0; i < 5; i++) {
		CHECK_INT(shard_create(s, 1, 0, &id), 0);
		CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	}
	epd_shard_close(s);
	CHECK_INT(shard_grab(&im, dir), 0);
	CHECK(shard_file(&im, "log.00000006"));
	shard_image_free(&im);
	unlinkat(dir, "log.00000003", 0);
	CHECK_INT(shard_open(&s, dir, 0), 0);
	CHECK_INT(epd_shard_check(s, shard_fault_print, NULL, NULL), 0);
	CHECK_INT(shard_create(s, 1, 0, &id), 0);
	CHECK_INT(epd_shard_checkpoint(s, NULL), 0);
	epd_shard_close(s);
	CHECK_INT(scratch_count(dir, NULL), 4);
	scratch_close(dir);
}

/* A whole frame in the wrong place is no frame of this log. */
TEST(frames_follow_each_other)
{
	int dir = scratch_open(), rc, sound;
	static struct log_history h;
	struct shard_file *log;
	struct epd_buf b = { 0 };
	size_t at;

	CHECK_INT(log_run(&h, dir, 3, -1, 0), 0);
	log = shard_file(&h.at[3], "log.00000001");
	at = shard_file(&h.at[2], "log.00000001")->data.n;
	epd_buf_put(&b, log->data.p, log->data.n);
	epd_buf_put(&b, log->data.p + at, log->data.n - at);
	CHECK_INT(shard_put(dir, log->name, b.p, b.n), 0);
	CHECK(log_look(dir, &rc) == h.hash[3]);
	/* It does not even open. */
	CHECK(!log_settle(dir, &rc, &sound, 1));
	CHECK_INT(rc, EPD_ECORRUPT);
	epd_buf_free(&b);
	log_free(&h);
	scratch_close(dir);
}

/* The whole salt is in the CRC, not the half of it that marks a frame. */
TEST(frames_are_salted)
{
	struct epd_segment one = { .number = 1, .base = 1,
	    .salt = 0x1111111122222222 }, other = one;
	struct epd_frame f = { .lsn = 1, .count = 1, .term = 1 }, g;
	struct epd_buf b = { 0 };

	other.salt ^= 1ull << 40;
	epd_frame_begin(&b);
	epd_buf_str(&b, "payload");
	epd_frame_end(&b, &one, &f);
	CHECK_INT(epd_frame_parse(epd_span(b.p, b.n), &one, &g), 1);
	CHECK_INT(g.payload.n, 7);
	CHECK_INT(epd_frame_parse(epd_span(b.p, b.n), &other, &g), 0);
	epd_buf_free(&b);
}

/* Parts of another workflow do not pass for this one's. */
TEST(foreign_parts)
{
	static const char *const part[] = { "tip", "checkpoint",
	    "log.00000002" };
	int dir = scratch_open(), rc, sound;
	static struct log_history a, b;

	CHECK_INT(log_run(&a, dir, 8, 4, 0), 0);
	epd_file_remove(dir, "log.00000002");
	epd_file_remove(dir, "checkpoint");
	epd_file_remove(dir, "tip");
	CHECK_INT(log_run(&b, dir, 8, 4, 0), 0);
	for (int i = 0; i < 3; i++) {
		struct shard_file *f = shard_file(&a.at[8], part[i]);

		CHECK_INT(shard_lay(&b.at[8], dir), 0);
		CHECK(log_look(dir, &rc) == b.hash[8]);
		CHECK_INT(shard_put(dir, f->name, f->data.p, f->data.n), 0);
		log_look(dir, &rc);
		CHECK_INT(rc, EPD_ECORRUPT);
		log_settle(dir, &rc, &sound, 1);
		CHECK_INT(rc, EPD_ECORRUPT);
	}
	log_free(&a);
	log_free(&b);
	scratch_close(dir);
}

/* Nor does a segment, where no checkpoint says whose it should be. */
TEST(foreign_segment)
{
	int dir = scratch_open(), rc;
	static struct log_history a, b;
	struct shard_file *f;

	CHECK_INT(log_run(&a, dir, 8, 4, -1), 0);
	shard_image_free(&b.at[0]);
	CHECK_INT(shard_lay(&b.at[0], dir), 0);
	CHECK_INT(log_run(&b, dir, 8, 4, -1), 0);
	CHECK_INT(shard_lay(&b.at[8], dir), 0);
	unlinkat(dir, "checkpoint", 0);
	CHECK(log_look(dir, &rc) == b.hash[8]);
	f = shard_file(&a.at[8], "log.00000002");
	CHECK_INT(shard_put(dir, f->name, f->data.p, f->data.n), 0);
	log_look(dir, &rc);
	CHECK_INT(rc, EPD_ECORRUPT);
	log_free(&a);
	log_free(&b);
	scratch_close(dir);
}

int
main(int argc, char **argv)
{
	setenv("TMPDIR", "/dev/shm", 0);
	return check_main(argc, argv);
}
