/*
 * wire_server.c - a peer says these bytes to the server and hangs up.  First byte: 0
 * as they are, 1 the same to a server that asks for a key, else as a guest, frame by
 * frame.  Whatever it says, no window and no guest is left.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tests/fuzz/folder.h"
#include "tests/fuzz/wire.h"
#include "transport/serve.h"

enum { BYTES = 5000 };

static uint8_t memory[BYTES];
static int file, opened, gone, guests;
static struct epd_extent extent[3];
static struct epd_server *server[2];

static int
begin(void *arg, pid_t near, struct epd_guest **out, struct epd_why *why)
{
	(void)near;
	(void)why;
	guests++;
	*out = arg;
	return 0;
}

static void
end(struct epd_guest *g)
{
	(void)g;
	guests--;
}

/* A window for every call but verb 7's, which fails. */
static int
call(struct epd_guest *g, uint16_t verb, struct epd_span ask, struct epd_buf *answer,
    struct epd_opened *o, struct epd_why *why)
{
	(void)g;
	if (verb == 7)
		return epd_why(why, -EIO, "no");
	epd_buf_put(answer, ask.p, ask.n);
	*o = (struct epd_opened){ .id = ask.n ? *(const uint8_t *)ask.p : 1,
	    .writable = verb & 1, .extent = extent, .n = 3 };
	opened += o->id != 0;
	return 0;
}

static void
let_go(struct epd_guest *g, uint64_t id)
{
	(void)g;
	(void)id;
	gone++;
}

static void
start(void)
{
	const struct epd_host host = { memory, begin, end, call, let_go };
	char address[128];
	const char *at = address;
	const int dir = folder();

	file = openat(dir, "bytes", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (file < 0 || ftruncate(file, BYTES))
		abort();
	extent[0] = (struct epd_extent){ -1, 0, memory, 1000 };
	extent[1] = (struct epd_extent){ file, 1000, NULL, 3000 };
	extent[2] = (struct epd_extent){ file, 4000, memory + 4000, 1000 };
	for (int i = 0; i < 2; i++) {
		struct epd_server_options o = { .listen = &at, .nlisten = 1,
			.windows = 4, .stall_ms = 1, .idle_ms = 1,
			.hello_ms = 1000, .rate = 1 << 30 };

		if (i)
			o.key = epd_span_str("0123456789abcdef");
		snprintf(address, sizeof address, "unix://%s/%d", folder_path, i);
		if (epd_server_open(&server[i], &host, &o, NULL))
			abort();
	}
}

/* What comes before: who we are. */
static size_t
prove(uint8_t *out)
{
	const struct epd_frame f = { .verb = EPD_WIRE_PROVE, .id = 1, .body = 36 };

	memset(out, 0, EPD_FRAME + 36);
	epd_frame_pack(out, &f);
	out[EPD_FRAME] = EPD_WIRE_VERSION;
	return EPD_FRAME + 36;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static uint8_t speech[EPD_FRAME + 36 + WIRE_SPEECH];
	struct epd_server_counts now;
	struct epd_serve *c;
	size_t said = 0;
	int pair[2], key;

	if (!server[1])
		start();
	if (!n || n > WIRE_SPEECH)
		return 0;
	key = *p == 1;
	if (*p < 2) {
		said = n - 1;
		memcpy(speech, p + 1, said);
	} else {
		said = prove(speech);
		said += wire_frames(speech + said, p + 1, n - 1);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0,
	    pair) || !(c = epd_calloc(1, sizeof *c)))
		abort();
	if (said && send(pair[1], speech, said, 0) != (ssize_t)said)
		abort();
	shutdown(pair[1], SHUT_WR);
	c->server = server[key];
	c->scheme = key ? EPD_AT_TCP : EPD_AT_UNIX;
	c->in.fd = pair[0];
	epd_server_common(c->server)->counts.strangers++;
	epd_serve_thread(c);
	epd_free(c);
	close(pair[1]);
	epd_server_counts(server[key], &now);
	if (now.guests || now.strangers || now.windows || guests)
		abort();
	/* A number that is taken is refused, and then it is not gone. */
	if (gone > opened)
		abort();
	return 0;
}
