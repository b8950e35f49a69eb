/* wire_frame.c - heads: what is packed is unpacked, and every lie is refused. */
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "tests/check.h"
#include "transport/auth.h"
#include "transport/frame.h"

static const struct epd_frame read_question = { .verb = EPD_WIRE_READ,
	.flags = EPD_FRAME_SUMMED, .id = 0x1122334455667788, .body =
	EPD_FRAME_RANGE };

TEST(as_drawn)
{
	static const uint8_t want[] = { 'E', 'P', 'D', '1', 4, 0, 2, 0, 0x88, 0x77,
		0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0, 0, 0, 20, 0, 0, 0, 0, 0, 0,
		0 };
	uint8_t b[EPD_FRAME];
	struct epd_frame f;
	struct epd_cur c;

	epd_frame_pack(b, &read_question);
	CHECK(!memcmp(b, want, sizeof want));
	c = epd_cur(epd_span(b + 44, 4));
	CHECK(epd_unpack_u32(&c) == epd_crc32c(0, b, 44));
	CHECK_INT(epd_frame_unpack(&f, b), 0);
	CHECK_INT(f.verb, EPD_WIRE_READ);
	CHECK_INT(f.flags, EPD_FRAME_SUMMED);
	CHECK(f.id == read_question.id);
	CHECK_INT(f.body, EPD_FRAME_RANGE);
}

TEST(a_negative_status_comes_back)
{
	struct epd_frame f = { .verb = EPD_WIRE_CALL, .flags = EPD_FRAME_ANSWER,
		.status = EPD_ECREDIT, .body = 5 }, g;
	uint8_t b[EPD_FRAME];

	epd_frame_pack(b, &f);
	CHECK_INT(epd_frame_unpack(&g, b), 0);
	CHECK_INT(g.status, EPD_ECREDIT);
}

TEST(every_byte_flipped)
{
	uint8_t b[EPD_FRAME];
	struct epd_frame f;
	int refused = 0;

	epd_frame_pack(b, &read_question);
	for (int i = 0; i < EPD_FRAME; i++)
		for (int bit = 0; bit < 8; bit++) {
			b[i] ^= (uint8_t)(1 << bit);
			refused += epd_frame_unpack(&f, b) == EPD_EFORMAT;
			b[i] ^= (uint8_t)(1 << bit);
		}
	CHECK_INT(refused, EPD_FRAME * 8);
	printf("# %d heads refused\n", refused);
}

/* Lies with a CRC that fits. */
TEST(asks_for_more_than_there_may_be)
{
	static const struct epd_frame lies[] = {
		{ .verb = 0 },
		{ .verb = EPD_WIRE_VERBS },
		{ .verb = 65535 },
		{ .verb = EPD_WIRE_CALL, .flags = 4 },
		{ .verb = EPD_WIRE_CALL, .flags = 0x8000 },
		{ .verb = EPD_WIRE_CALL, .body = EPD_FRAME_BODY + 1 },
		{ .verb = EPD_WIRE_CALL, .body = UINT32_MAX },
		{ .verb = EPD_WIRE_CALL, .bulk = 1 },
		{ .verb = EPD_WIRE_CALL, .bulk = UINT32_MAX },
		{ .verb = EPD_WIRE_READ, .body = 20, .bulk = 1 },
		{ .verb = EPD_WIRE_READ, .body = 20, .status = 1 },
		{ .verb = EPD_WIRE_READ, .flags = 1, .body = 1, .bulk = 1 },
		{ .verb = EPD_WIRE_READ, .flags = 1, .status = 1 },
		{ .verb = EPD_WIRE_CALL, .status = 65537 },
		{ .verb = EPD_WIRE_CALL, .flags = 1, .status = INT32_MIN },
		{ .verb = EPD_WIRE_CALL, .flags = 1, .status = -65536 },
		{ .verb = EPD_WIRE_READ, .flags = 1, .status = -1, .bulk = 1 },
		{ .verb = EPD_WIRE_READ, .flags = 1, .status = -1, .body = 257 },
		{ .verb = EPD_WIRE_READ, .flags = 1 },
		{ .verb = EPD_WIRE_READ, .flags = 1, .bulk = EPD_FRAME_BULK + 1 },
		{ .verb = EPD_WIRE_WRITE, .body = 20 },
		{ .verb = EPD_WIRE_WRITE, .body = 19, .bulk = 1 },
		{ .verb = EPD_WIRE_WRITE, .body = 20, .bulk = EPD_FRAME_BULK + 1 },
		{ .verb = EPD_WIRE_WRITE, .flags = 1, .bulk = 1 },
		{ .verb = EPD_WIRE_SHUT, .status = -1 },
		{ .verb = EPD_WIRE_HELLO, .flags = 1, .bulk = 1 },
	};
	uint8_t b[EPD_FRAME];

	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		struct epd_frame f = { .id = 77 };

		epd_frame_pack(b, lies + i);
		if (epd_frame_unpack(&f, b) != EPD_EFORMAT)
			CHECK_FAIL("lie %zu was taken", i);
		CHECK_INT(f.id, 77);
	}
}

