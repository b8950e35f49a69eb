/*
 * err.c - the table of err.h turned into answers.
 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct row {
	int rc, no, ex;
	const char *label, *text;
};

static const struct row table[] = {
#define X(name, rc, no, ex, label, text) { rc, no, ex, label, text },
	EPD_ERRS(X)
#undef X
};

static const struct row *
find(int rc)
{
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (table[i].rc == rc)
			return &table[i];
	return NULL;
}

/* Between 0 and -1000 lies -errno. */
static int
is_errno(int rc)
{
	return rc < 0 && rc > -1000;
}

const char *
epd_strerror(int rc)
{
	const struct row *r = find(rc);
	const char *s;

	if (r)
		return r->text;
	if (rc >= 0)
		return "success";
	s = is_errno(rc) ? strerrordesc_np(-rc) : NULL;
	return s ? s : "unknown error";
}

const char *
epd_errlabel(int rc)
{
	const struct row *r = find(rc);
	const char *s;

	if (r)
		return r->label;
	if (rc >= 0)
		return "OK";
	s = is_errno(rc) ? strerrorname_np(-rc) : NULL;
	return s ? s : "UNKNOWN";
}

int
epd_errno(int rc)
{
	const struct row *r = find(rc);

	if (r)
		return r->no;
	if (rc >= 0)
		return 0;
	return is_errno(rc) ? -rc : EIO;
}

int
epd_exitcode(int rc)
{
	const struct row *r = find(rc);

	if (r)
		return r->ex;
	if (rc >= 0)
		return 0;
	switch (is_errno(rc) ? -rc : 0) {
	case EAGAIN:
	case EBUSY:
	case EDQUOT:
	case EINTR:
	case EMFILE:
	case ENFILE:
	case ENOLCK:
	case ENOMEM:
	case ENOSPC:
	case ETIMEDOUT:
		return 3;
	case ENOENT:
		return 4;
	case EBADMSG:
	case EIO:
	case EUCLEAN:
		return 5;
	default:
		return 1;
	}
}

/*
 * Names out of hostile files end up on terminals, so control characters are
 * taken out; a cut sentence ends at a whole character.
 */
static size_t
tidy(char *s, size_t n, int cut)
{
	if (cut) {
		size_t at = n;
		unsigned char lead;

		while (at && ((unsigned char)s[at - 1] & 0xc0) == 0x80)
			at--;
		lead = at ? (unsigned char)s[at - 1] : 0;
		if (lead >= 0xc0 && n - at < (lead < 0xe0 ? 1u :
		    lead < 0xf0 ? 2u : 3u))
			n = at - 1;
	}
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f)
			s[i] = '?';
	s[n] = '\0';
	return n;
}

int
epd_why(struct epd_why *why, int rc, const char *fmt, ...)
{
	/* Apart, since what is being said may quote why itself. */
	char text[sizeof why->text];
	int saved = errno, n;
	size_t len;
	va_list ap;

	if (!why)
		return rc;
	va_start(ap, fmt);
	n = vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	if (n < 0)
		text[0] = '\0';
	len = strlen(text);
	len = tidy(text, len, n > 0 && (size_t)n > len);
	memcpy(why->text, text, len + 1);
	errno = saved;
	return rc;
}
