/*
 * link_kills.h - features and pages from a host and to it, while either side is
 * killed at random: a keeper serves, a mover moves, and both begin again.
 *
 * The store is a memory file that outlives both: 1,000 pieces by their seeds, to be
 * read; 1,000 places, to be written; and marks of which the host has looked at.
 */

enum { ITEMS = 1000, ITEM = 24 << 10, BATCH = 8 };
enum item_verb { ITEM_GET = 1, ITEM_PUT, ITEM_KEEP };

struct shelf {
	uint8_t from[ITEMS][ITEM], to[ITEMS][ITEM];
	uint8_t kept[ITEMS];		/* 1: whole, seen by the host; 2: told the mover */
	uint32_t wrong;
};

static uint64_t
bytes_of(uint32_t i)
{
	return 1 + (uint64_t)i * 7919 % ITEM;
}

static uint8_t
item_byte(uint32_t i, uint64_t at)
{
	return (uint8_t)((at * 31 + i * 17 + (at >> 8) * 131) ^ (i >> 3));
}

static int
is_item(uint32_t i, const uint8_t *p)
{
	for (uint64_t k = 0; k < bytes_of(i); k++)
		if (p[k] != item_byte(i, k))
			return 0;
	return 1;
}

/* What is to be read is mapped so, as run files are. */
static struct shelf *
shelf_map(int fd, int prot)
{
	void *p = mmap(NULL, sizeof(struct shelf), prot, MAP_SHARED, fd, 0);

	return p == MAP_FAILED ? NULL : p;
}

struct keeper {
	int fd;
	struct shelf *shelf, *read_only;
	uint64_t next;
};

struct keeping {
	struct keeper *k;
	struct { uint64_t id; struct epd_extent e; } w[64];
};

static int
keeper_begin(void *arg, pid_t near, struct epd_guest **out, struct epd_why *why)
{
	(void)near;
	struct keeping *g = epd_calloc(1, sizeof *g);

	(void)why;
	if (!g)
		return -ENOMEM;
	g->k = arg;
	*out = (struct epd_guest *)(void *)g;
	return 0;
}

static void
keeper_end(struct epd_guest *g)
{
	epd_free(g);
}

static void
keeper_gone(struct epd_guest *guest, uint64_t id)
{
	struct keeping *g = (struct keeping *)(void *)guest;

	g->w[id % 64].id = 0;
}

static int
keeper_call(struct epd_guest *guest, uint16_t verb, struct epd_span ask_,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why)
{
	struct keeping *g = (struct keeping *)(void *)guest;
	struct shelf *s = g->k->shelf;
	struct epd_cur c = epd_cur(ask_);
	const uint32_t i = epd_unpack_u32(&c);
	uint64_t id;

	if (c.failed || i >= ITEMS)
		return EPD_EFORMAT;
	if (verb == ITEM_KEEP) {
		if (!is_item(i, s->to[i]))
			return epd_why(why, EPD_ECORRUPT, "item %u is not whole", i);
		s->kept[i] = s->kept[i] ? s->kept[i] : 1;
		return 0;
	}
	id = __atomic_add_fetch(&g->k->next, 1, __ATOMIC_SEQ_CST);
	if (g->w[id % 64].id)
		return EPD_ECREDIT;
	g->w[id % 64].id = id;
	g->w[id % 64].e = (struct epd_extent){ .fd = -1, .bytes = bytes_of(i),
		.p = verb == ITEM_PUT ? s->to[i] : g->k->read_only->from[i] };
	*opened = (struct epd_opened){ .id = id, .writable = verb == ITEM_PUT,
		.extent = &g->w[id % 64].e, .n = 1 };
	epd_pack_u64(answer, id);
	return 0;
}

static int
keeper_main(int fd, int store)
{
	struct keeper k = { .fd = store,
		.shelf = shelf_map(store, PROT_READ | PROT_WRITE),
		.read_only = shelf_map(store, PROT_READ) };
	const struct epd_host host = { &k, keeper_begin, keeper_end, keeper_call,
		keeper_gone };
	struct epd_rdma_host *r;
	int rc;

	if (!k.shelf || !k.read_only || epd_rdma_host_open(&r, NULL, &wire_why))
		return 1;
	rc = serve_host(fd, &host, epd_rdma_host_rail(r), r);
	epd_rdma_host_close(r);
	return rc;
}

