/* feature_cache - two-key commit, checked lookup, what is kept and for how long. */
#include "fault.h"

#include "feature.h"

#include "base/clock.h"
#include "tests/check.h"

static void
silent(void *arg, const char *text)
{
	int *n = arg;

	(void)text;
	++*n;
}

static int
check(struct cache *k)
{
	int told = 0, rc = epd_feature_check(k->c, silent, &told);

	return rc == told ? rc : -9999;
}

TEST(committed_is_read_back_and_hit)
{
	struct epd_feature f;
	struct epd_feature_meta m;
	struct epd_why why;
	struct cache k;
	float got[ROWS];

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(lookup(&k, &f, 0, &why), 0);
	CHECK_STR(why.text, "not in the cache");
	CHECK_INT(commit(&k, &f), 0);
	CHECK_INT(lookup(&k, &f, 1, NULL), 1);
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	CHECK_INT(count(&k, EPD_M_MM_HIT), 1);
	CHECK_INT(count(&k, EPD_M_MM_MISS), 1);
	CHECK_INT(count(&k, EPD_M_MM_READBACK), 1);
	/* Too small a buffer: a miss that deletes nothing. */
	CHECK_INT(epd_feature_lookup(k.c, &f, 0, got, sizeof got - 1, &why), 0);
	CHECK(strstr(why.text, "do not hold"));
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	CHECK_INT(epd_feature_meta(k.c, &f.fp, &m), 0);
	CHECK_STR(m.tenant, "t");
	CHECK_STR(m.family, "qwen2_5_vl");
	CHECK_STR(m.snapshot, "00ff");
	CHECK_STR(m.dtype, "f32");
	CHECK(epd_name_equal(&m.fp, &f.fp) && epd_name_equal(&m.model, &f.model));
	CHECK_INT(m.grid[2], 4);
	CHECK_INT(m.bytes, ROW_BYTES);
	CHECK_INT(m.pix_w, PIX_W);
	CHECK_INT(m.pix_h, PIX_H);
	CHECK_INT(m.deadline_ms, 0);
	CHECK(m.created_ms);
	CHECK_INT(check(&k), 0);
	CHECK_INT(cache_files(&k), 3);
	CHECK_INT(epd_feature_remove(k.c, &f.fp), 0);
	CHECK_INT(epd_feature_remove(k.c, &f.fp), 0);
	CHECK_INT(cache_files(&k), 0);
	CHECK_INT(epd_feature_meta(k.c, &f.fp, &m), -ENOENT);
	cache_close(&k);
}

/* One request: look up, encode the misses, commit, read back. */
static int
request(struct cache *k, const int *which, int n, int *encodes)
{
	struct epd_plan_image im[16];
	struct epd_feature f[16];

	for (int i = 0; i < n; i++) {
		f[i] = feature(which[i]);
		im[i] = (struct epd_plan_image){ .fp = f[i].fp,
		    .grid = { 1, 2, 4 } };
		im[i].hit = lookup(k, &f[i], 0, NULL);
		if (im[i].hit < 0)
			return im[i].hit;
	}
	epd_feature_plan(im, n, 2);
	for (int i = 0; i < n; i++)
		if (im[i].encode) {
			f[i] = feature(which[i]);
			++*encodes;
			if (commit(k, &f[i]) || lookup(k, &f[i], 1, NULL) != 1)
				return -1;
		}
	return 0;
}

TEST(the_numbers_16_16_16)
{
	struct cache k;
	int encodes = 0;

	CHECK_INT(cache_open(&k, 0), 0);
	for (int pass = 0; pass < 2; pass++)
		for (int r = 0; r < 4; r++) {
			int which[4] = { 4 * r, 4 * r + 1, 4 * r + 2, 4 * r + 3 };

			CHECK_INT(request(&k, which, 4, &encodes), 0);
		}
	CHECK_INT(count(&k, EPD_M_MM_HIT), 16);
	CHECK_INT(count(&k, EPD_M_MM_MISS), 16);
	CHECK_INT(count(&k, EPD_M_MM_READBACK), 16);
	CHECK_INT(encodes, 16);
	cache_close(&k);
}

