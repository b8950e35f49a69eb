/* fs_parts.c - the parts of the file system that need no mount: numbers, streams, pictures. */
#include <spng.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "fs/attr.h"
#include "fs/node.h"
#include "fs/stream.h"
#include "fs/text.h"
#include "tests/check.h"

static uint32_t seed = 12345;

static uint32_t
any(uint32_t n)
{
	seed = seed * 1664525 + 1013904223;
	return (seed >> 8) % n;
}

/* ---- nodes ---- */

enum { NAMES = 300, STEPS = 20000 };

/* Random lookups and forgets beneath a few directories, against counts kept beside. */
TEST(a_number_lives_as_long_as_it_is_looked_up)
{
	static struct { uint64_t ino; uint32_t up, lookups; int dir; } own[NAMES];
	const struct epd_fs_at dir = { .kind = EPD_FS_STATES };
	const struct epd_fs_at file = { .kind = EPD_FS_STATUS };
	struct epd_fs_nodes t;
	char name[16];

	CHECK_INT(epd_fs_nodes_open(&t), 0);
	for (int i = 0; i < NAMES; i++) {
		own[i].dir = i < 20;
		own[i].up = i < 5 ? NAMES : any(own[i].dir ? 5 : 20);
	}
	for (int step = 0; step < STEPS; step++) {
		int i = (int)any(NAMES);
		struct epd_fs_node *up, *n;

		snprintf(name, sizeof name, "n%d", i);
		up = own[i].up == NAMES ? epd_fs_node(&t, 1) :
		    own[own[i].up].ino ? epd_fs_node(&t,
		    own[own[i].up].ino) : NULL;
		if (any(2) && up) {
			n = epd_fs_node_take(&t, up, name, own[i].dir ? &dir :
			    &file);
			CHECK(n && n->up == up && !strcmp(n->name, name));
			CHECK(!own[i].ino || own[i].ino == n->ino);
			CHECK_INT(epd_fs_node_number(&t, up, name,
			    &n->at), n->ino);
			own[i].ino = n->ino;
			own[i].lookups++;
			CHECK_INT(n->lookups, own[i].lookups);
		} else if (own[i].lookups) {
			uint32_t k = 1 + any(own[i].lookups);

			epd_fs_node_drop(&t, epd_fs_node(&t, own[i].ino), k);
			own[i].lookups -= k;
		}
	}
	/* A directory that nobody looks up stays for what is in it. */
	for (int i = 0; i < NAMES; i++) {
		struct epd_fs_node *n = own[i].ino ? epd_fs_node(&t,
		    own[i].ino) : NULL;

		CHECK(!own[i].lookups || n);
		CHECK(own[i].lookups || !n || n->below);
	}
	for (int i = 0; i < NAMES; i++)
		if (own[i].lookups)
			epd_fs_node_drop(&t, epd_fs_node(&t, own[i].ino),
			    own[i].lookups);
	CHECK_INT(t.n, 1);
	CHECK(epd_fs_node(&t, 1) != NULL);
	epd_fs_nodes_close(&t);
}

TEST(a_number_is_the_same_at_every_mount_and_another_for_another_life)
{
	struct epd_fs_at at = { .kind = EPD_FS_WORKFLOW, .life = 1 };
	struct epd_fs_nodes a, b;
	struct epd_fs_node *x, *y, *z;

	CHECK_INT(epd_fs_nodes_open(&a), 0);
	CHECK_INT(epd_fs_nodes_open(&b), 0);
	for (int i = 0; i < 5000; i++) {
		char name[16];

		snprintf(name, sizeof name, "w%d", i);
		x = epd_fs_node_take(&a, epd_fs_node(&a, 1), name, &at);
		y = epd_fs_node_take(&b, epd_fs_node(&b, 1), name, &at);
		CHECK_INT(x->ino, y->ino);
	}
	at.life = 2;
	z = epd_fs_node_take(&a, epd_fs_node(&a, 1), "w1", &at);
	at.life = 1;
	x = epd_fs_node_take(&a, epd_fs_node(&a, 1), "w1", &at);
	CHECK(z != x && z->ino != x->ino);
	epd_fs_nodes_close(&a);
	epd_fs_nodes_close(&b);
}

/* ---- streams ---- */

TEST(a_stream_keeps_its_end_and_every_place)
{
	struct epd_fs_stream s = {0};
	char line[4001], buf[5000];
	const int lines = 9000;		/* 36 MB */
	uint64_t size;

	for (int i = 0; i < lines; i++) {
		memset(line, 'a' + i % 26, sizeof line);
		snprintf(line, sizeof line, "%08d", i);
		line[8] = 'x';
		epd_fs_stream_put(&s, epd_span(line, 3999));
	}
	size = epd_fs_stream_size(&s);
	CHECK_INT(size, (uint64_t)lines * 4000);
	CHECK(s.kept.n < 20u << 20);
	/* Of the newest 8 MiB all is there, where it was. */
	for (int i = lines - 2000; i < lines; i++) {
		CHECK_INT(epd_fs_stream_read(&s, (uint64_t)i * 4000, buf,
		    4000), 4000);
		CHECK_INT(atoi(buf), i);
		CHECK(buf[3999] == '\n' && buf[8] == 'x');
	}
	/* The oldest reads as empty lines, across the border too. */
	CHECK_INT(epd_fs_stream_read(&s, 0, buf, sizeof buf), sizeof buf);
	for (size_t i = 0; i < sizeof buf; i++)
		CHECK(buf[i] == '\n');
	CHECK_INT(epd_fs_stream_read(&s, s.gone - 10, buf, 4000), 4000);
	CHECK(buf[9] == '\n' && memcmp(buf + 10, s.kept.p, 3990) == 0);
	CHECK_INT(epd_fs_stream_read(&s, size - 1, buf, 10), 1);
	CHECK_INT(epd_fs_stream_read(&s, size, buf, 10), 0);
	CHECK_INT(epd_fs_stream_read(&s, size + 99, buf, 10), 0);
	epd_fs_stream_free(&s);
}

