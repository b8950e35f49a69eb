/* session.c - opening a model; apart, so that who only looks links no engine. */
#include "cmd/cli.h"

int
cli_session(struct cli *c, struct epd_store *s, const char *model,
    const struct epd_ref *states, int n, struct epd_session **out,
    struct epd_why *why)
{
	struct epd_session_options o = {
		.model = model, .isa = c->isa, .threads = c->threads,
	};

	if (!model)
		return epd_why(why, EPD_EUSAGE, CLI_NO_MODEL);
	return epd_flow_session(out, s, &o, states, c->model ? 0 : n, why);
}
