/* stream.h - lines that come one after another, and are read as a growing file. */
#ifndef EPD_FS_STREAM_H
#define EPD_FS_STREAM_H

#include "base/span.h"

/*
 * Of all that was written the newest lines are kept, 8 MiB less one of them or
 * more; what is older reads as
 * empty lines, so that every line stays where it was.
 */
struct epd_fs_stream {
	struct epd_buf kept;
	uint64_t gone;		/* bytes before it */
};
void epd_fs_stream_free(struct epd_fs_stream *s);
/* A line and its end.  Without memory it is left out. */
void epd_fs_stream_put(struct epd_fs_stream *s, struct epd_span line);
uint64_t epd_fs_stream_size(const struct epd_fs_stream *s);
/* At most n bytes at off into p; how many. */
size_t epd_fs_stream_read(const struct epd_fs_stream *s, uint64_t off,
    void *p, size_t n);

#endif
