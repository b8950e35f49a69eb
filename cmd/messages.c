/*
 * messages.c - the images a message file names.  The file may come from
 * anywhere, so a path in it may not leave its folder, nor go through a link,
 * and nothing is fetched.  On a mounted store, where a state's pictures are links
 * to the store's, it may not leave the mount.
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
	int mounted;		/* a store, and dirfd lies on it; -1: who knows */
	char *dir;		/* "" or ends in a slash */
	char *real;		/* the same from /, no slash at its end */
	const char *where;	/* "messages[0].content[2]" */
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

/*
 * Add fd's image, called name.  What was found stays what it is, whatever
 * happens to the name.
 */
static int
hold(struct walk *w, int fd, const char *name, struct epd_why *why)
{
	struct prompt_images *im = w->out;
	char path[64], *known;

	if (im->nheld == PROMPT_HELD) {
		close(fd);
		return epd_why(why, EPD_EUSAGE, "more than %d images by path "
		    "or data: URL; name them as features", PROMPT_HELD);
	}
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	im->held[im->nheld].path = cli_keep(w->c, strdup(path));
	if (asprintf(&known, "%s: %.120s", w->where, name) < 0)
		known = NULL;
	im->held[im->nheld].name = cli_keep(w->c, known);
	prompt_image(w->c, im, (struct epd_request_image){
	    .path = im->held[im->nheld].path });
	im->nheld++;
	return 0;
}

void
prompt_why(const struct prompt_images *im, int rc, struct epd_why *why)
{
	for (int i = 0; i < im->nheld; i++) {
		const struct epd_why was = *why;
		size_t n = strlen(im->held[i].path);
		const char *at = strstr(was.text, im->held[i].path);

		if (!at || (at[n] >= '0' && at[n] <= '9'))
			continue;
		epd_why(why, rc, "%.*s%s%s", (int)(at - was.text), was.text,
		    im->held[i].name, at + n);
		return;
	}
}

/* A picture inside the JSON becomes a nameless file. */
static int
inlined(struct walk *w, const char *url, struct epd_why *why)
{
	const char *comma = strchr(url, ',');
	struct epd_buf b = {0};
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
	if (rc == 0 && (rc = epd_file_pwrite(fd, b.p, b.n, 0)) < 0)
		close(fd);
	if (rc == 0)
		rc = hold(w, fd, "data: URL", why);
	epd_buf_free(&b);
	return rc;
}

/* What remains of an absolute path beneath folder, or NULL. */
static const char *
beneath(const char *name, const char *folder)
{
	size_t n = folder ? strlen(folder) : 0;

	while (n && folder[n - 1] == '/')
		n--;
	if (!folder || *folder != '/' || strncmp(name, folder, n) ||
	    name[n] != '/')
		return NULL;
	return name + n + strspn(name + n, "/");
}

/* Looked up once, by the first path that needs it. */
static int
is_mounted(struct walk *w)
{
	if (w->mounted < 0)
		w->mounted = epd_dir_is(w->dirfd, "fuse.epd");
	return w->mounted;
}

static int
file(struct walk *w, const char *name, struct epd_why *why)
{
	const char *path = name;
	int fd;

	if (*name == '/' && !(path = beneath(name, w->real)) &&
	    !(path = beneath(name, w->dir)))
		return epd_why(why, EPD_EFORMAT, "%.80s: not beneath the "
		    "message file's folder; absolute paths outside it are not "
		    "taken", name);
	fd = epd_file_open(w->dirfd, path, O_RDONLY | O_NONBLOCK, 0);
	if ((fd == -EXDEV || fd == -ELOOP) && is_mounted(w)) {
		int there = epd_file_open_within(w->dirfd, path, O_RDONLY |
		    O_NONBLOCK);

		fd = there == -ENOSYS ? fd : there;
	}
	if (fd == -EXDEV || fd == -ELOOP)
		return epd_why(why, EPD_EFORMAT, "%.120s: not beneath the "
		    "message file's folder", name);
	if (fd < 0)
		return epd_why(why, fd, "%.120s: %s", name, epd_strerror(fd));
	return hold(w, fd, name, why);
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
	char where[64];

	w->where = where;
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
			snprintf(where, sizeof where, "messages[%zu]"
			    ".content[%zu]", i, k);
			rc = image(w, name_of(part), &inner);
			if (rc < 0)
				return epd_why(why, rc, "%s: %s", where,
				    inner.text[0] ? inner.text :
				    epd_strerror(rc));
		}
	}
	if (w->used < w->given->n)
		return epd_why(why, EPD_EUSAGE, "%d image%s given that no "
		    "message has a place for", w->given->n - w->used,
		    w->given->n - w->used == 1 ? "" : "s");
	return 0;
}

int
prompt_message_images(struct cli *c, struct epd_store *s, const char *name,
    const struct epd_json *messages, const struct prompt_images *given,
    struct prompt_images *out, struct epd_why *why)
{
	struct walk w = { .c = c, .s = s, .given = given, .out = out,
	    .mounted = -1 };
	const char *slash = strrchr(name, '/');
	struct stat st;
	int rc;

	/* What comes by a descriptor has no folder: then it is the current one. */
	if (stat(name, &st) < 0 || !S_ISREG(st.st_mode) ||
	    !strcmp(name, "/dev/stdin") || !strncmp(name, "/dev/fd/", 8) ||
	    !strncmp(name, "/proc/", 6))
		slash = NULL;
	w.dir = slash ? strndup(name, (size_t)(slash - name) + 1) : strdup("");
	if (!w.dir)
		return -ENOMEM;
	w.real = realpath(*w.dir ? w.dir : ".", NULL);
	w.dirfd = open(*w.dir ? w.dir : ".", O_RDONLY | O_DIRECTORY |
	    O_CLOEXEC);
	rc = w.dirfd < 0 ? epd_why(why, -errno, "%s: %s", w.dir,
	    epd_strerror(-errno)) : walk(&w, messages, why);
	if (w.dirfd >= 0)
		close(w.dirfd);
	free(w.real);
	free(w.dir);
	return rc;
}
