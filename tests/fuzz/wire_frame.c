/*
 * wire_frame.c - a head is unpacked to what packs to it; and a server says these bytes
 * to a client, which asks and moves: as they are if the first byte is 0, else frame by
 * frame behind a greeting.  Nothing is touched but what is to be, and what is told done
 * was asked for.
 */
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/wire.h"
#include "transport/transport.h"

enum { EACH = 700, GUARD = 64 };

static int listener = -1;
static char address[128];
static int heard;			/* who came and went; atomic */
static struct {
	uint8_t bytes[2 * EPD_FRAME + 64 + WIRE_SPEECH];
	size_t n;
} speech;

/* Says what there is to say to whoever comes. */
static void *
speak(void *arg)
{
	uint8_t b[4096];

	(void)arg;
	for (;;) {
		const int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			abort();
		(void)!send(fd, speech.bytes, speech.n, MSG_NOSIGNAL);
		shutdown(fd, SHUT_WR);
		while (recv(fd, b, sizeof b, 0) > 0)
			;
		close(fd);
		__atomic_fetch_add(&heard, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static void
start(void)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX };
	pthread_t t;

	folder();
	snprintf(un.sun_path, sizeof un.sun_path, "%s/s", folder_path);
	snprintf(address, sizeof address, "unix://%s/s", folder_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (listener < 0 || bind(listener, (void *)&un, sizeof un) ||
	    listen(listener, 8) || pthread_create(&t, NULL, speak, NULL))
		abort();
	pthread_detach(t);
}

static void
head(const uint8_t *p, size_t n)
{
	uint8_t again[EPD_FRAME];
	struct epd_frame f;

	if (n < EPD_FRAME || epd_frame_unpack(&f, p))
		return;
	epd_frame_pack(again, &f);
	if (memcmp(again, p, EPD_FRAME) || f.body > EPD_FRAME_BODY ||
	    f.bulk > EPD_FRAME_BULK)
		abort();
}

/* The greeting and the welcome. */
static size_t
greet(uint8_t *out)
{
	struct epd_frame f = { .verb = EPD_WIRE_HELLO, .flags = EPD_FRAME_ANSWER,
		.body = 36 };

	memset(out, 0, 2 * EPD_FRAME + 36);
	epd_frame_pack(out, &f);
	out[EPD_FRAME] = EPD_WIRE_VERSION;
	f = (struct epd_frame){ .verb = EPD_WIRE_PROVE, .id = 1,
	    .flags = EPD_FRAME_ANSWER };
	epd_frame_pack(out + EPD_FRAME + 36, &f);
	return 2 * EPD_FRAME + 36;
}

static void
moves(struct epd_link *l, uint64_t end)
{
	const struct epd_transport *t = epd_link_ops(l);
	uint8_t p[4][EACH + GUARD];
	struct epd_piece_done d[4];
	int told = 0, put = 0, n;

	memset(p, 0x5a, sizeof p);
	for (uint64_t i = 0; i < 4; i++) {
		const struct epd_piece piece = { i, i == 1 ? EPD_OP_WRITE :
			EPD_OP_READ, 1, 0, EACH, p[i], 0 };

		put += !t->submit(l, &piece, NULL);
	}
	if (put == 4)
		t->cancel(l, 2);
	while ((n = t->wait(l, d, 4, end, NULL)) > 0)
		for (int i = 0; i < n; i++, told++)
			if (d[i].tag > 3 || d[i].bytes > EACH || d[i].rc > 0)
				abort();
	if (told > put)
		abort();
	for (int i = 0; i < 4; i++)
		for (int k = EACH; k < EACH + GUARD; k++)
			if (p[i][k] != 0x5a)
				abort();
}

static void
client(enum epd_backend b, uint64_t end)
{
	const struct epd_transport *t = epd_transport_of(epd_transports(), b);
	const struct epd_peer peer = { .address = address, .checksum = 1,
		.deadline_ns = end };
	struct epd_buf a = { 0 };
	struct epd_stretch s;
	struct epd_link *l;

	if (t->open(t, &l, &peer, NULL))
		return;
	t->call(l, 3, epd_span("ask", 3), &a, end, NULL);
	if (t->map)
		t->map(l, 1, 5, &s, end, NULL);
	moves(l, end);
	t->shut(l, 1, end, NULL);
	t->close(l);
	epd_buf_free(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	const int before = __atomic_load_n(&heard, __ATOMIC_SEQ_CST);

	head(p, n);
	if (listener < 0)
		start();
	if (n < 1 || n > WIRE_SPEECH)
		return 0;
	if (*p) {
		speech.n = greet(speech.bytes);
		speech.n += wire_frames(speech.bytes + speech.n, p + 1, n - 1);
	} else {
		speech.n = n - 1;
		memcpy(speech.bytes, p + 1, n - 1);
	}
	client(*p & 2 ? EPD_VIA_SHM : EPD_VIA_TCP,
	    epd_clock_boot_ns() + 1000000000);
	/* Till then the words are the speaker's. */
	while (__atomic_load_n(&heard, __ATOMIC_SEQ_CST) == before)
		sched_yield();
	return 0;
}