TEST(three_encodes_instead_of_six)
{
	/* Two turns that share one of two images each; the second pass is free. */
	static const int turn[2][2] = { { 1, 2 }, { 2, 3 } };
	struct cache k;
	int encodes = 0, pairs = 0;

	CHECK_INT(cache_open(&k, 0), 0);
	for (int pass = 0; pass < 2; pass++) {
		for (int t = 0; t < 2; t++)
			CHECK_INT(request(&k, turn[t], 2, &encodes), 0);
		CHECK_INT(encodes, 3);
	}
	for (int i = 1; i <= 3; i++) {
		struct epd_feature f = feature(i);

		pairs += epd_feature_has(k.c, &f.fp, EPD_HAS_META) +
		    epd_feature_has(k.c, &f.fp, EPD_HAS_BLOB);
	}
	CHECK_INT(pairs, 6);
	/* Two images, two keys each: four objects. */
	encodes = 0;
	CHECK_INT(epd_feature_remove(k.c, &(struct epd_name){ { 0 } }), 0);
	for (int i = 1; i <= 3; i++) {
		struct epd_feature f = feature(i);

		CHECK_INT(epd_feature_remove(k.c, &f.fp), 0);
	}
	CHECK_INT(request(&k, (const int[]){ 5, 6, 5 }, 3, &encodes), 0);
	CHECK_INT(encodes, 2);
	CHECK_INT(cache_files(&k), 4 + 2);
	cache_close(&k);
}

TEST(kind06_swapped_images_do_not_miss_on_all)
{
	struct cache k;
	int encodes = 0;

	CHECK_INT(cache_open(&k, 0), 0);
	CHECK_INT(request(&k, (const int[]){ 1, 2, 3 }, 3, &encodes), 0);
	CHECK_INT(request(&k, (const int[]){ 3, 1, 2 }, 3, &encodes), 0);
	CHECK_INT(encodes, 3);
	CHECK_INT(request(&k, (const int[]){ 1, 4, 3 }, 3, &encodes), 0);
	CHECK_INT(encodes, 4);
	cache_close(&k);
}

TEST(kind07_alternation_does_not_bleed)
{
	struct epd_feature a, b;
	struct cache k;
	int encodes = 0;

	CHECK_INT(cache_open(&k, 0), 0);
	CHECK_INT(request(&k, (const int[]){ 1 }, 1, &encodes), 0);
	CHECK_INT(request(&k, (const int[]){ 2 }, 1, &encodes), 0);
	for (int i = 0; i < 8; i++) {
		/* lookup compares with the rows feature() has just made. */
		a = feature(1);
		CHECK_INT(lookup(&k, &a, 0, NULL), 1);
		b = feature(2);
		CHECK_INT(lookup(&k, &b, 0, NULL), 1);
	}
	cache_close(&k);
}

/* ---- damage ---- */

enum { PAIR = EPD_HAS_META | EPD_HAS_BLOB };

TEST(every_byte_of_meta_flipped)
{
	struct epd_feature_meta m;
	struct epd_feature f;
	struct cache k;
	struct epd_buf b = { 0 };

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	CHECK_INT(epd_meta_read(k.c, &f.fp, &b), 0);
	for (size_t i = 0; i < b.n; i++) {
		int fd = file_of(&k, &f, EPD_HAS_META);
		uint8_t c;

		CHECK(pread(fd, &c, 1, (off_t)i) == 1);
		c ^= (uint8_t)(1 << i % 8);
		CHECK(pwrite(fd, &c, 1, (off_t)i) == 1);
		close(fd);
		CHECK_INT(epd_feature_meta(k.c, &f.fp, &m), EPD_ECORRUPT);
		CHECK_INT(lookup(&k, &f, 0, NULL), 0);
		CHECK_INT(count(&k, EPD_M_CORRUPT_META), i + 1);
		/* The pair has gone, the picture stays. */
		CHECK_INT(cache_files(&k), 1);
		CHECK_INT(commit(&k, &f), 0);
		CHECK_INT(lookup(&k, &f, 1, NULL), 1);
	}
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	CHECK(b.n > 500);
	epd_buf_free(&b);
	cache_close(&k);
}