/* ---- the mover ---- */

static int
ask_item(struct epd_link *l, enum item_verb verb, uint32_t i, uint64_t *id)
{
	struct epd_buf a = { 0 }, q = { 0 };
	struct epd_cur c;
	int rc;

	epd_pack_u32(&q, i);
	rc = epd_link_ops(l)->call(l, (uint16_t)verb, epd_span(q.p, q.n), &a,
	    wire_in(10000), &wire_why);
	c = epd_cur(epd_span(a.p, a.n));
	if (!rc && id)
		*id = epd_unpack_u64(&c);
	epd_buf_free(&a);
	epd_buf_free(&q);
	return rc;
}

/* Items from i on, one way: windows, moves all at once, windows shut. */
static int
batch(struct epd_link *l, enum item_verb verb, const uint32_t *item, int n,
    uint8_t (*p)[ITEM])
{
	uint64_t id[BATCH];
	int rc = 0, left = 0;

	for (int i = 0; i < n && !rc; i++)
		rc = ask_item(l, verb, item[i], &id[i]);
	for (int i = 0; i < n && !rc; i++) {
		const struct epd_piece m = { (uint64_t)i, verb == ITEM_PUT ?
		    EPD_OP_WRITE : EPD_OP_READ, id[i], 0, bytes_of(item[i]), p[i], 0 };

		rc = epd_link_ops(l)->submit(l, &m, &wire_why);
		left += !rc;
	}
	while (left && !rc) {
		struct epd_piece_done d[BATCH];
		int k = epd_link_ops(l)->wait(l, d, BATCH, wire_in(20000),
		    &wire_why);

		for (int i = 0; i < k; i++)
			rc = rc ? rc : d[i].rc;
		left -= k > 0 ? k : 0;
		rc = k < 0 ? k : rc;
	}
	for (int i = 0; i < n && !rc; i++) {
		if (verb == ITEM_PUT)
			rc = ask_item(l, ITEM_KEEP, item[i], NULL);
		if (!rc)
			rc = epd_link_ops(l)->shut(l, id[i], wire_in(10000),
			    &wire_why);
	}
	return rc;
}

/* Move what has not been; 0 when all has.  Whoever is killed is started again. */
static int
mover_main(int fd, int store)
{
	struct shelf *s = shelf_map(store, PROT_READ | PROT_WRITE);
	static uint8_t p[BATCH][ITEM];
	struct epd_link *l = NULL;
	char address[64];
	int rc = 0;

	if (!s || all(fd, address, sizeof address, 0))
		return 1;
	l = serve_link(address, KEY, "rxe0", 20000, &rc);
	while (!rc) {
		uint32_t item[BATCH], n = 0;

		for (uint32_t i = 0; i < ITEMS && n < BATCH; i++)
			if (s->kept[i] != 2)
				item[n++] = i;
		if (!n)
			break;
		memset(p, 0, sizeof p);
		rc = batch(l, ITEM_GET, item, (int)n, p);
		for (uint32_t i = 0; i < n && !rc; i++)
			if (!is_item(item[i], p[i]))
				s->wrong++, rc = EPD_ECORRUPT;
		if (!rc)
			rc = batch(l, ITEM_PUT, item, (int)n, p);
		if (rc == EPD_ECORRUPT)
			s->wrong++;
		for (uint32_t i = 0; i < n && !rc; i++)
			s->kept[item[i]] = 2;
	}
	if (l)
		epd_link_ops(l)->close(l);
	return rc ? 3 : 0;
}

/* ---- who kills ---- */

static int
reap(pid_t pid, int ms)
{
	for (int i = 0; i <= ms / 5; i++) {
		int st;

		if (waitpid(pid, &st, WNOHANG) == pid)
			return WIFEXITED(st) ? WEXITSTATUS(st) :
			    128 + WTERMSIG(st);
		if (ms)
			epd_clock_sleep_ns(SECOND / 200);
	}
	return -1;
}

