/* open.h - where things are: the store, what is in it, the model.  Include cmd/cli.h. */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "epd.h"

struct cli;

void cli_config(struct cli *c);
void cli_store_path(struct cli *c, struct epd_buf *out);
/* As options and environment say, the configuration read. */
void cli_store_options(struct cli *c, struct epd_store_options *out);
struct epd_store *cli_store(struct cli *c, int create);	/* or the process ends */
struct epd_store *cli_look(struct cli *c);	/* what will not be changed */
#define CLI_NO_MODEL "no model: give -m or set EPD_MODEL"
char *cli_model(struct cli *c);	/* when no state says one, kept; or NULL */
int cli_session(struct cli *c, struct epd_store *s, const char *model,
    const struct epd_ref *states, int n, struct epd_session **out,
    struct epd_why *why);
/* What lies at one of two paths from the program's folder; NULL.  The caller frees. */
char *cli_beside(const char *built, const char *installed);
/* Operands, - replaced by the lines of standard input; kept. */
char **cli_operands(struct cli *c, int argc, char **argv, int first, int *n);
/* As epd_ref_parse; -w gives a bare s3 its workflow, and refuses another's. */
int cli_ref(struct cli *c, struct epd_store *s, const char *text,
    struct epd_ref *out, struct epd_why *why);
int cli_state(struct cli *c, struct epd_store *s, const char *text,
    struct epd_ref *out, struct epd_why *why);	/* so too; of states only */

#endif
