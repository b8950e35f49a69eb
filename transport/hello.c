/*
 * hello.c - both sides of the first words.
 *
 *	server	HELLO	version u16, flags u16, nonce 32
 *	client	PROVE	version u16, flags u16 (0), nonce 32, proof 32 if asked
 *	server	PROVE	(answer) proof 32 if asked
 *
 * Over a Unix socket, and over loopback without a key, both look whose process the
 * other is instead.
 */
#include "transport/hello.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/said.h"
#include "transport/who.h"

enum {
	PLAIN = 4 + EPD_AUTH_NONCE, PROVEN = PLAIN + EPD_AUTH_PROOF
};

int
epd_hello_refused(struct epd_why *why, int rc, struct epd_span words)
{
	struct epd_why text;

	return epd_why(why, rc, "%s", epd_said(text.text, sizeof text.text,
	    words) ? text.text : epd_strerror(rc));
}

/* A frame as it may be before anybody is known; body holds EPD_FRAME_STRANGER. */
static int
get(struct epd_stream *s, struct epd_frame *f, uint8_t *body, uint64_t deadline_ns)
{
	uint8_t head[EPD_FRAME];
	int rc = epd_stream_read(s, head, sizeof head, 0, deadline_ns);

	if (rc)
		return rc;
	if (epd_frame_unpack(f, head) || f->body > EPD_FRAME_STRANGER || f->bulk)
		return EPD_EFORMAT;
	return epd_stream_read(s, body, f->body, 0, deadline_ns);
}

static int
send_frame(struct epd_stream *s, struct epd_auth *auth, struct epd_frame *f,
    struct epd_span body, uint64_t deadline_ns)
{
	uint8_t bytes[EPD_FRAME + EPD_FRAME_STRANGER];
	struct iovec iov = { bytes, EPD_FRAME + body.n };

	f->body = (uint32_t)body.n;
	epd_auth_seal(auth, bytes, f, body);
	if (body.n)
		memcpy(bytes + EPD_FRAME, body.p, body.n);
	return epd_stream_send(s, &iov, 1, 0, deadline_ns);
}

static void
pack(struct epd_buf *b, const struct epd_auth_talk *talk, uint16_t flags,
    const uint8_t *nonce)
{
	epd_pack_u16(b, talk->version);
	epd_pack_u16(b, flags);
	epd_buf_put(b, nonce, EPD_AUTH_NONCE);
}

/* ---- the client ---- */

static int
read_hello(struct epd_stream *s, struct epd_auth_talk *talk, uint64_t deadline_ns,
    struct epd_why *why)
{
	uint8_t body[EPD_FRAME_STRANGER];
	struct epd_frame f;
	struct epd_cur c;
	int rc = get(s, &f, body, deadline_ns);

	if (rc == EPD_EFORMAT || (!rc && (f.verb != EPD_WIRE_HELLO ||
	    !(f.flags & EPD_FRAME_ANSWER))))
		return epd_why(why, EPD_EPEER, "what listens there is no data "
		    "server");
	if (rc)
		return epd_why(why, rc, "no greeting came: %s", epd_strerror(rc));
	if (f.status)
		return epd_hello_refused(why, f.status, epd_span(body, f.body));
	c = epd_cur(epd_span(body, f.body));
	talk->version = epd_unpack_u16(&c);
	talk->flags = epd_unpack_u16(&c);
	if (talk->version != EPD_WIRE_VERSION)
		return epd_why(why, EPD_EPEER, "the server speaks version %d, "
		    "and we %d", talk->version, EPD_WIRE_VERSION);
	if (f.body != PLAIN || talk->flags & ~EPD_HELLO_KEY)
		return epd_why(why, EPD_EPEER, "the server's greeting is not "
		    "understood");
	memcpy(talk->server, epd_unpack_bytes(&c, EPD_AUTH_NONCE).p,
	    EPD_AUTH_NONCE);
	return 0;
}

/* It went while it was looked for: then it is nobody's. */
static int
is_gone(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0;
}

/* Whether to talk to it at all. */
static int
look_at_server(int fd, const struct epd_address *at, const struct epd_peer *peer,
    int asks, struct epd_why *why)
{
	uid_t uid;
	pid_t pid;
	int rc;

	if (at->scheme == EPD_AT_UNIX) {
		if ((rc = epd_who_unix(fd, &uid, &pid)))
			return rc;
		return uid == geteuid() || uid == 0 ? 0 : epd_why(why, EPD_EAUTH,
		    "%.100s is served by another user", at->path);
	}
	if (asks)
		return peer->key.n ? 0 : epd_why(why, EPD_EAUTH,
		    "the server asks for a key, and we have none");
	/* Whoever has a key wants to know that it is the one who has it too. */
	if (peer->key.n)
		return epd_why(why, EPD_EAUTH, "the server does not show that "
		    "it has the key");
	rc = epd_who_loopback(fd, &uid);
	if (rc && is_gone(fd))
		return epd_why(why, EPD_EPEER, "the connection is lost");
	return rc || uid != geteuid() ? epd_why(why, EPD_EAUTH,
	    "the server is not this user's, and asks for no key") : 0;
}

static int
hear_proof(struct epd_stream *s, const struct epd_peer *peer,
    const struct epd_auth_talk *talk, struct epd_why *why)
{
	uint8_t body[EPD_FRAME_STRANGER], want[EPD_AUTH_PROOF];
	const int asks = talk->flags & EPD_HELLO_KEY;
	struct epd_frame f;
	int rc = get(s, &f, body, peer->deadline_ns);

	if (rc && rc != EPD_EFORMAT)
		return epd_why(why, rc, "no answer to who we are: %s",
		    epd_strerror(rc));
	if (rc || f.verb != EPD_WIRE_PROVE || !(f.flags & EPD_FRAME_ANSWER) ||
	    f.id != 1)
		return epd_why(why, EPD_EPEER, "no answer to who we are");
	if (f.status)
		return epd_hello_refused(why, f.status, epd_span(body, f.body));
	epd_auth_proof(want, peer->key, talk, EPD_AUTH_SERVER);
	if (asks && (f.body != sizeof want ||
	    !epd_auth_equal(want, body, sizeof want)))
		return epd_why(why, EPD_EAUTH, "the server does not have the key");
	return 0;
}