struct totals {
	int pd, cq, qp, id, mr;
};

static struct totals
totals(void)
{
	struct totals t = { 0 };
	char line[256];
	FILE *f = popen("rdma resource show", "re");

	while (f && fgets(line, sizeof line, f)) {
		struct totals n;

		if (sscanf(line, "%*d: %*s pd %d cq %d qp %d cm_id %d mr %d",
		    &n.pd, &n.cq, &n.qp, &n.id, &n.mr) == 5)
			t.pd += n.pd, t.cq += n.cq, t.qp += n.qp, t.id += n.id,
			t.mr += n.mr;
	}
	if (f)
		pclose(f);
	return t;
}

static struct shelf *
shelf_fill(int fd, int items)
{
	struct shelf *s;

	if (fd < 0 || ftruncate(fd, sizeof *s) ||
	    !(s = shelf_map(fd, PROT_READ | PROT_WRITE)))
		return NULL;
	for (uint32_t i = 0; i < ITEMS; i++)
		s->kept[i] = (int)i < items ? 0 : 2;
	for (uint32_t i = 0; (int)i < items; i++)
		for (uint64_t k = 0; k < bytes_of(i); k++)
			s->from[i][k] = item_byte(i, k);
	return s;
}

TEST(items_while_either_side_is_killed)
{
	const int store = memfd_create("shelf", MFD_CLOEXEC);
	const int items = rxe_long() ? ITEMS : 200, most = rxe_long() ? 16 : 4;
	const uint64_t end = wire_in(100000);
	struct shelf *shelf = shelf_fill(store, items);
	struct totals was = totals(), now = was;
	unsigned seed = 1;
	struct serve s = { .pid = -1 };
	pid_t mover = -1;
	int to = -1, kills[2] = { 0, 0 }, falls = 0, laps = 0, whole = 0, rc = -1;

	CHECK(shelf);
	while (rc && epd_clock_boot_ns() < end) {
		if (s.pid < 0 && serve_start(&s, "keeper", store))
			break;
		if (mover < 0) {
			mover = serve_role("mover", &to, store);
			if (mover < 0 || all(to, s.address, sizeof s.address, 1))
				break;
		}
		/* After some time one of them, unless it is over. */
		rc = reap(mover, 200 + rand_r(&seed) % 800);
		if (rc >= 0) {
			falls += rc == 3;
			mover = -1;
			close(to);
			/* Done before the last kill: all is moved once more. */
			if (!rc && kills[0] + kills[1] < most) {
				laps++;
				memset(shelf->kept, 0, (size_t)items);
				memset(shelf->to, 0, sizeof shelf->to);
				rc = -1;
			}
			continue;
		}
		if (kills[0] + kills[1] >= most)
			continue;
		if (rxe_long() ? rand_r(&seed) % 2 : kills[0] <= kills[1]) {
			kills[0]++;
			kill(mover, SIGKILL);
			reap(mover, 5000);
			mover = -1;
			close(to);
		} else {
			kills[1]++;
			kill(s.pid, SIGKILL);
			CHECK_INT(serve_end(&s), 128 + SIGKILL);
			s.pid = -1;
		}
	}
	printf("# %d items, %d times; killed %d movers and %d hosts; "
	    "%d lost their host\n", items, laps + 1, kills[0], kills[1], falls);
	CHECK_INT(rc, 0);
	CHECK(kills[0] + kills[1] == most && kills[1]);
	CHECK_INT(shelf->wrong, 0);
	for (uint32_t i = 0; (int)i < items; i++)
		whole += shelf->kept[i] == 2 && is_item(i, shelf->to[i]) &&
		    is_item(i, shelf->from[i]);
	CHECK_INT(whole, items);
	CHECK_INT(serve_end(&s), 0);
	for (int i = 0; i < 60 && (!i || memcmp(&now, &was, sizeof was)); i++) {
		epd_clock_sleep_ns(SECOND / 20);
		now = totals();
	}
	printf("# pd %d cq %d qp %d id %d mr %d\n", now.pd, now.cq, now.qp,
	    now.id, now.mr);
	CHECK(!memcmp(&now, &was, sizeof was));
	munmap(shelf, sizeof *shelf);
	close(store);
}

