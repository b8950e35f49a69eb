/*
 * rail.c - one-sided moves between two processes on two Soft-RoCE devices: what
 * arrives, what is refused, and what is left when either end dies.  Runs in the
 * guest that boot.sh makes; this process is the rail's guest.
 */
#include "tests/check.h"

#include <time.h>

#include "tests/rxe/deaf.h"
#include "tests/rxe/host.h"
#include "tests/rxe/stop.h"

#define MIB (UINT64_C(1) << 20)

static struct epd_why why;

/* A rail to slot of the host, by its door; NULL with what was said. */
static struct epd_rail *
join(struct host *h, int slot, const char *device)
{
	struct epd_rail *r = NULL;
	int rc = is_deaf ? deafen(0) : 0;	/* a failed test left it */

	if (!rc)
		rc = host_ask(h, ASK_DOOR, slot, 0, 0, 0);

	why = h->got.why;
	if (!rc)
		rc = epd_rail_knock(&r, &h->got.invite, device, h->fd,
		    in_ms(10000), &why);
	if (!rc) {
		rc = host_ask(h, ASK_LET_IN, slot, 10000, 0, 0);
		why = h->got.why;
	}
	if (!rc)
		rc = epd_rail_joined(r, in_ms(10000), &why);
	host_ask(h, ASK_SHUT, slot, 0, 0, 0);
	if (rc) {
		printf("# no rail: %d %s\n", rc, why.text);
		epd_rail_close(r);
		return NULL;
	}
	return r;
}

/* Region b of n bytes by seed, exposed on slot. */
static int
expose(struct host *h, int slot, enum what kind, uint64_t n, uint64_t b,
    uint64_t seed, int writable)
{
	const int rc = host_ask(h, kind, slot, n, b, seed);

	return rc ? rc : host_ask(h, ASK_EXPOSE, slot, (uint64_t)writable, b, 0);
}

static void
uncover(struct host *h, uint64_t b)
{
	host_ask(h, ASK_COVER, 0, 0, b, 0);
	host_ask(h, ASK_FREE, 0, 0, b, 0);
}

static int
begin(struct epd_rail *r, enum epd_op op, const struct epd_rail_key *k,
    uint64_t at, uint64_t n, void *p, uint64_t tag)
{
	const struct epd_piece m = {
		.tag = tag, .op = op, .offset = at, .bytes = n, .local = p,
	};

	return epd_rail_submit(r, &m, k, &why);
}

/* One move from begin to end: its rc. */
static int
move(struct epd_rail *r, enum epd_op op, const struct epd_rail_key *k,
    uint64_t at, uint64_t n, void *p)
{
	struct epd_piece_done d = { 0 };
	int rc = begin(r, op, k, at, n, p, 7);

	if (!rc)
		rc = epd_rail_wait(r, &d, 1, in_ms(60000), &why);
	if (rc == 1)
		rc = d.tag != 7 || (!d.rc && d.bytes != n) ? -EILSEQ : d.rc;
	return rc;
}

/* Totals of what the kernel has for all processes, both devices. */
struct held {
	int pd, cq, qp, id, mr, ctx, fds, host_fds;
};

static struct held
count(struct host *h)
{
	struct held t = { .fds = count_fds() };
	char line[256];
	FILE *f = popen("rdma resource show", "re");

	while (f && fgets(line, sizeof line, f)) {
		struct held n = { 0 };

		if (sscanf(line, "%*d: %*s pd %d cq %d qp %d cm_id %d mr %d ctx %d",
		    &n.pd, &n.cq, &n.qp, &n.id, &n.mr, &n.ctx) != 6)
			continue;
		t.pd += n.pd, t.cq += n.cq, t.qp += n.qp, t.id += n.id;
		t.mr += n.mr, t.ctx += n.ctx;
	}
	if (f)
		pclose(f);
	t.host_fds = h ? host_ask(h, ASK_FDS, 0, 0, 0, 0) : 0;
	return t;
}

/* Whether all is as before, soon: the kernel lets go of ids a while after. */
static int
is_level(struct host *h, const struct held *was)
{
	struct held now = { 0 };

	for (int i = 0; i < 60; i++) {
		now = count(h);
		if (!memcmp(&now, was, sizeof now))
			return 1;
		epd_clock_sleep_ns(SECOND / 20);
	}
	printf("# pd %d cq %d qp %d id %d mr %d ctx %d fds %d %d, were pd %d "
	    "cq %d qp %d id %d mr %d ctx %d fds %d %d\n", now.pd, now.cq, now.qp,
	    now.id, now.mr, now.ctx, now.fds, now.host_fds, was->pd, was->cq,
	    was->qp, was->id, was->mr, was->ctx, was->fds, was->host_fds);
	return 0;
}

static uint64_t
now_ms(void)
{
	return epd_clock_boot_ns() / 1000000;
}

