/*
 * cmd_show.c - what people are shown: any JSON as lines, any text as a message,
 * and a word's nearest.  Nothing of it may drive a terminal.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

/* Controls, of one byte or two. */
static int
drives(const uint8_t *p, size_t n, int lines)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] == '\n' && lines)
			continue;
		if (p[i] < 0x20 || p[i] == 0x7f)
			return 1;
		if (p[i] == 0xc2 && i + 1 < n && p[i + 1] >= 0x80 &&
		    p[i + 1] < 0xa0)
			return 1;
	}
	return 0;
}

/* Is each byte that became another one part of a control? */
static int
meant(const uint8_t *was, const uint8_t *is, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (was[i] != is[i] && !drives(was + i, n - i > 1 ? 2 : 1, 0) &&
		    !(i && was[i - 1] == 0xc2 && drives(was + i - 1, 2, 0)))
			return 0;
	return 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const words[] = {
		"ls", "show", "tree", "release", "store", "no-generation", NULL,
	};
	struct epd_buf out = { 0 };
	struct epd_json *j;
	const char *word;
	int known = 0;

	if (!epd_json_parse(&j, epd_span(p, n), "input", NULL)) {
		cli_show(&out, j);
		if (out.failed || drives(out.p, out.n, 1))
			abort();
		epd_json_free(j);
	}
	out.n = 0;
	epd_buf_put(&out, p, n);
	word = cli_nearest(epd_buf_cstr(&out), words);
	for (int i = 0; words[i]; i++)
		known |= word == words[i];
	if (word && !known)
		abort();
	cli_tidy((char *)out.p, out.n);
	if (drives(out.p, out.n, 0) || !meant(p, out.p, n))
		abort();
	epd_buf_free(&out);
	return 0;
}
