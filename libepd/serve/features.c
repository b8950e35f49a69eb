/* features.c - features that a guest reads, and those that it brings. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "serve/guest.h"

static int
take_name(struct epd_cur *c, struct epd_name *fp)
{
	const struct epd_span s = epd_unpack_bytes(c, EPD_NAME);

	if (c->failed)
		return EPD_EFORMAT;
	memcpy(fp->b, s.p, EPD_NAME);
	return 0;
}

static int
answer_has(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer)
{
	struct epd_name fp;
	int rc = take_name(c, &fp);

	if (rc == 0 && epd_cur_left(c))
		rc = EPD_EFORMAT;
	if (rc == 0)
		rc = epd_feature_is_there(g->s->features, &fp);
	if (rc < 0)
		return rc;
	/* Of who is not trusted a picture is all that is kept. */
	if (!g->s->config.trust_peers)
		rc = rc ? EPD_FEATURE_ALL : EPD_FEATURE_NO_ROWS;
	epd_pack_u8(answer, (uint8_t)rc);
	return 0;
}

static int
answer_read(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_window *w = epd_window_new(EPD_WINDOW_FEATURE_OUT, EPD_PARTS);
	uint64_t sum[EPD_PARTS] = { 0 };
	struct epd_name fp;
	uint8_t summed = 0;
	int rc = w ? take_name(c, &fp) : -ENOMEM;

	if (rc == 0) {
		summed = epd_unpack_u8(c);
		rc = c->failed || epd_cur_left(c) || summed > 1 ? EPD_EFORMAT :
		    0;
	}
	if (rc == 0)
		rc = epd_guest_room(g, why);
	if (rc == 0)
		rc = epd_feature_open_parts(g->s->features, &fp, &w->files);
	if (rc < 0) {
		epd_window_free(g, w);
		return rc == -ENOENT ? epd_why(why, EPD_ENOTHING, "no such "
		    "feature") : rc;
	}
	for (int i = 0; rc == 0 && i < EPD_PARTS; i++) {
		if (w->files.fd[i] < 0)
			continue;
		w->extent[w->n++] = (struct epd_extent){
			.fd = w->files.fd[i], .bytes = w->files.bytes[i],
		};
		/* It is as long as the file: not for who has been told them. */
		if (summed)
			rc = epd_xxh3_64_file(w->files.fd[i], 0,
			    w->files.bytes[i], sum + i);
	}
	if (rc < 0) {
		epd_window_free(g, w);
		return rc;
	}
	epd_guest_holds(g, w, w->n);
	epd_window_enter(g, w, opened);
	epd_pack_u64(answer, w->id);
	for (int i = 0; i < EPD_PARTS; i++)
		epd_pack_u64(answer, w->files.fd[i] < 0 ? 0 :
		    w->files.bytes[i]);
	for (int i = 0; i < EPD_PARTS; i++)
		epd_pack_u64(answer, sum[i]);
	return 0;
}

/* Memory for what comes, charged first, with nothing of others in it: it may be read. */
static int
make_parts(struct epd_guest *g, struct epd_window *w, struct epd_cur *c,
    struct epd_why *why)
{
	uint64_t sum = 0;
	int rc;

	for (int i = 0; i < EPD_PARTS; i++) {
		w->part_bytes[i] = epd_unpack_u64(c);
		if (w->part_bytes[i] > EPD_FEATURE_PART)
			return EPD_ETOOBIG;
		sum += w->part_bytes[i];
	}
	if (c->failed || epd_cur_left(c) || !sum)
		return EPD_EFORMAT;
	if ((rc = epd_serving_take(g->of, sum, why)) < 0)
		return rc;
	w->charged = sum;
	for (int i = 0; i < EPD_PARTS; i++) {
		if (!w->part_bytes[i])
			continue;
		if (!(w->part[i] = epd_calloc(1, (size_t)w->part_bytes[i])))
			return -ENOMEM;
		w->extent[w->n++] = (struct epd_extent){ .fd = -1,
		    .p = w->part[i], .bytes = w->part_bytes[i] };
	}
	return 0;
}

static int
answer_write(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_opened *opened, struct epd_why *why)
{
	struct epd_window *w = epd_window_new(EPD_WINDOW_FEATURE_IN, EPD_PARTS);
	int rc = w ? take_name(c, &w->fp) : -ENOMEM;

	if (rc == 0)
		rc = make_parts(g, w, c, why);
	if (rc < 0) {
		epd_window_free(g, w);
		return rc;
	}
	epd_window_enter(g, w, opened);
	epd_pack_u64(answer, w->id);
	return 0;
}

static int
answer_keep(struct epd_guest *g, struct epd_cur *c, struct epd_buf *answer,
    struct epd_why *why)
{
	struct epd_window *w = epd_window_find(g, epd_unpack_u64(c));
	struct epd_span part[EPD_PARTS];
	int rc;

	if (c->failed || epd_cur_left(c) || !w ||
	    w->kind != EPD_WINDOW_FEATURE_IN)
		return epd_why(why, EPD_EFORMAT, "no such window");
	for (int i = 0; i < EPD_PARTS; i++)
		part[i] = epd_span(w->part[i], (size_t)w->part_bytes[i]);
	rc = epd_feature_take_parts(g->s->features, &w->fp, part,
	    g->s->config.trust_peers, why);
	if (rc == 0)
		epd_pack_u64(answer, w->id);
	return rc;
}

int
epd_guest_feature(struct epd_guest *g, enum epd_ask verb, struct epd_cur *c,
    struct epd_buf *answer, struct epd_opened *opened, struct epd_why *why)
{
	switch (verb) {
	case EPD_ASK_HAS_FEATURE: return answer_has(g, c, answer);
	case EPD_ASK_READ_FEATURE:
		return answer_read(g, c, answer, opened, why);
	case EPD_ASK_WRITE_FEATURE:
		return answer_write(g, c, answer, opened, why);
	default: return answer_keep(g, c, answer, why);
	}
}