TEST(ranges)
{
	const struct epd_frame_range r = { 1, UINT64_MAX, 3 };
	struct epd_frame_range s;
	uint8_t b[EPD_FRAME_RANGE];

	epd_frame_range_pack(b, &r);
	epd_frame_range_unpack(&s, b);
	CHECK(s.window == 1 && s.offset == UINT64_MAX && s.bytes == 3);
	CHECK(epd_frame_bulk(0, 1) == 0);
	CHECK(epd_frame_bulk(1, 0) == 1);
	CHECK(epd_frame_bulk(1, 1) == 9);
	CHECK(epd_frame_bulk(EPD_FRAME_BLOCK, 1) == EPD_FRAME_BLOCK + 8);
	CHECK(epd_frame_bulk(EPD_FRAME_BLOCK + 1, 1) == EPD_FRAME_BLOCK + 17);
	CHECK(epd_frame_bulk(UINT32_MAX, 1) == UINT32_MAX + UINT64_C(16384) * 8);
}

/* ---- the MAC ---- */

static struct epd_auth client, server;

static void
pair(void)
{
	struct epd_auth_talk t = { .version = 1, .flags = 1 };

	memset(t.server, 1, sizeof t.server);
	memset(t.client, 2, sizeof t.client);
	epd_auth_begin(&client, epd_span_str("a key of some length"), &t,
	    EPD_AUTH_CLIENT);
	epd_auth_begin(&server, epd_span_str("a key of some length"), &t,
	    EPD_AUTH_SERVER);
}

TEST(sealed_and_opened_in_order)
{
	const struct epd_span body = epd_span_str("twenty bytes of body");
	uint8_t b[3][EPD_FRAME];
	struct epd_frame f;

	pair();
	for (int i = 0; i < 3; i++)
		epd_auth_seal(&client, b[i], &read_question, body);
	CHECK_INT(epd_frame_unpack(&f, b[0]), 0);
	CHECK_INT(epd_auth_open(&server, b[0], body), 0);
	/* Again, and one left out. */
	CHECK_INT(epd_auth_open(&server, b[0], body), EPD_EAUTH);
	pair();
	CHECK_INT(epd_auth_open(&server, b[1], body), EPD_EAUTH);
	pair();
	CHECK_INT(epd_auth_open(&server, b[0], body), 0);
	CHECK_INT(epd_auth_open(&server, b[1], body), 0);
	CHECK_INT(epd_auth_open(&server, b[2], body), 0);
	/* Sent back to who made it. */
	pair();
	CHECK_INT(epd_auth_open(&client, b[0], body), EPD_EAUTH);
}

TEST(each_byte_of_head_and_body_counts)
{
	uint8_t b[EPD_FRAME], body[EPD_FRAME_RANGE] = { 1, 2, 3 };
	int refused = 0;

	for (int i = 0; i < EPD_FRAME_SEALED + EPD_FRAME_MAC + EPD_FRAME_RANGE;
	    i++) {
		pair();
		epd_auth_seal(&client, b, &read_question,
		    epd_span(body, sizeof body));
		uint8_t *at = i < EPD_FRAME_SEALED + EPD_FRAME_MAC ? b + i :
		    body + (i - EPD_FRAME_SEALED - EPD_FRAME_MAC);
		*at ^= 1;
		refused += epd_auth_open(&server, b,
		    epd_span(body, sizeof body)) == EPD_EAUTH;
		*at ^= 1;
	}
	CHECK_INT(refused, EPD_FRAME_SEALED + EPD_FRAME_MAC + EPD_FRAME_RANGE);
	pair();
	epd_auth_seal(&client, b, &read_question, epd_span(body, 20));
	CHECK_INT(epd_auth_open(&server, b, epd_span(body, 19)), EPD_EAUTH);
}

/* Where no key was asked a MAC is zero, and nothing else. */
TEST(without_a_key)
{
	struct epd_auth none = { 0 };
	uint8_t b[EPD_FRAME];

	epd_auth_seal(&none, b, &read_question, epd_span("", 0));
	CHECK_INT(epd_auth_open(&none, b, epd_span("", 0)), 0);
	b[30] = 1;
	CHECK_INT(epd_auth_open(&none, b, epd_span("", 0)), EPD_EAUTH);
}

/* The sums that moves have: piece by piece as in one. */
TEST(xxh3_piece_by_piece)
{
	static uint8_t p[100000];
	struct epd_xxh3 x;

	for (size_t i = 0; i < sizeof p; i++)
		p[i] = (uint8_t)(i * 31);
	for (size_t step = 1; step < sizeof p; step = step * 3 + 1) {
		epd_xxh3_begin(&x);
		for (size_t i = 0; i < sizeof p; i += step)
			epd_xxh3_add(&x, p + i, sizeof p - i < step ?
			    sizeof p - i : step);
		CHECK(epd_xxh3_end(&x) == epd_xxh3_64(p, sizeof p));
	}
	epd_xxh3_begin(&x);
	CHECK(epd_xxh3_end(&x) == epd_xxh3_64(p, 0));
	CHECK(epd_xxh3_64("abc", 3) == UINT64_C(0x78af5f94892f3950));
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
