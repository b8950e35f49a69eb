/*
 * cmd_ref.c - a state, workflow or feature as typed, after a byte that says what
 * -w was.  What is taken is spelt one way only; what is not is told in words.
 */
#include "cmd/cli.h"
#include "tests/fuzz/store.h"

static void
feature(const struct epd_ref *r, const char *text)
{
	char hex[2 * EPD_NAME + 1];
	int known = 0, alike = 0;

	epd_hex_format(hex, r->feature.b, EPD_NAME);
	if (strncmp(hex, text + 2, strlen(text + 2)))
		abort();
	for (int i = 0; i < STORE_FEATURES; i++) {
		known |= !strcmp(hex, store_features[i]);
		alike += !strncmp(text + 2, store_features[i],
		    strlen(text + 2));
	}
	if (strlen(text) != 2 + 2 * EPD_NAME && (!known || alike != 1))
		abort();
}

static int
name_ok(const char *s)
{
	return *s && !strchr("-.", *s) && !strpbrk(s, "/@ \n") &&
	    epd_workflow_name_ok(s);
}

static void
state(const struct epd_ref *r, const char *workflow, const char *text)
{
	char again[EPD_REF_TEXT];
	const char *tail;

	epd_ref_format(again, r->workflow, r->state, r->version);
	tail = strchr(again, '/') + 1;
	if (!r->state || !name_ok(r->workflow))
		abort();
	if (workflow && strcmp(r->workflow, workflow))
		abort();
	if (strcmp(text, again) && (!workflow || strcmp(text, tail)))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

int
LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
	static const char *const workflows[] = { NULL, "w1", "-w", "a.b" };
	struct cli c = { .quiet = 1 };
	struct epd_ref r, before;
	struct epd_why why = { "" };
	char text[512];
	int rc;

	if (n < 1 || n >= sizeof text)
		return 0;
	memcpy(text, p + 1, n - 1);
	text[n - 1] = '\0';
	c.workflow = workflows[p[0] % 4];
	memset(&r, 0x5a, sizeof r);
	before = r;
	rc = cli_ref(&c, store(), text, &r, &why);
	if (rc) {
		if ((rc != EPD_EUSAGE && rc != EPD_ENOTHING &&
		    rc != EPD_EAMBIGUOUS) || !why.text[0] ||
		    memcmp(&r, &before, sizeof r))
			abort();
		return 0;
	}
	switch (r.kind) {
	case EPD_REF_WORKFLOW:
		if (strcmp(r.workflow, text) || !name_ok(text) ||
		    r.state || r.version)
			abort();
		break;
	case EPD_REF_STATE: state(&r, c.workflow, text); break;
	case EPD_REF_FEATURE: feature(&r, text); break;
	}
	return 0;
}
