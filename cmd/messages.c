/*
 * messages.c - the images a message file names.  The file may come from
 * anywhere, so a path in it may not leave its folder, nor go through a link,
 * and nothing is fetched.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "cmd/prompt.h"

struct walk {
	struct cli *c;
	struct epd_store *s;
	int dirfd;
	char *dir;		/* "" or ends in a slash */
	const struct prompt_images *given;
	int used;		/* of given */
	struct prompt_images *out;
};

/* As the templates have it, and so engine/chat. */
static int
is_image(const struct epd_json *part)
{
	const char *type = epd_json_str(epd_json_get(part, "type"), "");

	return !strcmp(type, "image") || epd_json_has(part, "image") ||
	    epd_json_has(part, "image_url");
}

/* What a part names, or NULL. */
static const char *
name_of(const struct epd_json *part)
{
	static const char *const keys[] = { "image", "image_url", "url",
	    "path" };

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const struct epd_json *j = epd_json_get(part, keys[i]);
		const char *name = epd_json_str(j, NULL);

		if (!name)
			name = epd_json_str(epd_json_get(j, "url"), NULL);
		if (name && *name)
			return name;
	}
	return NULL;
}

static int
sextet(int ch)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = ch ? strchr(digits, ch) : NULL;

	return p ? (int)(p - digits) : -1;
}

/* Base64 (RFC 4648), white space allowed. */
static int
base64(const char *s, struct epd_buf *out)
{
	uint32_t bits = 0;
	int n = 0, pads = 0;

	for (; *s; s++) {
		uint8_t byte;
		int v = sextet((unsigned char)*s);

		if (*s == '\n' || *s == '\r' || *s == ' ')
			continue;
		if (*s == '=' && ++pads <= 2)
			continue;
		if (v < 0 || pads)
			return -EINVAL;
		bits = bits << 6 | (uint32_t)v;
		if (++n % 4 == 1)
			continue;
		byte = (uint8_t)(bits >> (6 - 2 * ((n - 1) % 4)));
		epd_buf_put(out, &byte, 1);
	}
	return out->failed ? -ENOMEM : n % 4 == 1 ? -EINVAL : 0;
}

/* A picture inside the JSON becomes a nameless file. */
static int
inlined(struct walk *w, const char *url, struct epd_why *why)
{
	const char *comma = strchr(url, ',');
	struct epd_buf b = {0};
	char path[64];
	int fd, rc;

	if (!comma || comma - url < 7 || strncmp(comma - 7, ";base64", 7))
		return epd_why(why, EPD_EUNSUPPORTED,
		    "a data: URL that is not base64");
	rc = base64(comma + 1, &b);
	if (rc == -EINVAL)
		rc = epd_why(why, EPD_EFORMAT, "a data: URL with broken base64");
	fd = rc < 0 ? -1 : memfd_create("image", MFD_CLOEXEC);
	if (rc == 0 && fd < 0)
		rc = -errno;
	if (rc == 0 && (rc = epd_file_pwrite(fd, b.p, b.n, 0)) == 0) {
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		prompt_image(w->c, w->out, (struct epd_request_image){
		    .path = cli_keep(w->c, strdup(path)) });
	}
	epd_buf_free(&b);
	return rc;
}

static int
file(struct walk *w, const char *name, struct epd_why *why)
{
	char path[64];
	int fd = epd_file_open(w->dirfd, name, O_RDONLY | O_NONBLOCK, 0);

	if (fd == -EXDEV || fd == -ELOOP || *name == '/')
		return epd_why(why, EPD_EFORMAT, "%.120s: not beneath the "
		    "message file's folder", name);
	if (fd < 0)
		return epd_why(why, fd, "%.120s: %s", name, epd_strerror(fd));
	/* The file that was found beneath the folder, whatever the name is by then. */
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	prompt_image(w->c, w->out, (struct epd_request_image){
	    .path = cli_keep(w->c, strdup(path)) });
	return 0;
}

static int
image(struct walk *w, const char *name, struct epd_why *why)
{
	struct epd_ref ref;
	int rc;

	if (!name) {
		if (w->used == w->given->n)
			return epd_why(why, EPD_EUSAGE, "an image that names "
			    "nothing, and none given for it");
		prompt_image(w->c, w->out, w->given->v[w->used++]);
		return 0;
	}
	if (!strncmp(name, "data:", 5))
		return inlined(w, name, why);
	if (!strncmp(name, "http://", 7) || !strncmp(name, "https://", 8))
		return epd_why(why, EPD_EUNSUPPORTED, "%.120s: nothing is "
		    "fetched; give a file", name);
	if (!strncmp(name, "f:", 2)) {
		if ((rc = epd_ref_parse(&ref, w->s, name, why)) < 0)
			return rc;
		prompt_image(w->c, w->out,
		    (struct epd_request_image){ .feature = ref.feature });
		return 0;
	}
	return file(w, strncmp(name, "file://", 7) ? name : name + 7, why);
}

static int
walk(struct walk *w, const struct epd_json *messages, struct epd_why *why)
{
	for (size_t i = 0; i < epd_json_count(messages); i++) {
		const struct epd_json *content =
		    epd_json_get(epd_json_at(messages, i), "content");

		if (epd_json_type(content) != EPD_JSON_ARRAY)
			continue;
		for (size_t k = 0; k < epd_json_count(content); k++) {
			const struct epd_json *part = epd_json_at(content, k);
			struct epd_why inner = {{0}};
			int rc;

			if (!is_image(part))
				continue;
			rc = image(w, name_of(part), &inner);
			if (rc < 0)
				return epd_why(why, rc, "message %zu: %s", i,
				    inner.text[0] ? inner.text :
				    epd_strerror(rc));
		}
	}
	if (w->used < w->given->n)
		return epd_why(why, EPD_EUSAGE, "%d images given that no "
		    "message has a place for", w->given->n - w->used);
	return 0;
}

int
prompt_message_images(struct cli *c, struct epd_store *s, const char *name,
    const struct epd_json *messages, const struct prompt_images *given,
    struct prompt_images *out, struct epd_why *why)
{
	struct walk w = { .c = c, .s = s, .given = given, .out = out };
	const char *slash = strrchr(name, '/');
	struct stat st;
	int rc;

	/* What comes by a pipe has no folder: then it is the current one. */
	if (stat(name, &st) < 0 || !S_ISREG(st.st_mode))
		slash = NULL;
	w.dir = slash ? strndup(name, (size_t)(slash - name) + 1) : strdup("");
	if (!w.dir)
		return -ENOMEM;
	w.dirfd = open(*w.dir ? w.dir : ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	rc = w.dirfd < 0 ? epd_why(why, -errno, "%s: %s", w.dir,
	    epd_strerror(-errno)) : walk(&w, messages, why);
	if (w.dirfd >= 0)
		close(w.dirfd);
	free(w.dir);
	return rc;
}