int
epd_hello_client(struct epd_stream *s, struct epd_auth *auth,
    const struct epd_address *at, const struct epd_peer *peer, struct epd_why *why)
{
	struct epd_frame f = { .verb = EPD_WIRE_PROVE, .id = 1 };
	struct epd_auth_talk talk;
	struct epd_buf b = { 0 };
	uint8_t proof[EPD_AUTH_PROOF];
	int rc, asks;

	if ((rc = read_hello(s, &talk, peer->deadline_ns, why)))
		return rc;
	asks = talk.flags & EPD_HELLO_KEY;
	if ((rc = look_at_server(s->fd, at, peer, asks, why)) ||
	    (rc = epd_auth_nonce(talk.client)))
		return rc;
	pack(&b, &talk, 0, talk.client);
	if (asks) {
		epd_auth_proof(proof, peer->key, &talk, EPD_AUTH_CLIENT);
		epd_buf_put(&b, proof, sizeof proof);
	}
	rc = b.failed ? -ENOMEM : send_frame(s, auth, &f, epd_span(b.p, b.n),
	    peer->deadline_ns);
	epd_buf_free(&b);
	if (rc)
		return epd_why(why, rc, "saying who we are: %s",
		    epd_strerror(rc));
	if ((rc = hear_proof(s, peer, &talk, why)))
		return rc;
	if (asks)
		epd_auth_begin(auth, peer->key, &talk, EPD_AUTH_CLIENT);
	return 0;
}

/* ---- the server ---- */

int
epd_hello_answer(struct epd_stream *s, struct epd_auth *auth,
    const struct epd_hello *h, int status, const char *text, uint64_t deadline_ns)
{
	struct epd_frame f = { .verb = EPD_WIRE_PROVE, .flags = EPD_FRAME_ANSWER,
		.id = h->id, .status = status };
	struct epd_span body = epd_span_str(status ? text : "");
	uint8_t proof[EPD_AUTH_PROOF];
	int rc;

	if (!status && h->key.n) {
		epd_auth_proof(proof, h->key, &h->talk, EPD_AUTH_SERVER);
		body = epd_span(proof, sizeof proof);
	}
	rc = send_frame(s, auth, &f, body, deadline_ns);
	if (!rc && !status && h->key.n)
		epd_auth_begin(auth, h->key, &h->talk, EPD_AUTH_SERVER);
	return rc;
}

/* Whether the question is one, and shows what it must. */
static int
is_proven(struct epd_hello *h, const struct epd_frame *f, const uint8_t *body)
{
	struct epd_cur c = epd_cur(epd_span(body, f->body));
	const uint16_t version = epd_unpack_u16(&c), flags = epd_unpack_u16(&c);
	uint8_t want[EPD_AUTH_PROOF];

	if (f->verb != EPD_WIRE_PROVE || f->flags || f->id != 1 ||
	    version != EPD_WIRE_VERSION || flags ||
	    f->body != (h->key.n ? PROVEN : PLAIN))
		return EPD_EFORMAT;
	memcpy(h->talk.client, epd_unpack_bytes(&c, EPD_AUTH_NONCE).p,
	    EPD_AUTH_NONCE);
	h->id = f->id;
	if (!h->key.n)
		return 0;
	epd_auth_proof(want, h->key, &h->talk, EPD_AUTH_CLIENT);
	return epd_auth_equal(want, body + PLAIN, sizeof want) ? 0 : EPD_EAUTH;
}

int
epd_hello_server(struct epd_stream *s, struct epd_span key, struct epd_hello *out,
    uint64_t deadline_ns)
{
	struct epd_frame f = { .verb = EPD_WIRE_HELLO, .flags = EPD_FRAME_ANSWER };
	struct epd_hello h = { .key = key, .talk = { .version = EPD_WIRE_VERSION,
		.flags = key.n ? EPD_HELLO_KEY : 0 } };
	struct epd_auth none = { 0 };
	uint8_t body[EPD_FRAME_STRANGER];
	struct epd_buf b = { 0 };
	int rc = epd_auth_nonce(h.talk.server);

	if (rc)
		return rc;
	pack(&b, &h.talk, h.talk.flags, h.talk.server);
	rc = b.failed ? -ENOMEM : send_frame(s, &none, &f, epd_span(b.p, b.n),
	    deadline_ns);
	epd_buf_free(&b);
	if (rc || (rc = get(s, &f, body, deadline_ns)))
		return rc;
	rc = is_proven(&h, &f, body);
	if (rc == EPD_EAUTH)
		epd_hello_answer(s, &none, &h, rc, "this is not the key",
		    deadline_ns);
	if (!rc)
		*out = h;
	return rc;
}

void
epd_hello_refuse(int fd, int status, const char *text)
{
	uint8_t bytes[EPD_FRAME + EPD_FRAME_STRANGER];
	struct epd_frame f = { .verb = EPD_WIRE_HELLO, .flags = EPD_FRAME_ANSWER,
		.status = status, .body = (uint32_t)strlen(text) };

	epd_frame_pack(bytes, &f);
	memcpy(bytes + EPD_FRAME, text, f.body);
	(void)!send(fd, bytes, EPD_FRAME + f.body, MSG_DONTWAIT | MSG_NOSIGNAL);
}