TEST(every_byte_of_the_blob_flipped)
{
	struct epd_feature f;
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	for (int i = 0; i < EPD_FEATURE_HEAD + ROW_BYTES; i++) {
		int fd = file_of(&k, &f, EPD_HAS_BLOB);
		uint8_t c;

		CHECK(pread(fd, &c, 1, i) == 1);
		c ^= (uint8_t)(1 << i % 8);
		CHECK(pwrite(fd, &c, 1, i) == 1);
		close(fd);
		if (i % 8 == 0)
			CHECK_INT(check(&k), 1);
		CHECK_INT(lookup(&k, &f, 0, NULL), 0);
		CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), i + 1);
		CHECK_INT(cache_files(&k), 1);
		CHECK_INT(commit(&k, &f), 0);
	}
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(check(&k), 0);
	cache_close(&k);
}

/* Write meta as g would be committed, with a right checksum, under f's name. */
static int
forge(struct cache *k, const struct epd_feature *f, const struct epd_feature *g,
    const struct epd_meta *m)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf b = { 0 };
	struct epd_span part;
	int rc = epd_meta_pack(&b, g, m);

	epd_feature_path(path, &f->fp, EPD_HAS_META);
	part = epd_span(b.p, b.n);
	if (!rc)
		rc = epd_file_replace(k->c->dirfd, path, &part, 1, 0);
	epd_buf_free(&b);
	return rc;
}

TEST(every_field_of_meta_wrong_alone_with_a_right_checksum)
{
	static const char *const field[] = { "fp", "model", "tenant",
	    "snapshot", "family", "numeric", "processor", "dtype",
	    "quantisation", "adapter", "resampler", "exif", "alpha",
	    "arithmetic", "merge", "patch", "temporal", "min_pixels",
	    "max_pixels", "mean", "std", "grid", "grid", "grid", "layers",
	    "tokens", "hidden", "dtype" };
	const int n = sizeof field / sizeof *field;
	struct epd_meta m = { 0 };
	struct epd_feature f;
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	m.blob_sum = epd_blake2b64(epd_span(rows, sizeof rows));
	m.created_ms = 1;
	for (int i = 0; i < n; i++) {
		struct epd_model_parts p = parts;
		struct epd_feature g = f;
		struct epd_why why;

		g.parts = &p;
		switch (i) {
		case 0: g.fp.b[31] ^= 1; break;
		case 1: g.model.b[31] ^= 1; break;
		case 2: p.tenant = "u"; break;
		case 3: p.snapshot = "00fe"; break;
		case 4: p.family = "x"; break;
		case 5: p.numeric = "x"; break;
		case 6: p.processor = "x"; break;
		case 7: p.dtype = "bf16"; break;
		case 8: p.quantisation = "x"; break;
		case 9: p.adapter = "x"; break;
		case 10: p.resampler = "pil"; break;
		case 11: p.exif = "ignored"; break;
		case 12: p.alpha = "drop"; break;
		case 13: p.arithmetic++; break;
		case 14: p.merge++; break;
		case 15: p.patch++; break;
		case 16: p.temporal++; break;
		case 17: p.min_pixels++; break;
		case 18: p.max_pixels++; break;
		case 19: p.mean[1] = 0.5f; break;
		case 20: p.std[2] = 0.5f; break;
		case 21: g.grid[0]++; break;
		case 22: g.grid[1]++; break;
		case 23: g.grid[2]++; break;
		case 24: g.layers++; break;
		case 25: g.tokens++; break;
		case 26: g.hidden++; break;
		case 27: g.dtype = "bf16"; break;
		}
		CHECK_INT(commit(&k, &f), 0);
		CHECK_INT(forge(&k, &f, &f, &m), 0);
		CHECK_INT(lookup(&k, &f, 0, NULL), 1);
		CHECK_INT(forge(&k, &f, &g, &m), 0);
		CHECK_INT(lookup(&k, &f, 0, &why), 0);
		if (!strstr(why.text, field[i]))
			CHECK_FAIL("%s: %s", field[i], why.text);
		CHECK_INT(count(&k, EPD_M_CORRUPT_META), i + 1);
		CHECK_INT(cache_files(&k), 1);
	}
	cache_close(&k);
}

