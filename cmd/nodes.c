/* nodes.c - other nodes; linked into commands that reach them alone. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cmd/nodes.h"
#include "transport/transport.h"

void
cli_nodes(struct cli *c)
{
	cli_config(c);
	if (!c->transports && !strcmp(c->config.directory_backend, "etcd"))
		c->transports = epd_transports_control();
}

const char *
cli_peer(struct cli *c, struct epd_store *s, const char *option,
    const char *text)
{
	char *address = cli_keep(c, calloc(1, EPD_ADDRESS));
	struct epd_why why = {0};
	int rc = epd_where_node(s, text, address, &why);

	if (rc < 0) {
		cli_fail(c, option, rc, &why);
		epd_store_close(s);
		exit(cli_end(c));
	}
	return address;
}

const char *
cli_to(struct cli *c, struct epd_store *s, const char *text)
{
	struct stat st;

	return strchr(text, '/') || !*s->node || !stat(text, &st) ? text :
	    cli_peer(c, s, "--to", text);
}
