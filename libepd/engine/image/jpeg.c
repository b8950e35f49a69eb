/*
 * jpeg.c - JPEG by libjpeg-turbo, with its defaults (the slow integer
 * transform, smooth upsampling), which are the reference's too.  Four
 * components are CMYK or YCCK, stored inverted as Adobe does it.
 *
 * The library leaves by longjmp.  What must outlive the jump is in struct job,
 * in the frame above the one that calls setjmp, and job_end frees all of it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>

#include <jerror.h>
#include <jpeglib.h>

#include "base/alloc.h"
#include "engine/image/codec.h"

/* A progressive file may go on for ever; real ones have some ten scans. */
enum { SCANS_MAX = 100, EXIF_MARKER = JPEG_APP0 + 1 };

struct job {
	struct jpeg_decompress_struct c;
	struct jpeg_error_mgr err;
	struct jpeg_progress_mgr progress;
	jmp_buf out;
	uint8_t *rgb, *row;
	int rc;
	struct epd_why *why;
};

static struct job *
job_of(j_common_ptr c)
{
	return c->client_data;
}

static void
leave(struct job *j, int rc)
{
	j->rc = rc;
	longjmp(j->out, 1);
}

static void
on_error(j_common_ptr c)
{
	struct job *j = job_of(c);
	char text[JMSG_LENGTH_MAX];
	int rc = EPD_EFORMAT;

	c->err->format_message(c, text);
	switch (c->err->msg_code) {
	case JERR_OUT_OF_MEMORY:
		rc = -ENOMEM;
		break;
	case JERR_IMAGE_TOO_BIG:
	case JERR_WIDTH_OVERFLOW:
		rc = EPD_ETOOBIG;
		break;
	case JERR_ARITH_NOTIMPL:
	case JERR_BAD_PRECISION:
	case JERR_SOF_UNSUPPORTED:
	case JERR_CONVERSION_NOTIMPL:
		rc = EPD_EUNSUPPORTED;
		break;
	}
	leave(j, epd_why(j->why, rc, "JPEG: %s", text));
}

/* Warnings (level -1) that leave every pixel in place are let pass. */
static void
on_message(j_common_ptr c, int level)
{
	if (level >= 0)
		return;
	switch (c->err->msg_code) {
	case JWRN_ADOBE_XFORM:
	case JWRN_EXTRANEOUS_DATA:
	case JWRN_JFIF_MAJOR:
		return;
	}
	on_error(c);
}

static void
on_progress(j_common_ptr c)
{
	struct job *j = job_of(c);

	if (j->c.input_scan_number > SCANS_MAX)
		leave(j, epd_why(j->why, EPD_EFORMAT,
		    "JPEG: more than %d scans", SCANS_MAX));
}

/* Pillow's arithmetic: each ink taken from what the black leaves. */
static void
from_cmyk(const uint8_t *in, uint8_t *rgb, long n)
{
	for (long i = 0; i < n; i++, in += 4, rgb += 3)
		for (int c = 0; c < 3; c++) {
			int white = in[3], v = (255 - in[c]) * white + 128;

			rgb[c] = (uint8_t)(white - (((v >> 8) + v) >> 8));
		}
}

static void
read_rows(struct job *j)
{
	long w = j->c.output_width;

	while (j->c.output_scanline < j->c.output_height) {
		uint8_t *to = j->rgb + (size_t)j->c.output_scanline *
		    (size_t)w * 3;
		JSAMPROW row = j->row ? j->row : to;

		if (jpeg_read_scanlines(&j->c, &row, 1) != 1)
			leave(j, epd_why(j->why, EPD_EFORMAT,
			    "JPEG: a row is missing"));
		if (j->row)
			from_cmyk(j->row, to, w);
	}
}

static int
exif_turn(const struct jpeg_decompress_struct *c)
{
	for (jpeg_saved_marker_ptr m = c->marker_list; m; m = m->next)
		if (m->marker == EXIF_MARKER && m->data_length >= 6 &&
		    !memcmp(m->data, "Exif\0\0", 6))
			return epd_exif_turn(epd_span(m->data,
			    m->data_length));
	return 1;
}

static void
read_all(struct job *j, int *turn, struct epd_span file,
    const struct epd_image_rules *rules)
{
	struct jpeg_decompress_struct *c = &j->c;
	int rc;

	jpeg_create_decompress(c);
	c->progress = &j->progress;
	jpeg_mem_src(c, file.p, file.n);
	if (rules->exif)
		jpeg_save_markers(c, EXIF_MARKER, 0xffff);
	jpeg_read_header(c, TRUE);
	rc = epd_image_room(&j->rgb, c->image_width, c->image_height, 3, rules,
	    j->why);
	if (rc < 0)
		leave(j, rc);
	switch (c->num_components) {
	case 1:
	case 3:
		c->out_color_space = JCS_RGB;
		break;
	case 4:
		c->out_color_space = JCS_CMYK;
		j->row = epd_malloc((size_t)c->image_width * 4);
		if (!j->row)
			leave(j, epd_why(j->why, -ENOMEM,
			    "no memory to read the JPEG"));
		break;
	default:
		leave(j, epd_why(j->why, EPD_EUNSUPPORTED,
		    "a JPEG of %d components", c->num_components));
	}
	*turn = exif_turn(c);
	jpeg_start_decompress(c);
	read_rows(j);
}

static int
attempt(struct job *j, int *turn, struct epd_span file,
    const struct epd_image_rules *rules)
{
	if (!setjmp(j->out))
		read_all(j, turn, file, rules);
	return j->rc;
}

int
epd_image_jpeg(struct epd_image *out, int *turn, struct epd_span file,
    const struct epd_image_rules *rules, struct epd_why *why)
{
	struct job j = { .why = why };
	int rc;

	j.c.err = jpeg_std_error(&j.err);
	j.c.client_data = &j;
	j.err.error_exit = on_error;
	j.err.emit_message = on_message;
	j.progress.progress_monitor = on_progress;
	rc = attempt(&j, turn, file, rules);
	if (!rc)
		*out = (struct epd_image){ j.c.image_width, j.c.image_height,
		    j.rgb };
	else
		epd_free(j.rgb);
	jpeg_destroy_decompress(&j.c);
	epd_free(j.row);
	return rc;
}