/* Replace one text in meta by another and put the checksum right. */
static int
edit(struct cache *k, const struct epd_feature *f, const char *from,
    const char *to)
{
	char path[EPD_FEATURE_PATH];
	struct epd_buf b = { 0 }, out = { 0 };
	struct epd_span part;
	const char *at, *end;
	int rc = epd_meta_read(k->c, &f->fp, &b);

	epd_buf_cstr(&b);
	at = rc ? NULL : strstr((char *)b.p, from);
	end = rc ? NULL : strstr((char *)b.p, ", \"sum\"");
	if (!at || !end)
		return -1;
	epd_buf_put(&out, b.p, (size_t)(at - (char *)b.p));
	epd_buf_str(&out, to);
	epd_buf_put(&out, at + strlen(from), (size_t)(end - at) - strlen(from));
	epd_buf_fmt(&out, ", \"sum\": \"%016llx\"}\n", (unsigned long long)
	    epd_blake2b64(epd_span(out.p, out.n)));
	epd_feature_path(path, &f->fp, EPD_HAS_META);
	part = epd_span(out.p, out.n);
	rc = epd_file_replace(k->c->dirfd, path, &part, 1, 0);
	epd_buf_free(&b);
	epd_buf_free(&out);
	return rc;
}

TEST(meta_that_says_more_less_or_otherwise)
{
	static const char *const change[][2] = {
		{ "\"schema_version\": 1", "\"schema_version\": 2" },
		{ "\"schema_version\": 1, ", "" },
		{ "\"layers\": 1", "\"layers\": \"1\"" },
		{ "\"layers\": 1", "\"layers\": 1.0" },
		{ "\"layers\": 1", "\"layers\": -1" },
		{ "\"bytes\": 128", "\"bytes\": 64" },
		{ "\"hidden\": 8", "\"hidden\": 8, \"more\": 1" },
		{ "\"hidden\": 8", "\"hidden\": 8, \"hidden\": 8" },
		{ "\"grid\": [1", "\"grid\": [1, 1" },
		{ "\"blob_sum\": \"", "\"blob_sum\": \"00" },
		{ "\"created_ms\": ", "\"created_ms\": 99999999999" },
		{ "\"created_ms\"", "\"made_ms\"" },
		{ "\"pix\": [56, 28]", "\"pix\": [4294967296, 28]" },
		{ "\"pix\": [56, 28]", "\"pix\": 7" },
		{ "{\"schema", " {\"schema" },
		{ "{\"schema", "[\"schema" },
	};
	struct epd_feature f;
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	for (size_t i = 0; i < sizeof change / sizeof *change; i++) {
		CHECK_INT(commit(&k, &f), 0);
		CHECK_INT(edit(&k, &f, change[i][0], change[i][1]), 0);
		if (lookup(&k, &f, 0, NULL))
			CHECK_FAIL("%s is a hit", change[i][1]);
		CHECK_INT(count(&k, EPD_M_CORRUPT_META), i + 1);
		CHECK_INT(cache_files(&k), 1);
	}
	cache_close(&k);
}

TEST(a_newer_programs_meta_is_left_to_it)
{
	struct epd_feature_swept gone;
	struct epd_feature_meta m;
	struct epd_feature f;
	struct cache k;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	CHECK_INT(edit(&k, &f, "\"schema_version\": 1",
	    "\"schema_version\": 2"), 0);
	CHECK_INT(epd_feature_meta(k.c, &f.fp, &m), EPD_EKIND);
	CHECK_INT(check(&k), 1);
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(gone.orphans, 0);
	CHECK_INT(cache_files(&k), 3);
	cache_close(&k);
}

