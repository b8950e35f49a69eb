/* prompt.c - pieces of a prompt: texts, files and images, in order. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/prompt.h"

void
prompt_image(struct cli *c, struct prompt_images *im,
    struct epd_request_image one)
{
	if (im->n == im->cap) {
		int cap = im->cap ? 2 * im->cap : 8;
		void *v = realloc(im->v, (size_t)cap * sizeof *im->v);

		if (!v)
			cli_keep(c, NULL);
		im->v = v;
		im->cap = cap;
	}
	im->v[im->n++] = one;
}

int
prompt_image_named(struct cli *c, struct epd_store *s,
    struct prompt_images *im, const char *name, struct epd_why *why)
{
	struct epd_request_image one = { .path = name };
	struct epd_ref ref;
	int rc;

	if (!strncmp(name, "f:", 2) && access(name, F_OK) < 0) {
		if ((rc = epd_ref_parse(&ref, s, name, why)) < 0)
			return rc;
		one.path = NULL;
		one.feature = ref.feature;
	}
	prompt_image(c, im, one);
	return 0;
}

/* Broken text would be mended on its way through JSON; say so instead. */
static int
check_text(const char *what, struct epd_span text, struct epd_why *why)
{
	struct epd_utf8 u = {0};
	struct epd_buf b = {0};
	int same;

	epd_utf8_put(&u, text, &b);
	epd_utf8_end(&u, &b);
	same = !b.failed && b.n == text.n &&
	    (text.n == 0 || !memcmp(b.p, text.p, text.n));
	epd_buf_free(&b);
	return same ? 0 : epd_why(why, EPD_EFORMAT, "%.160s: not UTF-8", what);
}

static int
read_text(const char *path, struct epd_buf *out, struct epd_why *why)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	int rc = fd < 0 ? -errno : epd_file_slurp(fd, PROMPT_TEXT, out);

	if (fd >= 0)
		close(fd);
	return rc < 0 ? epd_why(why, rc, "%s: %s", path, epd_strerror(rc)) : 0;
}

/* The text of one piece, 'p' or 'f'. */
static int
piece(const struct prompt_piece *p, struct epd_buf *out, struct epd_why *why)
{
	int rc;

	if (p->key == 'p') {
		epd_buf_str(out, p->value);
	} else {
		if ((rc = read_text(p->value, out, why)) < 0)
			return rc;
		/* Editors end a file with a line break that nobody typed. */
		if (out->n && out->p[out->n - 1] == '\n')
			out->n--;
	}
	if (out->failed)
		return -ENOMEM;
	return check_text(p->key == 'p' ? "-p" : p->value,
	    epd_span(out->p, out->n), why);
}

int
prompt_content(struct cli *c, struct epd_store *s,
    const struct prompt_piece *p, int n, struct prompt_images *im,
    struct epd_json **out, struct epd_why *why)
{
	struct epd_buf b = {0};
	struct epd_jw w = { .out = &b };
	int rc = 0;

	epd_jw_begin(&w, NULL, '[');
	for (int i = 0; i < im->n; i++) {
		epd_jw_begin(&w, NULL, '{');
		epd_jw_str(&w, "type", "image");
		epd_jw_end(&w, '}');
	}
	for (int i = 0; rc == 0 && i < n; i++) {
		struct epd_buf text = {0};

		epd_jw_begin(&w, NULL, '{');
		if (p[i].key == 'i') {
			epd_jw_str(&w, "type", "image");
			rc = prompt_image_named(c, s, im, p[i].value, why);
		} else if ((rc = piece(&p[i], &text, why)) == 0) {
			epd_jw_str(&w, "type", "text");
			epd_jw_bytes(&w, "text", epd_span(text.p, text.n));
		}
		epd_jw_end(&w, '}');
		epd_buf_free(&text);
	}
	epd_jw_end(&w, ']');
	if (rc == 0 && b.failed)
		rc = -ENOMEM;
	if (rc == 0)
		rc = epd_json_parse(out, epd_span(b.p, b.n), "content", why);
	epd_buf_free(&b);
	return rc;
}

int
prompt_text(struct cli *c, struct epd_store *s, const struct prompt_piece *p,
    int n, struct prompt_images *im, struct epd_buf *out, struct epd_why *why)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < n; i++) {
		struct epd_buf text = {0};

		if (p[i].key == 'i') {
			rc = prompt_image_named(c, s, im, p[i].value, why);
		} else if ((rc = piece(&p[i], &text, why)) == 0) {
			epd_buf_put(out, text.p, text.n);
			rc = out->failed ? -ENOMEM : 0;
		}
		epd_buf_free(&text);
	}
	return rc;
}

int
prompt_json(const char *file, struct epd_json **root, struct epd_why *why)
{
	struct epd_buf b = {0};
	int rc = read_text(file, &b, why);

	if (rc == 0)
		rc = epd_json_parse(root, epd_span(b.p, b.n), file, why);
	epd_buf_free(&b);
	return rc;
}

int
prompt_messages(const char *file, struct epd_json **root,
    const struct epd_json **messages, const struct epd_json **tools,
    struct epd_why *why)
{
	const struct epd_json *m, *t;
	int rc = prompt_json(file, root, why);

	if (rc < 0)
		return rc;
	m = epd_json_type(*root) == EPD_JSON_OBJECT ?
	    epd_json_get(*root, "messages") : *root;
	t = epd_json_get(*root, "tools");
	if (epd_json_type(m) == EPD_JSON_ARRAY && epd_json_count(m) == 0)
		return epd_why(why, EPD_EFORMAT, "%s: no messages", file);
	if (epd_json_type(m) != EPD_JSON_ARRAY)
		return epd_why(why, EPD_EFORMAT, "%s: neither an array of "
		    "messages nor an object with \"messages\"", file);
	if (t && epd_json_type(t) != EPD_JSON_ARRAY &&
	    epd_json_type(t) != EPD_JSON_NULL)
		return epd_why(why, EPD_EFORMAT, "%s: \"tools\" is not an "
		    "array", file);
	*messages = m;
	if (epd_json_count(t) > 0)
		*tools = t;
	return 0;
}