/* The host is killed under moves: each is told done once, then the link fails. */
TEST(the_host_is_killed_under_moves)
{
	uint8_t *p = malloc(32 * 65536);
	struct epd_piece_done d[64];
	struct epd_link *l;
	struct serve s;
	uint64_t id, seen = 0, t;
	int got = 0, bad = 0, rc = 0;

	CHECK(p && !serve_start(&s, "serve", -1) && (l = rdma(&s)));
	CHECK((id = wire_open(l, WIRE_MEMORY, 0)));
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 32 * 65536).rc, 0);
	memset(p, 0, 32 * 65536);
	for (uint64_t i = 0; i < 32; i++) {
		const struct epd_piece m = { i, EPD_OP_READ, id, i * 65536, 65536,
			p + i * 65536, 0 };

		if (i == 16)
			CHECK_INT(deafen(1), 0);
		CHECK_INT(epd_link_ops(l)->submit(l, &m, &wire_why), 0);
	}
	kill(s.pid, SIGKILL);
	t = epd_clock_boot_ns();
	while (got < 32 && (rc = epd_link_ops(l)->wait(l, d, 64, wire_in(20000),
	    &wire_why)) > 0)
		for (int i = 0; i < rc; i++, got++) {
			CHECK(!(seen >> d[i].tag & 1));
			seen |= UINT64_C(1) << d[i].tag;
			bad += d[i].rc != 0;
			CHECK(wire_is_right(p + d[i].tag * 65536, d[i].tag * 65536,
			    d[i].bytes));
		}
	CHECK_INT(got, 32);
	CHECK(bad >= 16);
	CHECK_INT(epd_link_ops(l)->wait(l, d, 64, wire_in(1000), &wire_why),
	    EPD_EPEER);
	CHECK(epd_clock_boot_ns() - t < 10 * SECOND);
	CHECK_INT(wire_move(l, EPD_OP_READ, id, 0, p, 8).rc, EPD_EPEER);
	epd_link_ops(l)->close(l);
	CHECK_INT(deafen(0), 0);
	CHECK_INT(serve_end(&s), 128 + SIGKILL);
	free(p);
}

TEST(kind29_links_that_fail_leave_nothing)
{
	struct served before, after_;
	struct totals was, now;
	struct serve s;
	struct epd_link *l;
	int rc, fds;

	CHECK(!serve_start(&s, "serve", -1) && (l = rdma(&s)));
	epd_link_ops(l)->close(l);
	CHECK(serve_settles(&s, &before));
	before = serve_counts(&s);
	was = totals();
	fds = scratch_have("fd");
	for (int i = 0; i < (rxe_long() ? 100 : 30); i++) {
		if (i % 2) {
			CHECK(!serve_link(s.address, i % 4 == 1 ? KEY "x" : KEY,
			    i % 4 == 1 ? "rxe0" : "mlx9", 5000, &rc));
		} else if ((l = rdma(&s))) {
			const uint64_t id = wire_open(l, WIRE_MIXED, 0);
			struct epd_piece m = { 1, EPD_OP_READ, id, 0, 4096,
				malloc(4096), 0 };

			epd_link_ops(l)->submit(l, &m, &wire_why);
			epd_link_ops(l)->wait(l, &(struct epd_piece_done){ 0 }, 1,
			    i % 4 ? 0 : wire_in(2000), &wire_why);
			epd_link_ops(l)->close(l);
			free(m.local);
		}
	}
	CHECK(serve_settles(&s, &after_));
	for (int i = 0; i < 60; i++) {
		now = totals();
		after_ = serve_counts(&s);
		if (!memcmp(&now, &was, sizeof was) && after_.fds == before.fds)
			break;
		epd_clock_sleep_ns(SECOND / 20);
	}
	CHECK(!memcmp(&now, &was, sizeof was));
	CHECK_INT(after_.fds, before.fds);
	CHECK_INT(scratch_have("fd"), fds);
	CHECK_INT(serve_end(&s), 0);
}
