/*
 * shard_tip.c - a sound log of two segments whose tip is not: the bytes behind
 * the first two are laid over it and the mark behind it, their CRCs put right if
 * the first byte says so.
 * The second byte takes other things away.  No tip loses an acknowledged state:
 * a writer has them all or refuses, and a reader has none that never was.  One
 * that is damaged or absent does not matter to a writer.
 */
#include <time.h>

#include "shard/segment.h"
#include "shard/shard.h"
#include "tests/fuzz/folder.h"

enum {
	STATES = 3, FILES = 4, LAST = 2,
	/* bits of the second byte */
	UNSURE = 1, NO_CHECKPOINT = 2, NO_FIRST = 4, NO_TIP = 8, LESS_LOG = 16
};

static struct epd_shard_options options = {
	.lock_timeout_ms = 1000, .checkpoint_bytes = 1 << 20, .log_keep = -1,
	.sync = 1,
};
static struct { const char *name; struct epd_buf b; } file[FILES] = {
	{ .name = "tip" }, { .name = "log.00000001" }, { .name = "log.00000002" },
	{ .name = "checkpoint" },
};
static int top;

/* A tip that lies may be refused as late as here. */
static int
create(struct epd_shard *s)
{
	struct epd_state st = { .page_tokens = 16 };
	struct epd_version v = { .turn = 1 };
	struct epd_why why = { "" };
	uint32_t id;
	int rc = epd_shard_create(s, &st, &v, &id, &why);

	if (rc && (rc != EPD_ECORRUPT || !why.text[0]))
		abort();
	return rc;
}

/* Nobody else writes here: what a reader waits for does not come. */
int
nanosleep(const struct timespec *for_how_long, struct timespec *left)
{
	(void)for_how_long;
	(void)left;
	return 0;
}

static void
begin(void)
{
	struct epd_shard *s;
	int dir;

	top = folder();
	dir = epd_dir_make(top, "w");
	if (epd_shard_open(&s, dir, &options, NULL))
		abort();
	if (create(s) || create(s) || epd_shard_checkpoint(s, NULL) || create(s))
		abort();
	epd_shard_close(s);
	for (int i = 0; i < FILES; i++)
		if (epd_file_read(dir, file[i].name, 1 << 20, &file[i].b))
			abort();
	close(dir);
}

/* A tip with these fields and a CRC that fits. */
static void
put_right(uint8_t tip[EPD_TIP_SIZE])
{
	struct epd_cur c = epd_cur(epd_span(tip + 12, 48));
	struct epd_tip t;

	t.segment = epd_unpack_u32(&c);
	memcpy(t.uuid, epd_unpack_bytes(&c, 16).p, 16);
	t.offset = epd_unpack_u64(&c);
	t.lsn = epd_unpack_u64(&c);
	t.flushed = epd_unpack_u64(&c);
	t.again = epd_unpack_u32(&c);
	epd_tip_pack(tip, &t);
}

/*
 * The files with this tip; 1 if all states must be there: the tip is sound, or
 * plainly is none.
 */
static int
lay(int dir, const uint8_t *p, size_t n, int how, int less)
{
	uint8_t tip[2 * EPD_TIP_SIZE];
	size_t size = sizeof tip, cut = 0;
	struct epd_tip t;
	int bad, sound;

	memcpy(tip, file[0].b.p, sizeof tip);
	for (size_t i = 0; i < n && i < sizeof tip; i++)
		tip[i] ^= p[i];
	if (how & 1) {
		put_right(tip);
		put_right(tip + EPD_TIP_SIZE);
	} else if (how & 2) {
		size = n % sizeof tip;
	}
	bad = less & NO_TIP || size < EPD_TIP_SIZE ||
	    epd_tip_unpack(epd_span(tip, EPD_TIP_SIZE), &t);
	/* Whatever the mark says. */
	sound = !bad && !memcmp(tip, file[0].b.p, EPD_TIP_SIZE);
	if (sound && less & LESS_LOG)
		cut = 1 + (size_t)how;
	folder_put(dir, "tip", tip, size);
	for (int i = 1; i < FILES; i++)
		folder_put(dir, file[i].name, file[i].b.p, file[i].b.n -
		    (i == LAST && cut < file[i].b.n ? cut : 0));
	if (less & UNSURE)
		folder_put(dir, "unsure", "", 0);
	if (less & NO_CHECKPOINT)
		unlinkat(dir, "checkpoint", 0);
	else if (less & NO_FIRST)
		unlinkat(dir, "log.00000001", 0);
	if (less & NO_TIP)
		unlinkat(dir, "tip", 0);
	return !cut && (bad || sound);
}

static int
states(struct epd_shard *s)
{
	struct epd_state st;
	uint32_t after = 0;
	int n = 0;

	for (; !epd_shard_next(s, after, &st); n++)
		after = st.id;
	return n;
}

static int
opens(int dir, int read_only, int want)
{
	struct epd_shard_options o = options;
	struct epd_shard *s;
	struct epd_why why = { "" };
	int rc;

	o.read_only = read_only;
	rc = epd_shard_open(&s, dir, &o, &why);
	if (rc) {
		if (!why.text[0])
			abort();
		return 0;
	}
	if (read_only ? states(s) > want : states(s) != want)
		abort();
	if (!read_only) {
		rc = create(s);
		if (states(s) != want + !rc ||
		    (!rc && epd_shard_check(s, NULL, NULL, NULL)))
			abort();
	}
	epd_shard_close(s);
	return !rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	int dir, all;

	if (!file[0].b.p)
		begin();
	if (n < 2)
		return 0;
	epd_file_remove(top, "w");
	dir = epd_dir_make(top, "w");
	all = lay(dir, p + 2, n - 2, p[0], p[1]);
	opens(dir, 1, STATES);
	if (opens(dir, 0, STATES)) {
		if (!opens(dir, 1, STATES + 1) ||
		    !faccessat(dir, "unsure", F_OK, 0))
			abort();
	} else if (all) {
		abort();
	}
	close(dir);
	return 0;
}