TEST(mixed_short_long_and_missing_blobs)
{
	struct epd_feature f;
	struct cache k;
	struct epd_meta m = { 0 };
	int bad = 0, dir, fd;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	for (int i = 0; i < 6; i++) {
		CHECK_INT(commit(&k, &f), 0);
		fd = file_of(&k, &f, EPD_HAS_BLOB);
		if (i == 0)
			CHECK_INT(ftruncate(fd, EPD_FEATURE_HEAD + ROW_BYTES - 1), 0);
		if (i == 1)
			CHECK_INT(ftruncate(fd, EPD_FEATURE_HEAD + ROW_BYTES + 1), 0);
		if (i == 2)
			CHECK_INT(ftruncate(fd, 0), 0);
		close(fd);
		if (i == 3)
			CHECK_INT(epd_feature_unlink(k.c, &f.fp, EPD_HAS_BLOB,
			    NULL), 0);
		if (i == 4) {
			/* Another commit's blob: whole in itself. */
			char path[EPD_FEATURE_PATH];
			uint64_t sum;
			float other[ROWS] = { 1 };

			epd_feature_path(path, &f.fp, EPD_HAS_META);
			path[2] = 0;
			dir = epd_dir_make(k.c->dirfd, path);
			CHECK_INT(epd_blob_write(k.c, dir, &f.fp, other,
			    sizeof other, &sum), 0);
			close(dir);
		}
		if (i == 5) {
			/* A stale meta. */
			m.created_ms = 1;
			m.blob_sum = 12345;
			CHECK_INT(forge(&k, &f, &f, &m), 0);
		}
		CHECK_INT(lookup(&k, &f, 0, NULL), 0);
		CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), ++bad);
		CHECK_INT(cache_files(&k), 1);
	}
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	cache_close(&k);
}

TEST(kind17_another_features_files)
{
	struct epd_feature a, b;
	char from[EPD_FEATURE_PATH], to[EPD_FEATURE_PATH];
	struct cache k;
	uint8_t *rgb;
	long h, w;

	CHECK_INT(cache_open(&k, 0), 0);
	for (int which = EPD_HAS_META; which <= EPD_HAS_PIX; which <<= 1) {
		b = feature(2);
		CHECK_INT(commit(&k, &b), 0);
		a = feature(1);
		CHECK_INT(commit(&k, &a), 0);
		epd_feature_path(from, &b.fp, which);
		epd_feature_path(to, &a.fp, which);
		CHECK_INT(renameat(k.c->dirfd, from, k.c->dirfd, to), 0);
		if (which == EPD_HAS_PIX)
			CHECK_INT(epd_feature_pixels(k.c, &a.fp, &rgb, &h, &w),
			    EPD_ECORRUPT);
		else
			CHECK_INT(lookup(&k, &a, 0, NULL), 0);
		CHECK(check(&k) >= 0);
		CHECK_INT(epd_feature_remove(k.c, &a.fp), 0);
		CHECK_INT(epd_feature_remove(k.c, &b.fp), 0);
	}
	cache_close(&k);
}

/* ---- a broken folder surfaces ---- */

