/*
 * start.c - what every command does before it is of use, and nothing more: the
 * store, the model, the tokenizer, the engine, and one layer of one token.
 *
 *	start -m DIR -s STORE [-t THREADS]
 *
 * Ends as soon as the first layer is computed, without cleaning up, so that the
 * time of the whole process is the time to there.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "epd.h"

static void
must(int rc, const struct epd_why *why)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "start: %s\n", *why->text ? why->text :
	    epd_strerror(rc));
	exit(1);
}

/* What goes into layer 1 is what came out of layer 0. */
static void
first_layer(void *arg, const char *name, int index, const float *x, long rows,
    long cols)
{
	(void)arg;
	(void)index;
	(void)x;
	(void)rows;
	(void)cols;
	if (!strcmp(name, "hidden_in_layer1"))
		_exit(0);
}

int
main(int argc, char **argv)
{
	static struct epd_config config;
	struct epd_store_options so = { .config = &config, .tenant = "",
	    .create = 1 };
	struct epd_session_options o = { .isa = getenv("EPD_ISA") };
	struct epd_why why = {0};
	struct epd_store *store;
	struct epd_session *s;
	struct epd_ids ids = {0};
	struct epd_chunk c = {0};
	int32_t pos[1][3];
	void *page;
	int opt;

	while ((opt = getopt(argc, argv, "m:s:t:")) != -1) {
		if (opt == 'm')
			o.model = optarg;
		else if (opt == 's')
			so.path = optarg;
		else if (opt == 't')
			o.threads = atoi(optarg);
		else
			return 2;
	}
	if (!o.model || !so.path)
		return 2;
	epd_config_default(&config);
	must(epd_store_open(&store, &so, &why), &why);
	must(epd_session_open(&s, store, &o, &why), &why);
	must(epd_session_engine(s, &why), &why);
	must(epd_tokenizer_encode(s->tokens, epd_span_str("hello"), &ids),
	    &why);
	if (ids.failed || ids.n == 0 || !(page = calloc(1, s->page_bytes)))
		return 1;
	epd_positions(s->model, NULL, 0, 0, 1, pos);
	c = (struct epd_chunk){ .ids = ids.v, .pos = (const int32_t (*)[3])pos,
	    .n = 1, .pages = &page };
	epd_engine_probe(s->engine, first_layer, NULL);
	must(epd_forward(s->engine, &s->shape, &c, 1, &why), &why);
	fprintf(stderr, "start: no probe said that layer 0 is done\n");
	return 1;
}
