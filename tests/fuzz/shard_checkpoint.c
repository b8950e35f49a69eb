/*
 * shard_checkpoint.c - fuzz checkpoints.  The first byte says whether the CRCs
 * of head and index are put right first, as a hostile writer would.  What loads
 * must be sound, and packed again must load again as the same.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "shard/check.h"
#include "shard/checkpoint.h"

enum { HEAD = 96 };

static void
mend(uint8_t *p, size_t n)
{
	struct epd_cur c = epd_cur(epd_span(p + 56, 8));
	uint64_t index = epd_unpack_u64(&c);
	uint32_t crc;

	if (index > n - HEAD)
		return;
	crc = epd_crc32c(0, p + HEAD, (size_t)index);
	memcpy(p + 88, &crc, 4);
	crc = epd_crc32c(0, p, HEAD - 4);
	memcpy(p + 92, &crc, 4);
}

static int
body_of(void *arg, const struct epd_node *n, struct epd_span *out)
{
	return epd_table_body(arg, n->body, out);
}

static void
again(struct epd_table *t)
{
	struct epd_buf index = { 0 }, bodies = { 0 };
	struct epd_faults f = { NULL, NULL, 0 };
	struct epd_table *u;
	uint32_t segment;
	uint64_t size;
	int fd;

	if (!epd_checkpoint_pack(t, 1, body_of, t, &index, &bodies)) {
		fd = memfd_create("again", MFD_CLOEXEC);
		if (epd_file_pwrite(fd, index.p, index.n, 0) ||
		    epd_file_pwrite(fd, bodies.p, bodies.n, index.n) ||
		    epd_checkpoint_load(fd, &u, &segment, &size, NULL) ||
		    epd_table_compare(t, u, "checkpoint", &f) || f.n)
			abort();
		epd_table_free(u);
	}
	epd_buf_free(&index);
	epd_buf_free(&bodies);
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_faults f = { NULL, NULL, 0 };
	struct epd_table *t;
	uint32_t segment;
	uint64_t size;
	uint8_t *copy;
	int fd;

	if (!n)
		return 0;
	copy = malloc(n);
	memcpy(copy, p, n);
	if (copy[0] & 1 && n > HEAD)
		mend(copy + 1, n - 1);
	fd = memfd_create("checkpoint", MFD_CLOEXEC);
	if (epd_file_pwrite(fd, copy + 1, n - 1, 0))
		abort();
	free(copy);
	if (epd_checkpoint_load(fd, &t, &segment, &size, NULL))
		return 0;
	if (epd_tree_check(t->tree, NULL) || epd_recount(t, &f) || f.n)
		abort();
	again(t);
	epd_table_free(t);
	return 0;
}