static int
refuse(void *arg, size_t n)
{
	(void)arg;
	(void)n;
	return 1;
}

TEST(a_line_without_memory_is_left_out)
{
	struct epd_fs_stream s = {0};
	char buf[8];

	epd_alloc_hook(refuse, NULL);
	epd_fs_stream_put(&s, epd_span_str("one"));
	epd_alloc_hook(NULL, NULL);
	epd_fs_stream_put(&s, epd_span_str("two"));
	CHECK_INT(epd_fs_stream_size(&s), 4);
	CHECK_INT(epd_fs_stream_read(&s, 0, buf, 8), 4);
	CHECK(!memcmp(buf, "two\n", 4));
	epd_fs_stream_free(&s);
}

/* ---- pictures ---- */

TEST(a_picture_is_a_png_of_the_size_that_was_told)
{
	static const uint32_t sides[][2] = { { 1, 1 }, { 3, 2 }, { 160, 96 },
	    { 148, 147 }, { 21845, 1 }, { 1, 21845 }, { 1008, 1008 } };

	for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
		const uint32_t w = sides[i][0], h = sides[i][1];
		uint8_t *rgb = epd_malloc((size_t)w * h * 3), *back;
		struct epd_buf b = {0};
		spng_ctx *c = spng_ctx_new(0);
		size_t n;

		for (size_t k = 0; k < (size_t)w * h * 3; k++)
			rgb[k] = (uint8_t)any(256);
		epd_buf_str(&b, "before");
		CHECK_INT(epd_fs_png(&b, rgb, w, h), 0);
		CHECK_INT(b.n - 6, epd_fs_png_size(w, h));
		spng_set_png_buffer(c, b.p + 6, b.n - 6);
		CHECK_INT(spng_decoded_image_size(c, SPNG_FMT_RGB8, &n), 0);
		CHECK_INT(n, (size_t)w * h * 3);
		back = epd_malloc(n);
		CHECK_INT(spng_decode_image(c, back, n, SPNG_FMT_RGB8, 0), 0);
		CHECK(!memcmp(rgb, back, n));
		spng_ctx_free(c);
		epd_buf_free(&b);
		epd_free(rgb);
		epd_free(back);
	}
}

TEST(a_picture_that_cannot_be_is_refused)
{
	struct epd_buf b = {0};

	CHECK_INT(epd_fs_png(&b, (const uint8_t *)"", 0, 5), EPD_ETOOBIG);
	CHECK_INT(epd_fs_png(&b, (const uint8_t *)"", 100000, 100000),
	    EPD_ETOOBIG);
	CHECK_INT(b.n, 0);
}

/* ---- the table ---- */

TEST(every_kind_has_its_place)
{
	int roots = 0;

	for (int i = 0; i < EPD_FS_KINDS; i++) {
		const struct epd_fs_kind *k = epd_fs_kind((enum epd_fs_id)i);

		roots += k->in == 0;
		CHECK(k->mode);
		CHECK(!k->find == !k->list);
		CHECK(S_ISDIR(k->mode) || !k->find);
		CHECK(!S_ISLNK(k->mode) || k->text);
		for (int d = 0; d < EPD_FS_KINDS; d++)
			if (k->in >> d & 1) {
				const struct epd_fs_kind *in = epd_fs_kind(
				    (enum epd_fs_id)d);

				CHECK(S_ISDIR(in->mode));
				/* One of many is found by its directory. */
				CHECK(k->name || in->find);
			}
	}
	CHECK_INT(roots, 1);
}

/* A disk may be away: what is looked for there holds up nobody else. */
TEST(what_a_disk_is_asked_for_is_asked_aside)
{
	const struct epd_fs_at page = { .kind = EPD_FS_PAGE };
	const struct epd_fs_at used = { .kind = EPD_FS_USED };

	CHECK(epd_fs_kind(EPD_FS_USED)->how & EPD_FS_ASIDE);
	CHECK(epd_fs_kind(EPD_FS_TIER_PAGES)->how & EPD_FS_ASIDE);
	CHECK(epd_fs_kind(EPD_FS_METRICS)->how & EPD_FS_ASIDE);
	CHECK(epd_fs_xattr_waits(&page, "user.epd.tier"));
	CHECK(epd_fs_xattr_waits(&page, "user.epd.error"));
	CHECK(epd_fs_xattr_waits(&page, ""));
	CHECK(!epd_fs_xattr_waits(&page, "user.epd.checksum"));
	CHECK(epd_fs_xattr_waits(&used, "user.epd.error"));
	CHECK(!epd_fs_xattr_waits(&used, "user.epd.tier"));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
