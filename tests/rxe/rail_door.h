/* rail_door.h - who is let in, and who is not. */

TEST(a_wrong_token_is_turned_away)
{
	struct epd_rail_invite good, bad;
	struct epd_rail *r = NULL;
	struct host h;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	good = h.got.invite;
	for (int i = 0; i < 3; i++) {
		bad = good;
		bad.token[i * 15] ^= 0x40;
		CHECK_INT(epd_rail_knock(&r, &bad, "rxe0", h.fd, in_ms(10000),
		    &why), 0);
		CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 300, 0, 0), EPD_ETIMEOUT);
		CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), EPD_EAUTH);
		/* And from then on. */
		CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), EPD_EAUTH);
		epd_rail_close(r);
	}
	/* Who has it is still let in, also with others at the door. */
	CHECK_INT(epd_rail_knock(&r, &good, "rxe0", h.fd, in_ms(10000), &why), 0);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 10000, 0, 0), 0);
	CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), 0);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
}

TEST(a_used_token_is_turned_away)
{
	struct epd_rail *r, *second = NULL;
	struct epd_rail_invite used;
	struct host h;
	int rc;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	used = h.got.invite;
	CHECK_INT(epd_rail_knock(&r, &used, "rxe0", h.fd, in_ms(10000), &why), 0);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 10000, 0, 0), 0);
	CHECK_INT(epd_rail_joined(r, in_ms(10000), &why), 0);
	CHECK_INT(epd_rail_knock(&second, &used, "rxe0", h.fd, in_ms(10000),
	    &why), 0);
	rc = epd_rail_joined(second, in_ms(10000), &why);
	CHECK(rc == EPD_EAUTH || rc == EPD_EPEER);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 1, 0, 0), EPD_EUSAGE);
	/* The first one does not notice. */
	CHECK_INT(epd_rail_is_lost(r), 0);
	epd_rail_close(second);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
}

TEST(two_with_the_token_are_one_guest)
{
	struct epd_rail *r[2] = { NULL, NULL };
	struct host h;
	int in = 0, out = 0;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	for (int i = 0; i < 2; i++)
		CHECK_INT(epd_rail_knock(&r[i], &h.got.invite, "rxe0", h.fd,
		    in_ms(10000), &why), 0);
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 10000, 0, 0), 0);
	for (int i = 0; i < 2; i++) {
		const int rc = epd_rail_joined(r[i], in_ms(10000), &why);

		in += rc == 0;
		out += rc == EPD_EAUTH || rc == EPD_EPEER;
	}
	CHECK_INT(in, 1);
	CHECK_INT(out, 1);
	epd_rail_close(r[0]);
	epd_rail_close(r[1]);
	CHECK_INT(host_end(&h), 0);
}

TEST(a_late_token_is_turned_away)
{
	struct epd_rail_invite late;
	struct epd_rail *r = NULL;
	struct host h;
	int rc;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	late = h.got.invite;
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 50, 0, 0), EPD_ETIMEOUT);
	CHECK_INT(host_ask(&h, ASK_SHUT, 0, 0, 0, 0), 0);
	/* Somebody else's door, open now, is not it either. */
	CHECK_INT(host_ask(&h, ASK_DOOR, 1, 0, 0, 0), 0);
	CHECK_INT(epd_rail_knock(&r, &late, "rxe0", h.fd, in_ms(10000), &why), 0);
	rc = epd_rail_joined(r, in_ms(10000), &why);
	CHECK(rc == EPD_EAUTH || rc == EPD_EPEER);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
}

TEST(nobody_comes_and_nobody_answers)
{
	struct epd_rail *r = NULL;
	uint64_t t;
	struct host h;

	CHECK(!host_start(&h) && !host_ask(&h, ASK_DOOR, 0, 0, 0, 0));
	t = now_ms();
	CHECK_INT(host_ask(&h, ASK_LET_IN, 0, 300, 0, 0), EPD_ETIMEOUT);
	CHECK(now_ms() - t >= 300 && now_ms() - t < 5000);
	/* The host is stopped at its door. */
	CHECK_INT(host_ask(&h, ASK_SHUT, 0, 0, 0, 0), 0);
	CHECK_INT(host_ask(&h, ASK_DOOR, 0, 0, 0, 0), 0);
	stop(h.pid);
	t = now_ms();
	CHECK_INT(epd_rail_knock(&r, &h.got.invite, "rxe0", h.fd, in_ms(5000),
	    &why), 0);
	CHECK_INT(epd_rail_joined(r, in_ms(500), &why), EPD_ETIMEOUT);
	CHECK(now_ms() - t >= 500 && now_ms() - t < 5000);
	t = now_ms();
	epd_rail_close(r);
	CHECK(now_ms() - t < 5000);
	go_on(h.pid);
	/* He who asked has gone: not let in, or lost at once. */
	if (!host_ask(&h, ASK_LET_IN, 0, 500, 0, 0))
		CHECK_INT(host_ask(&h, ASK_LOST, 0, 10000, 0, 0), EPD_EPEER);
	CHECK_INT(host_end(&h), 0);
}

TEST(no_such_device_and_no_way)
{
	struct epd_rail *r = NULL;
	struct epd_rail_door *d = NULL;
	struct sockaddr_in at = { .sin_family = AF_INET };
	struct epd_rail_invite to = { 0 };
	struct held was;

	inet_pton(AF_INET, "192.0.2.1", &at.sin_addr);
	/* A process that used a device once has it open. */
	for (int i = 0; i < 2; i++) {
		CHECK_INT(epd_rail_door_open(&d, (struct sockaddr *)&at,
		    i ? "rxe1" : "rxe0", &why), 0);
		epd_rail_door_close(d);
		d = NULL;
	}
	was = count(NULL);
	memcpy(&to.at, &at, sizeof at);
	CHECK_INT(epd_rail_door_open(&d, (struct sockaddr *)&at, "mlx9", &why),
	    EPD_EUNSUPPORTED);
	CHECK_INT(epd_rail_knock(&r, &to, "mlx9", -1, in_ms(1000), &why),
	    EPD_EUNSUPPORTED);
	CHECK(epd_rail_knock(&r, &to, NULL, -1, in_ms(1000), &why) < 0);
	CHECK(!r && !d);
	/* Not an address of ours: the door is at one that a device has. */
	CHECK_INT(epd_rail_door_open(&d, (struct sockaddr *)&at, "rxe1", &why), 0);
	epd_rail_door_tell(d, &to);
	memcpy(&at, &to.at, sizeof at);
	CHECK_STR(inet_ntoa(at.sin_addr), THERE);
	CHECK(at.sin_port);
	epd_rail_door_close(d);
	epd_rail_door_close(NULL);
	epd_rail_close(NULL);
	CHECK(is_level(NULL, &was));
}
