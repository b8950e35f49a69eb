/*
 * cmd_messages.c - a message file's images.  Whatever it says, what is opened
 * lies in its folder or in the file itself.  "/@" in it becomes the path of what
 * the folder lies in.
 */
#include "cmd/prompt.h"
#include "tests/fuzz/store.h"

static char file[128];

/*
 *	outside.png
 *	chats/m.json a.png sub/b.png
 *	chats/out.png -> ../outside.png, chats/up -> ..
 */
static void
begin(void)
{
	int top = folder();

	close(epd_dir_make(top, "chats/sub"));
	folder_put(top, "outside.png", "o", 1);
	folder_put(top, "chats/m.json", "", 0);
	folder_put(top, "chats/a.png", "a", 1);
	folder_put(top, "chats/sub/b.png", "b", 1);
	if (symlinkat("../outside.png", top, "chats/out.png") ||
	    symlinkat("..", top, "chats/up"))
		abort();
	snprintf(file, sizeof file, "%s/chats/m.json", folder_path);
}

/* Where a held image lies; and let go of it. */
static void
check_held(const char *path)
{
	char at[512], within[128];
	size_t n;
	ssize_t len = readlink(path, at, sizeof at - 2);

	if (len < 0)
		abort();
	/* It may be the folder itself, which is no image. */
	strcpy(at + len, "/");
	n = (size_t)snprintf(within, sizeof within, "%s/chats/", folder_path);
	if (strncmp(at, "/memfd:image", 12) && strncmp(at, within, n))
		abort();
	close(atoi(strrchr(path, '/') + 1));
}

static void
look(const struct epd_json *messages, int given)
{
	static const struct cli_command command = { .name = "fuzz" };
	struct cli c = { .command = &command, .quiet = 1 };
	struct epd_request_image one = { .path = "given" };
	struct prompt_images mine = { .v = &one, .n = given };
	struct prompt_images im = { .n = 0 };
	struct epd_why why = { "" };
	int rc = prompt_message_images(&c, store(), file, messages, &mine, &im,
	    &why);

	if (rc > 0 || (rc && !why.text[0]) || im.nheld > im.n ||
	    im.n > im.cap || (!rc && im.n < given))
		abort();
	for (int i = 0; i < im.n; i++)
		if (im.v[i].path && strcmp(im.v[i].path, "given") &&
		    strncmp(im.v[i].path, "/proc/self/fd/", 14))
			abort();
	for (int i = 0; i < im.nheld; i++) {
		epd_why(&why, 0, "%s: broken", im.held[i].path);
		prompt_why(&im, 0, &why);
		if (strstr(why.text, "/proc/self/fd/"))
			abort();
	}
	for (int i = 0; i < im.nheld; i++)
		check_held(im.held[i].path);
	free(im.v);
	cli_end(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	struct epd_buf b = { 0 };
	struct epd_json *j;
	int rc;

	if (!file[0])
		begin();
	for (size_t i = 0; i < n; i++)
		if (i + 1 < n && p[i] == '/' && p[i + 1] == '@') {
			epd_buf_str(&b, folder_path);
			i++;
		} else {
			epd_buf_put(&b, p + i, 1);
		}
	rc = epd_json_parse(&j, epd_span(b.p, b.n), "input", NULL);
	epd_buf_free(&b);
	if (rc)
		return 0;
	for (int given = 0; given < 2; given++)
		look(epd_json_type(j) == EPD_JSON_OBJECT ?
		    epd_json_get(j, "messages") : j, given);
	epd_json_free(j);
	return 0;
}
