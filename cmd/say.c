/*
 * say.c - what reaches people and pipes.  Standard output is for refs, text and
 * JSON; everything else goes to standard error.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/said.h"
#include "cmd/cli.h"

enum { SCHEMA = 1 };		/* of everything -j writes */

/* Bytes of a control character at s, 2 of U+0080 to U+009F; 0 if it is none. */
static size_t
control(const char *s, size_t n)
{
	unsigned char ch = (unsigned char)*s;

	if (ch < 0x20 || ch == 0x7f)
		return 1;
	return ch == 0xc2 && n > 1 && (s[1] & 0xe0) == 0x80 ? 2 : 0;
}

/* The lines below come from outside in part; none may drive a terminal. */
void
cli_tidy(char *s, size_t n)
{
	epd_said_tidy(s, n);
}

static void
line(struct cli *c, const char *fmt, va_list ap)
{
	char text[2048];

	vsnprintf(text, sizeof text, fmt, ap);
	cli_tidy(text, strlen(text));
	cli_progress_end(c);
	cli_flush(c);
	fprintf(stderr, "%s\n", text);
}

void
cli_usage(struct cli *c, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	cli_tidy(text, strlen(text));
	cli_progress_end(c);
	fprintf(stderr, "%s: %s (see %s --help)\n", c->command->name, text,
	    c->command->name);
	exit(2);
}

void
cli_status(struct cli *c, int status)
{
	/* Least grave first: try again, refused, absent, wrong use, other, damage. */
	static const int order[] = { 0, 3, 6, 4, 2, 1, 5 };
	int a = 0, b = 0;

	for (int i = 0; i < (int)(sizeof order / sizeof *order); i++) {
		if (order[i] == c->status)
			a = i;
		if (order[i] == status)
			b = i;
	}
	/* One that tells of a signal stands above all. */
	if (b > a && c->status < 128)
		c->status = status;
}

void
cli_say(struct cli *c, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(c, fmt, ap);
	va_end(ap);
}

