/* stream.c - once twice as much as must be kept has come, the older half goes. */
#include "fs/stream.h"

#include <string.h>

static const size_t KEPT = 8 << 20;

void
epd_fs_stream_free(struct epd_fs_stream *s)
{
	epd_buf_free(&s->kept);
	s->gone = 0;
}

void
epd_fs_stream_put(struct epd_fs_stream *s, struct epd_span line)
{
	char *to;

	if (s->kept.n > 2 * KEPT) {
		size_t drop = s->kept.n - KEPT;

		/* Lines go whole. */
		while (drop < s->kept.n && s->kept.p[drop - 1] != '\n')
			drop++;
		memmove(s->kept.p, s->kept.p + drop, s->kept.n - drop);
		s->kept.n -= drop;
		s->gone += drop;
	}
	if ((to = epd_buf_add(&s->kept, line.n + 1))) {
		memcpy(to, line.p, line.n);
		to[line.n] = '\n';
	}
	s->kept.failed = 0;
}

uint64_t
epd_fs_stream_size(const struct epd_fs_stream *s)
{
	return s->gone + s->kept.n;
}

size_t
epd_fs_stream_read(const struct epd_fs_stream *s, uint64_t off, void *p,
    size_t n)
{
	uint64_t left = epd_fs_stream_size(s);
	size_t lost = 0;

	if (off >= left)
		return 0;
	if (n > left - off)
		n = (size_t)(left - off);
	if (off < s->gone) {
		lost = s->gone - off < n ? (size_t)(s->gone - off) : n;
		memset(p, '\n', lost);
		off += lost;
	}
	memcpy((char *)p + lost, s->kept.p + (off - s->gone), n - lost);
	return n;
}
