/*
 * auth.c - keyed BLAKE2b (RFC 7693, libb2).
 *
 * 1. All that is computed with a key says what it is for and who says it, so that no
 *    answer serves as another's: neither sent back nor sent again, for both nonces
 *    are in it.
 * 2. The two ways have a key each, and a frame's number is in its MAC.
 */
#include "transport/auth.h"

#include <blake2.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/err.h"
#include "base/hash.h"

int
epd_auth_nonce(uint8_t out[EPD_AUTH_NONCE])
{
	const ssize_t n = getrandom(out, EPD_AUTH_NONCE, 0);

	return n < 0 ? -errno : n == EPD_AUTH_NONCE ? 0 : -EIO;
}

/* What is made of key for this use in this talk. */
static void
derive(uint8_t out[32], struct epd_span key, const struct epd_auth_talk *talk,
    const char *use, enum epd_auth_role who)
{
	const uint8_t said[] = { (uint8_t)who, (uint8_t)talk->version,
	    (uint8_t)(talk->version >> 8), (uint8_t)talk->flags,
	    (uint8_t)(talk->flags >> 8) };
	struct epd_namer n;
	struct epd_name k;
	_Alignas(64) blake2b_state s;

	/* Of any length to one that BLAKE2b takes. */
	epd_namer_begin(&n, "epd wire key 1");
	epd_namer_add(&n, key.p, key.n);
	epd_namer_end(&n, &k);
	blake2b_init_key(&s, 32, k.b, sizeof k.b);
	/* Its NUL parts it from what follows. */
	blake2b_update(&s, (const uint8_t *)use, strlen(use) + 1);
	blake2b_update(&s, said, sizeof said);
	blake2b_update(&s, talk->server, EPD_AUTH_NONCE);
	blake2b_update(&s, talk->client, EPD_AUTH_NONCE);
	blake2b_final(&s, out, 32);
	explicit_bzero(&k, sizeof k);
	explicit_bzero(&n, sizeof n);
	explicit_bzero(&s, sizeof s);
}

void
epd_auth_proof(uint8_t out[EPD_AUTH_PROOF], struct epd_span key,
    const struct epd_auth_talk *talk, enum epd_auth_role by)
{
	derive(out, key, talk, "epd wire proof 1", by);
}

int
epd_auth_equal(const uint8_t *a, const uint8_t *b, int n)
{
	volatile uint8_t differ = 0;

	for (int i = 0; i < n; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

void
epd_auth_begin(struct epd_auth *a, struct epd_span key,
    const struct epd_auth_talk *talk, enum epd_auth_role we)
{
	const enum epd_auth_role they = we == EPD_AUTH_CLIENT ?
	    EPD_AUTH_SERVER : EPD_AUTH_CLIENT;

	*a = (struct epd_auth){ .on = 1 };
	derive(a->out, key, talk, "epd wire frames 1", we);
	derive(a->in, key, talk, "epd wire frames 1", they);
}

static void
mac(uint8_t out[EPD_FRAME_MAC], const uint8_t key[32], uint64_t number,
    const uint8_t *head, struct epd_span body)
{
	uint8_t first[8 + EPD_FRAME_SEALED];
	_Alignas(64) blake2b_state s;

	epd_put_le(first, number, 8);
	memcpy(first + 8, head, EPD_FRAME_SEALED);
	blake2b_init_key(&s, EPD_FRAME_MAC, key, 32);
	blake2b_update(&s, first, sizeof first);
	if (body.n)
		blake2b_update(&s, body.p, body.n);
	blake2b_final(&s, out, EPD_FRAME_MAC);
}

void
epd_auth_seal(struct epd_auth *a, uint8_t out[EPD_FRAME], const struct epd_frame *f,
    struct epd_span body)
{
	struct epd_frame sealed = *f;

	memset(sealed.mac, 0, sizeof sealed.mac);
	epd_frame_pack(out, &sealed);
	if (!a->on)
		return;
	mac(sealed.mac, a->out, a->nout++, out, body);
	epd_frame_pack(out, &sealed);
}

int
epd_auth_open(struct epd_auth *a, const uint8_t head[EPD_FRAME],
    struct epd_span body)
{
	uint8_t want[EPD_FRAME_MAC] = { 0 };

	if (a->on)
		mac(want, a->in, a->nin++, head, body);
	return epd_auth_equal(want, head + EPD_FRAME_SEALED, EPD_FRAME_MAC) ?
	    0 : EPD_EAUTH;
}
