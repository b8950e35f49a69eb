/* nodes.h - other nodes, by address or by the directory; for commands that reach them. */
#ifndef CMD_NODES_H
#define CMD_NODES_H

#include "cmd/cli.h"

/* Before the store is opened: what is missing here may be had from other nodes. */
void cli_nodes(struct cli *c);
/* What --from or --to says as an address, kept; or the process ends. */
const char *cli_peer(struct cli *c, struct epd_store *s, const char *option,
    const char *text);
/* What --to says: a folder, which goes before a node of the same name, or as cli_peer. */
const char *cli_to(struct cli *c, struct epd_store *s, const char *text);

#endif