TEST(lookup_registration_failure_surfaces)
{
	struct epd_feature f;
	struct cache k;
	struct epd_why why;
	char fan[3] = "", path[EPD_FEATURE_PATH];
	pid_t pid;
	int fd;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	epd_feature_path(path, &f.fp, EPD_HAS_META);
	memcpy(fan, path, 2);
	/* EIO from the disk, in reading either file. */
	fault.only = "read";
	fault_arm(1, EIO, FAULT_ON);
	CHECK_INT(lookup(&k, &f, 0, &why), -EIO);
	fault_calls();
	CHECK(strstr(why.text, "Input/output"));
	for (int at = 1; at <= 2; at++) {
		fault.only = "pread";
		fault_arm(at, EIO, 0);
		CHECK_INT(lookup(&k, &f, 0, NULL), -EIO);
		fault_calls();
	}
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	/* EACCES. */
	pid = geteuid() ? -1 : fork();
	if (!pid) {
		if (seteuid(65534))
			_exit(77);
		_exit(lookup(&k, &f, 0, NULL) == -EACCES ? 0 : 1);
	}
	if (pid > 0)
		CHECK_INT(scratch_wait(pid), 0);
	CHECK_INT(count(&k, EPD_M_MM_MISS), 0);
	CHECK_INT(epd_feature_remove(k.c, &f.fp), 0);
	/* ENOTDIR, and a link that leads elsewhere. */
	CHECK_INT(unlinkat(k.c->dirfd, fan, AT_REMOVEDIR), 0);
	fd = openat(k.c->dirfd, fan, O_CREAT | O_RDWR, 0600);
	close(fd);
	CHECK_INT(lookup(&k, &f, 0, NULL), -ENOTDIR);
	CHECK(commit(&k, &f) < 0);
	CHECK_INT(unlinkat(k.c->dirfd, fan, 0), 0);
	CHECK_INT(symlinkat("/tmp", k.c->dirfd, fan), 0);
	CHECK_INT(lookup(&k, &f, 0, NULL), -ELOOP);
	CHECK_INT(unlinkat(k.c->dirfd, fan, 0), 0);
	CHECK_INT(lookup(&k, &f, 0, NULL), 0);
	/* The folder itself. */
	CHECK_INT(epd_file_remove(k.dir, "features"), 0);
	CHECK_INT(lookup(&k, &f, 0, NULL), -ENOENT);
	CHECK_INT(count(&k, EPD_M_MM_MISS), 1);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(count(&k, EPD_M_CORRUPT_BLOB), 0);
	cache_close(&k);
}

/* ---- pictures ---- */

TEST(the_picture_comes_back_or_is_damaged)
{
	struct epd_feature f;
	struct cache k;
	struct stat st;
	uint8_t *rgb;
	long h, w;
	int fd;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(3);
	CHECK_INT(epd_feature_pixels(k.c, &f.fp, &rgb, &h, &w), -ENOENT);
	CHECK_INT(commit(&k, &f), 0);
	CHECK_INT(epd_feature_pixels(k.c, &f.fp, &rgb, &h, &w), 0);
	CHECK_INT(h, PIX_H);
	CHECK_INT(w, PIX_W);
	CHECK(!memcmp(rgb, pixels, sizeof pixels));
	epd_free(rgb);
	fd = file_of(&k, &f, EPD_HAS_PIX);
	CHECK_INT(fstat(fd, &st), 0);
	close(fd);
	CHECK(st.st_size < (long)sizeof pixels);
	for (int i = 0; i <= st.st_size; i++) {
		uint8_t c;

		fd = file_of(&k, &f, EPD_HAS_PIX);
		if (i < st.st_size) {
			CHECK(pread(fd, &c, 1, i) == 1);
			c ^= (uint8_t)(1 << i % 8);
			CHECK(pwrite(fd, &c, 1, i) == 1);
		} else {
			CHECK_INT(ftruncate(fd, st.st_size - 1), 0);
		}
		close(fd);
		rgb = NULL;
		h = -1;
		if (i % 8 == 0)
			CHECK_INT(check(&k), 1);
		CHECK_INT(epd_feature_pixels(k.c, &f.fp, &rgb, &h, &w),
		    EPD_ECORRUPT);
		CHECK(!rgb && h == -1);
		CHECK_INT(epd_feature_pixels(k.c, &f.fp, &rgb, &h, &w), -ENOENT);
		/* The pair is whole, yet the picture is put back. */
		CHECK_INT(lookup(&k, &f, 0, NULL), 1);
		CHECK_INT(commit(&k, &f), 0);
		CHECK_INT(cache_files(&k), 3);
	}
	cache_close(&k);
}