TEST(probe_tells_of_the_device)
{
	struct epd_transport_facts f = { 0 };

	CHECK_INT(epd_rail_probe(&f, NULL, &why), 0);
	CHECK_INT(f.ndevices, 2);
	CHECK(!strncmp(f.device, "rxe", 3));
	CHECK(f.max_inflight > 0 && f.max_bytes >= 64 * MIB);
	CHECK_INT(epd_rail_probe(&f, "rxe1", &why), 0);
	CHECK_INT(f.ndevices, 1);
	CHECK_INT(epd_rail_probe(&f, "mlx9", &why), EPD_EUNSUPPORTED);
	CHECK_STR(why.text, "no RDMA device mlx9");
}

/* n bytes there, read and written, with a margin that must stay. */
static void
one_size(struct host *h, struct epd_rail *r, uint64_t n, unsigned char *p)
{
	struct epd_rail_key k;

	fill(p, n + 16, 1);
	CHECK_INT(expose(h, 0, ASK_MEMORY, n, 0, n, 0), 0);
	k = h->got.key;
	CHECK_INT(move(r, EPD_OP_READ, &k, 0, n, p), 0);
	CHECK_INT(same(p, n, n), n);
	for (uint64_t i = n; i < n + 16; i++)
		CHECK_INT(p[i], (unsigned char)(word_of(1, i / 8) >> i % 8 * 8));
	uncover(h, 0);

	CHECK_INT(expose(h, 0, ASK_MEMORY, n, 1, 2, 1), 0);
	k = h->got.key;
	fill(p, n, n + 1);
	CHECK_INT(move(r, EPD_OP_WRITE, &k, 0, n, p), 0);
	CHECK_INT(host_ask(h, ASK_SAME, 0, 0, 1, n + 1), 1);
	uncover(h, 1);
}

TEST(every_size_both_ways)
{
	static const uint64_t sizes[] = {
		1, 2, 3, 7, 8, 63, 64, 4095, 4096, 4097, 65535, MIB - 1, MIB + 1,
		4 * MIB, 4 * MIB + 1, 9 * MIB + 5, 64 * MIB,	/* the last in the long variant */
	};
	const int n = (int)(sizeof sizes / sizeof *sizes) - !rxe_long();
	unsigned char *p = memory(64 * MIB + 16);
	struct epd_rail *r;
	struct host h;

	CHECK(p && !host_start(&h));
	CHECK((r = join(&h, 0, "rxe0")));
	for (int i = 0; i < n && !check_failed; i++) {
		one_size(&h, r, sizes[i], p);
		if (check_failed)
			printf("# of %llu bytes: %s\n",
			    (unsigned long long)sizes[i], why.text);
	}
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, 64 * MIB + 16);
}

TEST(no_bytes_are_a_move_too)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;

	CHECK(!host_start(&h) && (r = join(&h, 0, "rxe0")));
	CHECK_INT(expose(&h, 0, ASK_MEMORY, 8, 0, 1, 0), 0);
	k = h.got.key;
	CHECK_INT(move(r, EPD_OP_READ, &k, 8, 0, NULL), 0);
	CHECK_INT(begin(r, EPD_OP_READ, &k, 8, 1, NULL, 1), EPD_EUSAGE);
	CHECK_INT(begin(r, EPD_OP_READ, &k, UINT64_MAX, 2, NULL, 1), EPD_EUSAGE);
	CHECK_INT(epd_rail_wait(r, &(struct epd_piece_done){ 0 }, 1,
	    in_ms(1000), &why), EPD_EUSAGE);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
}

enum { AREA = 1 << 20, MOVES = 1000 };

/* Moves at random in an area that a copy here follows; at most 64 at a time. */
static int
at_random(struct epd_rail *r, const struct epd_rail_key *out,
    const struct epd_rail_key *in, unsigned char *ours, unsigned char *model)
{
	struct { uint64_t at, n; int writes; } m[MOVES];
	struct epd_piece_done d[8];
	int sent = 0, full = 0, over = 0;

	while (over < MOVES) {
		/* Each in a stretch of its own, so that the order is no matter. */
		const uint64_t w = word_of(77, (uint64_t)sent);
		const uint64_t each = AREA / MOVES;
		int n, rc;

		if (sent < MOVES) {
			m[sent].at = (uint64_t)sent * each + w % 64;
			m[sent].n = 1 + (w >> 8) % (each - 64);
			m[sent].writes = (int)(w >> 32 & 1);
			rc = begin(r, m[sent].writes ? EPD_OP_WRITE
			    : EPD_OP_READ, m[sent].writes ? in : out,
			    m[sent].at, m[sent].n, ours + m[sent].at,
			    (uint64_t)sent);
			full += rc == -EAGAIN;
			if (!rc) {
				if (m[sent].writes)
					memcpy(model + m[sent].at,
					    ours + m[sent].at, m[sent].n);
				sent++;
				continue;
			}
			if (rc != -EAGAIN)
				return rc;
		}
		n = epd_rail_wait(r, d, 8, in_ms(20000), &why);
		for (int i = 0; i < n; i++, over++)
			if (d[i].rc || d[i].bytes != m[d[i].tag].n ||
			    memcmp(ours + m[d[i].tag].at, model + m[d[i].tag].at,
			    m[d[i].tag].n))
				return -EILSEQ;
		if (n < 0)
			return n;
	}
	return full;
}