static void
fail_json(struct cli *c, const char *operand, int rc, const char *text)
{
	struct epd_buf b = {0};
	struct epd_jw w;

	cli_object(&w, &b);
	if (operand)
		epd_jw_str(&w, "operand", operand);
	epd_jw_str(&w, "error", epd_errlabel(rc));
	epd_jw_str(&w, "message", text);
	epd_jw_int(&w, "status", epd_exitcode(rc));
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/*
 * Bytes of a sentence that only say the operand, or a part of it, again: of
 * w1/s3@2 that are w1/s3, w1 and s3 as well, and of s3, where -w says w1, w1/s3.
 */
static size_t
repeated(const struct cli *c, const char *text, const char *operand)
{
	const char *slash = strchr(operand, '/');
	const char *last = slash ? slash + 1 : operand;
	const size_t n = strlen(last), at = strcspn(last, "@");
	const size_t first = (size_t)(last - operand);
	const size_t own = c->workflow && !slash ? strlen(c->workflow) : 0;
	const size_t skip = own && !strncmp(text, c->workflow, own) &&
	    text[own] == '/' ? own + 1 : 0;
	const struct epd_span part[] = {
		epd_span(operand, first + n), epd_span(operand, first + at),
		epd_span(operand, first ? first - 1 : 0),
		epd_span(last, n), epd_span(last, at),
	};

	text += skip;
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		if (part[i].n && !strncmp(text, part[i].p, part[i].n) &&
		    !strncmp(text + part[i].n, ": ", 2))
			return skip + part[i].n + 2;
	return 0;
}

/* "c.yaml:2: ..." names c.yaml already. */
static int
named(const char *text, const char *operand)
{
	size_t n = strlen(operand);

	return n && !strncmp(text, operand, n) && text[n] == ':' &&
	    text[n + 1] >= '0' && text[n + 1] <= '9';
}

void
cli_fail(struct cli *c, const char *operand, int rc, const struct epd_why *why)
{
	const char *text = why && why->text[0] ? why->text : epd_strerror(rc);
	size_t n = operand ? strlen(operand) : 0;
	/* As sentences have it, so that it can be found in one. */
	char *shown = n ? epd_strdup(operand) : NULL;
	char label[64] = "";

	if (shown)
		cli_tidy(shown, n);
	if (c->verbose)
		snprintf(label, sizeof label, " [%s]", epd_errlabel(rc));
	text += repeated(c, text, shown ? shown : "");
	if (shown && named(text, shown))
		n = 0;
	/* A verb's name is the program's and its own. */
	cli_say(c, "%.*s: %s%s%s%s", (int)strcspn(c->command->name, " "),
	    c->command->name, n ? operand : "", n ? ": " : "", text, label);
	epd_free(shown);
	if (c->json)
		fail_json(c, operand, rc, text);
	cli_status(c, epd_exitcode(rc));
}

void
cli_progress(struct cli *c, const char *what, uint64_t done, uint64_t total)
{
	const char *term = getenv("TERM");

	if (c->quiet || !isatty(2) || !term || !strcmp(term, "dumb"))
		return;
	fprintf(stderr, "\r%s %llu of %llu\033[K", what,
	    (unsigned long long)done, (unsigned long long)total);
	fflush(stderr);
	c->progress = 1;
}

void
cli_progress_end(struct cli *c)
{
	if (c->progress)
		fputs("\r\033[K", stderr);
	c->progress = 0;
}

/* ---- standard output ---- */

static int
lost(struct cli *c, int error)
{
	/* Said once, and what says it comes by here. */
	const int before = c->out_failed;

	c->out_failed = 1;
	/* A reader that has seen enough is no news. */
	if (!before && error != EPIPE)
		cli_say(c, "%.*s: standard output: %s",
		    (int)strcspn(c->command->name, " "), c->command->name,
		    strerror(error ? error : EIO));
	cli_status(c, 1);
	return -1;
}

int
cli_out(struct cli *c, struct epd_span text)
{
	if (c->out_failed)
		return -1;
	errno = 0;
	if (text.n && fwrite(text.p, 1, text.n, stdout) != text.n)
		return lost(c, errno);
	return 0;
}

int
cli_line(struct cli *c, const char *text)
{
	if (cli_out(c, epd_span_str(text)) < 0)
		return -1;
	return cli_out(c, epd_span("\n", 1));
}

int
cli_flush(struct cli *c)
{
	if (c->out_failed)
		return -1;
	errno = 0;
	if (fflush(stdout) != 0 || ferror(stdout))
		return lost(c, errno);
	return 0;
}

int
cli_text(struct cli *c, struct epd_span text)
{
	const char *p = text.p;
	size_t from = 0;
	int rc = 0;

	if (!isatty(1))
		return cli_out(c, text);
	/* What comes in pieces is cut between characters. */
	for (size_t i = 0, n; rc == 0 && i < text.n; i += n ? n : 1) {
		n = p[i] == '\n' || p[i] == '\t' ? 0 :
		    control(p + i, text.n - i);
		if (!n)
			continue;
		cli_out(c, epd_span(p + from, i - from));
		rc = cli_out(c, epd_span("??", n));
		from = i + n;
	}
	return rc ? rc : cli_out(c, epd_span(p + from, text.n - from));
}

void
cli_object(struct epd_jw *w, struct epd_buf *b)
{
	*w = (struct epd_jw){ .out = b };
	epd_jw_begin(w, NULL, '{');
	epd_jw_int(w, "schema_version", SCHEMA);
}

int
cli_object_end(struct cli *c, struct epd_jw *w)
{
	epd_jw_end(w, '}');
	epd_buf_put(w->out, "\n", 1);
	if (w->out->failed) {
		cli_fail(c, NULL, -ENOMEM, NULL);
		return -1;
	}
	if (cli_out(c, epd_span(w->out->p, w->out->n)) < 0)
		return -1;
	return cli_flush(c);
}