TEST(a_picture_that_lies_about_its_size)
{
	/* 1 x 1 of a frame of many, and a bomb's sizes without a bomb. */
	static const uint32_t size[][2] = { { 1, 1 }, { 0, 28 }, { 65535, 65535 },
	    { 4294967295u, 4294967295u }, { 13377, 13378 } };
	uint8_t file[4096];
	struct epd_feature f;
	struct cache k;
	uint8_t *rgb;
	uint32_t h, w;
	ssize_t n;
	int fd;

	CHECK_INT(cache_open(&k, 0), 0);
	f = feature(3);
	CHECK_INT(commit(&k, &f), 0);
	fd = file_of(&k, &f, EPD_HAS_PIX);
	n = epd_file_pread(fd, file, sizeof file, 0);
	close(fd);
	CHECK(n > EPD_FEATURE_HEAD && n < (ssize_t)sizeof file);
	for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
		uint32_t crc;

		for (int b = 0; b < 4; b++) {
			file[40 + b] = (uint8_t)(size[i][0] >> 8 * b);
			file[44 + b] = (uint8_t)(size[i][1] >> 8 * b);
		}
		crc = epd_crc32c(0, file, 60);
		for (int b = 0; b < 4; b++)
			file[60 + b] = (uint8_t)(crc >> 8 * b);
		CHECK_INT(epd_pix_unpack(epd_span(file, (size_t)n), &f.fp, &rgb,
		    &h, &w, NULL), EPD_ECORRUPT);
	}
	CHECK_INT(epd_feature_commit(k.c, &f, rows, pixels, 0, 5), 0);
	epd_feature_remove(k.c, &f.fp);
	CHECK_INT(epd_feature_commit(k.c, &f, rows, pixels, 0, 5), -EINVAL);
	CHECK_INT(epd_feature_commit(k.c, &f, rows, pixels, 1L << 40, 1L << 40),
	    EPD_ETOOBIG);
	CHECK_INT(cache_files(&k), 0);
	cache_close(&k);
}

/* ---- time ---- */

static int
keep_all(void *arg, const struct epd_name *fp)
{
	(void)fp;
	++*(int *)arg;
	return 1;
}

TEST(ttl_by_the_wall_clock)
{
	struct epd_clock_fake now = { epd_clock_wall_ms(), 1 };
	struct epd_feature_swept gone;
	struct epd_feature a, b;
	struct cache k;
	int asked = 0;

	CHECK_INT(cache_open(&k, 1000), 0);
	epd_clock_fake(&now);
	a = feature(1);
	CHECK_INT(commit(&k, &a), 0);
	/* No picture, no end: it is all there is. */
	b = feature(2);
	CHECK_INT(epd_feature_commit(k.c, &b, rows, NULL, 0, 0), 0);
	now.wall_ms += 999;
	a = feature(1);
	CHECK_INT(lookup(&k, &a, 0, NULL), 1);
	now.wall_ms += 1;
	CHECK_INT(lookup(&k, &a, 0, NULL), 0);
	CHECK_INT(count(&k, EPD_M_MM_EXPIRED), 1);
	CHECK_INT(count(&k, EPD_M_CORRUPT_META), 0);
	CHECK_INT(cache_files(&k), 3);
	b = feature(2);
	CHECK_INT(lookup(&k, &b, 0, NULL), 1);
	/* Encoded again from the kept picture: it expires again. */
	a = feature(1);
	CHECK_INT(epd_feature_commit(k.c, &a, rows, NULL, 0, 0), 0);
	CHECK_INT(lookup(&k, &a, 1, NULL), 1);
	/* kind 24: looking renews nothing. */
	now.wall_ms += 999;
	CHECK_INT(lookup(&k, &a, 0, NULL), 1);
	CHECK_INT(commit(&k, &a), 0);
	now.wall_ms += 2;
	CHECK_INT(epd_feature_sweep(k.c, 3600000, keep_all, &asked, &gone), 0);
	CHECK_INT(gone.expired, 1);
	CHECK_INT(gone.orphans, 0);
	CHECK(gone.bytes > ROW_BYTES && asked == 1);
	CHECK_INT(cache_files(&k), 3);
	now.wall_ms += 3600000;
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(gone.orphans, 1);
	CHECK_INT(cache_files(&k), 2);
	/* If the picture is lost, so is the end. */
	a = feature(1);
	CHECK_INT(commit(&k, &a), 0);
	CHECK_INT(epd_feature_unlink(k.c, &a.fp, EPD_HAS_PIX, NULL), 0);
	now.wall_ms += 5000;
	CHECK_INT(lookup(&k, &a, 0, NULL), 1);
	epd_clock_fake(NULL);
	cache_close(&k);
}

