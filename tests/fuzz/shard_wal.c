/*
 * shard_wal.c - fuzz logs.  The first byte chooses: the rest is a segment as it
 * lies on disk, or the payloads of frames (u16 length each) that are sealed
 * properly, or those with one byte of the file changed (the second and third
 * byte say where).  It is read, opened for writing, appended to and checked:
 * what opens must check, and check again when opened anew.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "shard/segment.h"
#include "shard/shard.h"
#include "tests/fuzz/folder.h"

/* A log of frames around the payloads; the tip says nothing of them. */
static void
seal(struct epd_buf *out, const uint8_t *p, size_t n)
{
	struct epd_segment s = { .number = 1, .salt = 0x1122334455667788,
	    .base = 1 };
	struct epd_frame f = { .lsn = 1, .term = 1, .wall_ms = 5 };
	uint8_t head[EPD_SEGMENT_HEAD];
	struct epd_buf b = { 0 };

	epd_segment_pack(head, &s);
	epd_buf_put(out, head, sizeof head);
	while (n >= 2) {
		size_t len = p[0] | (size_t)p[1] << 8;
		struct epd_cur c;
		struct epd_span rest;

		p += 2;
		n -= 2;
		len = len < n ? len : n;
		epd_frame_begin(&b);
		epd_buf_put(&b, p, len);
		c = epd_cur(epd_span(p, len));
		for (f.count = 0; epd_cur_left(&c); f.count++) {
			epd_unpack_u32(&c);
			rest = epd_unpack_span(&c);
			(void)rest;
		}
		epd_frame_end(&b, &s, &f);
		epd_buf_put(out, b.p, b.n);
		f.flushed = f.lsn + f.count - 1;
		f.lsn += f.count;
		p += len;
		n -= len;
	}
	epd_buf_free(&b);
}

static void
work(int dir)
{
	struct epd_shard_options o = { .sync = 0, .lock_timeout_ms = 1000,
	    .checkpoint_bytes = 1 << 20, .log_keep = -1, .read_only = 1 };
	struct epd_state st = { .page_tokens = 16 };
	struct epd_version v = { .turn = 1 };
	struct epd_shard *s;
	uint32_t id;

	if (!epd_shard_open(&s, dir, &o, NULL))
		epd_shard_close(s);
	o.read_only = 0;
	if (epd_shard_open(&s, dir, &o, NULL))
		return;
	if (!epd_shard_create(s, &st, &v, &id, NULL) &&
	    epd_shard_version(s, id, 0, &v))
		abort();
	epd_shard_close(s);
	if (epd_shard_open(&s, dir, &o, NULL))
		abort();
	/* A forged record may well use a run twice; that is all it may do. */
	if (epd_shard_check(s, NULL, NULL, NULL) < 0)
		abort();
	epd_shard_close(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_tip tip = { .segment = 1, .offset = EPD_SEGMENT_HEAD };
	struct epd_buf log = { 0 };
	uint8_t b[EPD_TIP_SIZE];
	int top = folder(), dir;

	if (n < 3)
		return 0;
	epd_file_remove(top, "w");
	dir = epd_dir_make(top, "w");
	if (dir < 0)
		abort();
	if (p[0] % 3 == 0)
		epd_buf_put(&log, p + 1, n - 1);
	else
		seal(&log, p + 3, n - 3);
	if (p[0] % 3 == 2 && log.n)
		log.p[(p[1] | (size_t)p[2] << 8) % log.n] ^= 0x10;
	folder_put(dir, "log.00000001", log.p, log.n);
	if (log.n >= 32)
		memcpy(tip.uuid, log.p + 16, 16);
	epd_tip_pack(b, &tip);
	folder_put(dir, "tip", b, sizeof b);
	work(dir);
	close(dir);
	epd_buf_free(&log);
	return 0;
}
