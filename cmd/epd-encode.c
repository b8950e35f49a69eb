/*
 * epd-encode.c - image files to features: prints f:HEX, one a line.
 *
 * With --to each one is on its way to a peer while the next ones are encoded; names
 * are printed in the order of the operands, once the features are where they go.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli.h"
#include "cmd/nodes.h"
#include "transport/transport.h"

enum { UNDER_WAY = 4 };

static const struct cli_option options[] = {
	{ CLI_OWN, "to", "NODE", "send each feature there while the next one is "
	    "encoded" },
	{ 0, NULL, NULL, NULL },
};

static const char *const usage[] = {
	"[-jqv] [-m DIR] [-t N] [--to NODE] IMAGE ... | -",
	NULL
};

static void set(void *arg, int key, const char *value);

static const struct cli_command command = {
	.name = "epd-encode",
	.usage = usage,
	.about = "Encode pictures (PNG, JPEG, WebP, PPM) and print the name of "
	    "each one's feature. A picture encoded before costs next to "
	    "nothing. With - the pictures' names are read from standard input, "
	    "one a line; a feature's own name is looked up and printed whole.",
	.options = options,
	.common = "mtjvqSCTI",
	.set = set,
};

struct encode {
	struct cli cli;
	const char *to;			/* NULL: nowhere */
	struct epd_store_options here;
	struct epd_transfer_policy policy;
	struct sent {			/* oldest first */
		struct epd_transfer *transfer;
		const char *operand;
		struct epd_encoded e;
	} sent[UNDER_WAY];
	int nsent;
};

static void
set(void *arg, int key, const char *value)
{
	struct encode *x = arg;

	if (key == CLI_OWN)
		x->to = value;
}

/* moved: NULL, if it goes nowhere. */
static void
print(struct cli *c, const char *operand, const struct epd_encoded *e,
    const struct epd_transferred *moved)
{
	char bytes[24];
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
	if (c->verbose && moved)
		cli_say(c, "%s: %s", operand, moved->had ? "the peer has it" :
		    cli_bytes(bytes, moved->bytes));
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
	if (moved)
		epd_jw_uint(&w, "sent_bytes", moved->bytes);
	cli_object_end(c, &w);
	epd_buf_free(&b);
}

static void
not_sent(struct encode *x, const struct sent *s, int rc,
    const struct epd_why *why)
{
	char hex[2 * EPD_NAME + 1];
	struct epd_why said = {0};

	epd_hex_format(hex, s->e.fp.b, EPD_NAME);
	epd_why(&said, rc, "kept here as f:%.16s, and not sent to %.60s: %s",
	    hex, x->to, why->text);
	cli_fail(&x->cli, s->operand, rc, &said);
}

/* The oldest on its way; it is waited for until then. */
static int
arrived(struct encode *x, uint64_t deadline_ns)
{
	struct epd_transfer_result r;
	struct sent *s = x->sent;
	struct epd_why why = {0};
	int rc = epd_transfer_wait(s->transfer, deadline_ns, &r, &why);

	if (rc == EPD_ETIMEOUT && !deadline_ns)
		return 0;
	if (rc < 0)
		not_sent(x, s, rc, &why);
	else
		print(&x->cli, s->operand, &s->e, &r.moved);
	epd_transfer_free(s->transfer);
	memmove(s, s + 1, (size_t)--x->nsent * sizeof *s);
	return 1;
}

/* It is here; what is to be done with it then. */
static void
done(struct encode *x, const char *operand, const struct epd_encoded *e)
{
	struct sent *s = &x->sent[x->nsent];
	struct epd_why why = {0};
	int rc;

	if (!x->to) {
		print(&x->cli, operand, e, NULL);
		return;
	}
	*s = (struct sent){ .operand = operand, .e = *e };
	rc = epd_transfer_feature_bundle(&s->transfer, &x->here, &e->fp, "",
	    x->to, &x->policy, &why);
	if (rc < 0) {
		cli_fail(&x->cli, operand, rc, &why);
		return;
	}
	x->nsent++;
	while (x->nsent && arrived(x, x->nsent == UNDER_WAY ? UINT64_MAX : 0))
		;
}

/* A feature that is there already, by its name. */
static void
known(struct encode *x, struct epd_store *s, const char *text)
{
	struct cli *c = &x->cli;
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
	done(x, text, &e);
}

static void
run(struct encode *x, struct epd_store *s, char **operand, int n)
{
	struct cli *c = &x->cli;
	struct epd_session *session = NULL;
	struct epd_why why = {0};
	char *model = NULL;

	for (int i = 0; i < n && !c->out_failed; i++) {
		struct epd_encoded e;
		int rc = 0;

		if (!strncmp(operand[i], "f:", 2) &&
		    access(operand[i], F_OK) < 0) {
			known(x, s, operand[i]);
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
			done(x, operand[i], &e);
	}
	while (x->nsent)
		arrived(x, UINT64_MAX);
	epd_session_close(session);
}

int
main(int argc, char **argv)
{
	static struct encode x;
	struct cli *c = &x.cli;
	struct epd_store *s;
	int first = cli_begin(c, &command, &x, argc, argv), n;
	char **operand = cli_operands(c, argc, argv, first, &n);

	if (n == 0)
		cli_usage(c, "no image");
	if (x.to)
		c->transports = epd_transports();
	s = cli_store(c, 1);
	if (x.to) {
		x.to = cli_peer(c, s, "--to", x.to);
		cli_store_options(c, &x.here);
		epd_transfer_policy_default(&x.policy, &c->config);
	}
	run(&x, s, operand, n);
	epd_store_close(s);
	return cli_end(c);
}
