/* epd-encode.c - image files to features: prints f:HEX, one a line. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli.h"

static const char *const usage[] = {
	"[-jqv] [-m DIR] [-t N] IMAGE ... | -",
	NULL
};

static const struct cli_command command = {
	.name = "epd-encode",
	.usage = usage,
	.about = "Encode pictures (PNG, JPEG, WebP, PPM) and print the name of "
	    "each one's feature. A picture encoded before costs next to "
	    "nothing. With - the pictures' names are read from standard input, "
	    "one a line; a feature's own name is looked up and printed whole.",
	.common = "mtjvqSCTI",
};

static void
print(struct cli *c, const char *operand, const struct epd_encoded *e)
{
	char hex[2 * EPD_NAME + 1], line[2 * EPD_NAME + 3] = "f:";
	double ms = (double)e->ns / 1e6;
	struct epd_buf b = {0};
	struct epd_jw w;

	epd_hex_format(hex, e->fp.b, EPD_NAME);
	memcpy(line + 2, hex, sizeof hex);
	if (c->verbose)
		cli_say(c, "%s: %s, %u tokens (%ux%ux%u patches), %.1f ms",
		    operand, !e->hit ? "fresh" : e->memo ? "hit, not decoded" :
		    "hit", e->tokens, e->grid[0], e->grid[1], e->grid[2], ms);
	if (!c->json) {
		cli_line(c, line);
		cli_flush(c);
		return;
	}
	cli_object(&w, &b);
	epd_jw_str(&w, "feature", line);
	epd_jw_str(&w, "image", operand);
	epd_jw_bool(&w, "hit", e->hit);
	epd_jw_bool(&w, "memo", e->memo);
	epd_jw_uint(&w, "tokens", e->tokens);
	epd_jw_begin(&w, "grid", '[');
	for (int i = 0; i < 3; i++)
		epd_jw_uint(&w, NULL, e->grid[i]);
	epd_jw_end(&w, ']');
	epd_jw_real(&w, "ms", ms);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

/* A feature that is there already, by its name. */
static void
known(struct cli *c, struct epd_store *s, const char *text)
{
	struct epd_encoded e = { .hit = 1, .memo = 1 };
	struct epd_feature_meta m;
	struct epd_why why = {0};
	struct epd_ref ref;
	int rc = epd_ref_parse(&ref, s, text, &why);

	if (rc == 0)
		rc = epd_feature_meta(s->features, &ref.feature, &m);
	if (rc == -ENOENT)
		rc = epd_why(&why, EPD_ENOTHING, "no such feature");
	if (rc < 0) {
		cli_fail(c, text, rc, &why);
		return;
	}
	e.fp = ref.feature;
	e.tokens = m.tokens;
	memcpy(e.grid, m.grid, sizeof e.grid);
	print(c, text, &e);
}

static void
run(struct cli *c, struct epd_store *s, char **operand, int n)
{
	struct epd_session *session = NULL;
	struct epd_why why = {0};
	char *model = NULL;

	for (int i = 0; i < n && !c->out_failed; i++) {
		struct epd_encoded e;
		int rc = 0;

		if (!strncmp(operand[i], "f:", 2) &&
		    access(operand[i], F_OK) < 0) {
			known(c, s, operand[i]);
			continue;
		}
		why.text[0] = '\0';
		if (!session) {
			model = cli_model(c);
			rc = cli_session(c, s, model, NULL, 0, &session,
			    &why);
			if (rc < 0) {
				cli_fail(c, model, rc, &why);
				break;
			}
		}
		if (n > 1)
			cli_progress(c, "encoding", (uint64_t)i + 1,
			    (uint64_t)n);
		rc = epd_flow_encode(session, operand[i], &e, &why);
		if (rc < 0)
			cli_fail(c, operand[i], rc, &why);
		else
			print(c, operand[i], &e);
	}
	epd_session_close(session);
}

int
main(int argc, char **argv)
{
	struct cli c;
	struct epd_store *s;
	int first = cli_begin(&c, &command, NULL, argc, argv), n;
	char **operand = cli_operands(&c, argc, argv, first, &n);

	if (n == 0)
		cli_usage(&c, "no image");
	s = cli_store(&c, 1);
	run(&c, s, operand, n);
	epd_store_close(s);
	return cli_end(&c);
}
