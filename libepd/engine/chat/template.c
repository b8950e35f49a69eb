/*
 * template.c - finding a checkpoint's template and telling which it is.
 *
 * The model's directory is one a person named, so symbolic links in it are
 * followed: Hugging Face's own cache is made of them.
 */
#include "engine/chat/chat.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "engine/chat/sha256.h"

enum { MOST = 16 << 20 };	/* bytes of any of the three files */

static const struct {
	const char *sha256;
	enum epd_template kind;
} known[] = {
	/* Qwen2-VL and Qwen2.5-VL as published */
	{ "a0bc6f6fc7a29a80017a433e8f03a1cc1236e838a944a2d034295a60c4f2fddb",
	    EPD_TEMPLATE_QWEN2_VL },
	/* Qwen3-VL-Instruct as published */
	{ "3636d0f0bd6bef02654cdffdc447b79cb2cef8ab02cc75267345946291a489e4",
	    EPD_TEMPLATE_QWEN3_VL },
	/* tests/golden: the same strings in other words */
	{ "1f767cfe72f2029cdb0d3d48bad1e784986335dd9b1ff3316dc240ba5d85f076",
	    EPD_TEMPLATE_QWEN2_VL },
	{ "7236296742a80c3ad10536a837026263868d7db74dc43442dd16e1cc8c6224ed",
	    EPD_TEMPLATE_QWEN3_VL },
	/* the small model that comes with the sources */
	{ "9f76fdffb7f2f868b1f3fb5b6dc4748e52f95f3b234b69b2d5ad85f773c7d6ae",
	    EPD_TEMPLATE_QWEN3_BARE },
	/* random checkpoints made for measuring */
	{ "4c40a474b21a333e61b2ea3fab2706dbb7358efdecfa75c59214b6ee4a3033bc",
	    EPD_TEMPLATE_CHATML },
};

static int
read_file(struct epd_buf *out, int dirfd, const char *name,
    struct epd_why *why)
{
	struct stat st;
	int fd, rc;

	do
		fd = openat(dirfd, name,
		    O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	if (fd < 0)
		rc = -errno;
	else if (fstat(fd, &st) < 0)
		rc = -errno;
	else
		rc = S_ISREG(st.st_mode) ? epd_file_slurp(fd, MOST, out) :
		    EPD_EFORMAT;
	if (fd >= 0)
		close(fd);
	if (rc && rc != -ENOENT)
		return epd_why(why, rc, "%s: %s", name, epd_strerror(rc));
	return rc;
}

/* A text, or of several with names the one called default. */
static struct epd_span
text_of(const struct epd_json *j)
{
	for (size_t i = 0; epd_json_type(j) == EPD_JSON_ARRAY; i++) {
		const struct epd_json *one = epd_json_at(j, i);

		if (i == epd_json_count(j))
			break;
		if (!strcmp(epd_json_str(epd_json_get(one, "name"), ""),
		    "default"))
			return epd_json_bytes(epd_json_get(one, "template"));
	}
	return epd_json_bytes(j);
}

/* 1 with its hash if the file has a template, 0 if there is none in it. */
static int
from_json(uint8_t hash[32], int dirfd, const char *name, struct epd_why *why)
{
	struct epd_buf file = { 0 };
	struct epd_json *root = NULL;
	const struct epd_json *j;
	struct epd_span text;
	int rc = read_file(&file, dirfd, name, why);

	if (rc == -ENOENT)
		return 0;
	if (!rc)
		rc = epd_json_parse(&root, epd_span(file.p, file.n), name, why);
	if (!rc) {
		j = epd_json_get(root, "chat_template");
		text = text_of(j);
		if (text.p) {
			epd_sha256(hash, text);
			rc = 1;
		} else if (j) {
			rc = epd_why(why, EPD_EFORMAT,
			    "%s: chat_template has no text", name);
		}
	}
	epd_json_free(root);
	epd_buf_free(&file);
	return rc;
}

static int
from_text(uint8_t hash[32], int dirfd, const char *name, struct epd_why *why)
{
	struct epd_buf file = { 0 };
	int rc = read_file(&file, dirfd, name, why);

	if (!rc)
		epd_sha256(hash, epd_span(file.p, file.n));
	epd_buf_free(&file);
	return rc == -ENOENT ? 0 : rc ? rc : 1;
}

int
epd_chat_template(enum epd_template *out, uint8_t hash[32], int dirfd,
    struct epd_why *why)
{
	uint8_t sum[32] = { 0 };
	char hex[65];
	int rc;

	rc = from_text(sum, dirfd, "chat_template.jinja", why);
	if (!rc)
		rc = from_json(sum, dirfd, "chat_template.json", why);
	if (!rc)
		rc = from_json(sum, dirfd, "tokenizer_config.json", why);
	if (rc < 0)
		return rc;
	*out = rc ? EPD_TEMPLATE_UNKNOWN : EPD_TEMPLATE_NONE;
	epd_hex_format(hex, sum, sizeof sum);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(hex, known[i].sha256))
			*out = known[i].kind;
	memcpy(hash, sum, sizeof sum);
	return 0;
}