TEST(ttl_without_end_saturates)
{
	struct epd_feature_meta m;
	struct epd_feature f;
	struct cache k;

	CHECK_INT(cache_open(&k, UINT64_MAX), 0);
	f = feature(1);
	CHECK_INT(commit(&k, &f), 0);
	CHECK_INT(epd_feature_meta(k.c, &f.fp, &m), 0);
	CHECK_INT(m.deadline_ms, INT64_MAX);
	CHECK_INT(lookup(&k, &f, 0, NULL), 1);
	cache_close(&k);
}

/* ---- names ---- */

struct list { int n; struct epd_name last; int disorder; };

static int
list(void *arg, const struct epd_name *fp)
{
	struct list *l = arg;

	if (l->n && memcmp(l->last.b, fp->b, EPD_NAME) >= 0)
		l->disorder = 1;
	l->last = *fp;
	l->n++;
	return 0;
}

static int
stop(void *arg, const struct epd_name *fp)
{
	(void)arg;
	(void)fp;
	return 7;
}

TEST(listed_by_prefix_in_order)
{
	struct list l = { 0 };
	struct epd_feature f;
	struct cache k;
	char hex[65];

	CHECK_INT(cache_open(&k, 0), 0);
	for (int i = 0; i < 40; i++) {
		f = feature(i);
		CHECK_INT(commit(&k, &f), 0);
	}
	/* A blob alone is no feature. */
	CHECK_INT(epd_feature_unlink(k.c, &f.fp, EPD_HAS_META, NULL), 0);
	CHECK_INT(epd_feature_each(k.c, "", list, &l), 0);
	CHECK_INT(l.n, 39);
	CHECK(!l.disorder);
	f = feature(0);
	epd_hex_format(hex, f.fp.b, EPD_NAME);
	for (size_t len = 64; len >= 5; len--) {
		hex[len] = 0;
		l.n = 0;
		CHECK_INT(epd_feature_each(k.c, hex, list, &l), 0);
		CHECK_INT(l.n, 1);
	}
	hex[1] = 0;
	l.n = 0;
	CHECK_INT(epd_feature_each(k.c, hex, list, &l), 0);
	CHECK(l.n >= 1 && l.n < 20 && !l.disorder);
	l.n = 0;
	CHECK_INT(epd_feature_each(k.c, "xyz", list, &l), 0);
	CHECK_INT(epd_feature_each(k.c, "ABCD", list, &l), 0);
	CHECK_INT(l.n, 0);
	CHECK_INT(epd_feature_each(k.c, "", stop, NULL), 7);
	cache_close(&k);
}

TEST(kind18_bytes_swept_are_bytes_written)
{
	struct epd_feature_swept gone = { 0 };
	struct epd_feature f;
	struct cache k;
	struct stat st;
	uint64_t bytes = 0;

	CHECK_INT(cache_open(&k, 0), 0);
	for (int i = 0; i < 20; i++) {
		f = feature(i);
		CHECK_INT(commit(&k, &f), 0);
		for (int w = EPD_HAS_BLOB; w <= EPD_HAS_PIX; w <<= 1) {
			char path[EPD_FEATURE_PATH];

			epd_feature_path(path, &f.fp, w);
			CHECK_INT(fstatat(k.c->dirfd, path, &st, 0), 0);
			bytes += (uint64_t)st.st_size;
		}
		CHECK_INT(epd_feature_unlink(k.c, &f.fp, EPD_HAS_META, NULL), 0);
	}
	CHECK_INT(epd_feature_sweep(k.c, 3600000, NULL, NULL, &gone), 0);
	CHECK_INT(gone.orphans + gone.bytes, 0);
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(gone.bytes, bytes);
	CHECK_INT(cache_files(&k), 0);
	CHECK_INT(sweep(&k, &gone), 0);
	CHECK_INT(gone.orphans + gone.bytes, 0);
	cache_close(&k);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