TEST(a_thousand_moves_as_the_model_says)
{
	unsigned char *ours = memory(AREA), *model = memory(AREA);
	struct epd_rail_key out, in;
	struct epd_rail *r;
	struct host h;

	CHECK(ours && model && !host_start(&h) && (r = join(&h, 0, "rxe0")));
	CHECK_INT(expose(&h, 0, ASK_MEMORY, AREA, 0, 5, 1), 0);
	in = h.got.key;
	/* The same bytes twice: to be written, and to be read. */
	CHECK_INT(host_ask(&h, ASK_EXPOSE, 0, 0, 0, 0), 0);
	out = h.got.key;
	fill(ours, AREA, 6);
	fill(model, AREA, 5);
	CHECK_INT(epd_rail_lend(r, ours, AREA), 0);
	CHECK(at_random(r, &out, &in, ours, model) > 0);
	CHECK_INT(host_ask(&h, ASK_FETCH, 0, 0, 0, 0), 0);
	CHECK_INT(all(h.fd, ours, AREA, 0), 0);
	CHECK(!memcmp(ours, model, AREA));
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(ours, AREA);
	munmap(model, AREA);
}

TEST(lent_memory_is_known_once)
{
	struct epd_rail_key k;
	struct epd_rail *r;
	struct held before, lent;
	struct host h;
	char *p = memory(MIB);

	CHECK(p && !host_start(&h) && (r = join(&h, 0, "rxe0")));
	CHECK_INT(expose(&h, 0, ASK_MEMORY, MIB, 0, 1, 0), 0);
	k = h.got.key;
	before = count(&h);
	CHECK_INT(epd_rail_lend(r, p, MIB), 0);
	lent = count(&h);
	CHECK_INT(lent.mr, before.mr + 1);
	CHECK_INT(begin(r, EPD_OP_READ, &k, 0, MIB - 1, p + 1, 1), 0);
	CHECK_INT(count(&h).mr, lent.mr);
	CHECK_INT(epd_rail_wait(r, &(struct epd_piece_done){ 0 }, 1,
	    in_ms(10000), &why), 1);
	/* One byte of it is not lent: the move's own is, till it ends. */
	CHECK_INT(begin(r, EPD_OP_READ, &k, 0, 2, (char[2]){ 0 }, 1), 0);
	CHECK_INT(count(&h).mr, lent.mr + 1);
	CHECK_INT(epd_rail_wait(r, &(struct epd_piece_done){ 0 }, 1,
	    in_ms(10000), &why), 1);
	CHECK_INT(count(&h).mr, lent.mr);
	epd_rail_unlend(r, p);
	CHECK(is_level(&h, &before));
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, MIB);
}

TEST(files_mapped_to_be_read)
{
	const size_t n = 3 * MIB + 100;
	char *p = memory(n), *file = file_memory(n, 9);
	struct epd_rail_key k;
	struct epd_rail *r;
	struct host h;

	CHECK(p && file && !host_start(&h) && (r = join(&h, 0, "rxe0")));
	CHECK_INT(expose(&h, 0, ASK_FILE, n, 0, 8, 0), 0);
	k = h.got.key;
	CHECK_INT(move(r, EPD_OP_READ, &k, 0, n, p), 0);
	CHECK_INT(same(p, n, 8), n);
	/* It was not to be written, and is not even if asked for. */
	CHECK(host_ask(&h, ASK_EXPOSE, 0, 1, 0, 0) < 0);

	CHECK_INT(expose(&h, 0, ASK_MEMORY, n, 1, 1, 1), 0);
	k = h.got.key;
	CHECK_INT(move(r, EPD_OP_WRITE, &k, 0, n, file), 0);
	CHECK_INT(host_ask(&h, ASK_SAME, 0, 0, 1, 9), 1);
	/* Lent or not, such memory is not read into. */
	epd_rail_lend(r, file, n);
	CHECK(expose(&h, 0, ASK_MEMORY, n, 2, 1, 0) == 0);
	k = h.got.key;
	CHECK(move(r, EPD_OP_READ, &k, 0, n, file) < 0);
	CHECK_INT(same(file, n, 9), n);
	epd_rail_close(r);
	CHECK_INT(host_end(&h), 0);
	munmap(p, n);
	munmap(file, n);
}

#include "tests/rxe/rail_door.h"
#include "tests/rxe/rail_rights.h"
#include "tests/rxe/rail_death.h"

int
main(int argc, char **argv)
{
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "host"))
		return host_main(atoi(argv[2]));
	if (argc == 3 && !strcmp(argv[1], "guest"))
		return guest_main(atoi(argv[2]));
	return check_main(argc, argv);
}
