/* each.c - one verb on each of several states. */
#include "cmd/each.h"

char **
cli_states(struct cli *c, int argc, char **argv, int first, int *n)
{
	char **operand = cli_operands(c, argc, argv, first, n);

	if (*n == 0)
		cli_usage(c, "no state");
	return operand;
}

static void
one(struct cli *c, struct epd_store *s, const char *operand,
    const struct cli_each *e, void *arg)
{
	struct epd_why why = {0};
	char name[EPD_REF_TEXT];
	struct epd_ref ref;
	int rc = cli_state(c, s, operand, &ref, &why);

	if (rc == 0)
		rc = e->act(arg, s, &ref, &why);
	if (rc < 0) {
		cli_fail(c, operand, rc, &why);
		return;
	}
	epd_ref_format(name, ref.workflow, ref.state, ref.version);
	e->print(arg, name);
	cli_flush(c);
	if (c->verbose)
		e->tell(arg, name);
}

void
cli_each(struct cli *c, struct epd_store *s, char **operand, int n,
    const struct cli_each *e, void *arg)
{
	for (int i = 0; i < n && !c->out_failed; i++)
		one(c, s, operand[i], e, arg);
	epd_store_close(s);
}
