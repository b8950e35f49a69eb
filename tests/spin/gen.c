/*
 * gen.c - print the tables of life.h for the models: names as numbers, what may
 * follow what, and for each verb its moves as options of a Promela loop.
 *
 *	MAY(from, to, verb)	whether the table has the edge; to and verb are names
 *	MAY_PAGE(from, to)	the same of pages
 *	MOVES_verb(s)		an option an edge: if LIFE(s) is from and
 *				CAN_verb(s, from, to), DO_verb(s, from, to)
 *
 * A model says with LIFE, CAN_verb and DO_verb what the edges mean to it.
 */
#include <stdio.h>

#include "shard/life.h"

static const struct { enum epd_kind kind; const char *name; } verbs[] = {
#define X(id, n, name) { EPD_KIND_##id, #id },
	EPD_KINDS(X)
#undef X
};
static const enum epd_state_life lives[] = {
#define X(name) EPD_STATE_##name,
	EPD_STATE_LIVES(X)
#undef X
};
static const enum epd_page_life pages[] = {
#define X(name) EPD_PAGE_##name,
	EPD_PAGE_LIVES(X)
#undef X
};

#define COUNT(v) (sizeof (v) / sizeof *(v))

static void
state_edges(enum epd_kind verb, const char *name)
{
	for (size_t t = 0; t < COUNT(lives); t++) {
		unsigned from = 0;

		for (size_t f = 0; f < COUNT(lives); f++)
			if (epd_life_state(lives[f], lives[t], verb))
				from |= 1u << lives[f];
		printf("#define MAY_%s_%s %u\n", name,
		    epd_state_life_name(lives[t]), from);
	}
	printf("#define MOVES_%s(s)", name);
	for (int i = 0; i < epd_state_nmoves; i++) {
		const struct epd_state_move *m = &epd_state_moves[i];
		const char *from = epd_state_life_name(m->from);
		const char *to = epd_state_life_name(m->to);

		if (m->verb == verb)
			printf(" \\\n\t:: d_step { LIFE(s) == %s && "
			    "CAN_%s(s, %s, %s) -> DO_%s(s, %s, %s) }", from,
			    name, from, to, name, from, to);
	}
	printf("\n");
}

static void
page_edges(void)
{
	for (size_t t = 0; t < COUNT(pages); t++) {
		unsigned from = 0;

		for (size_t f = 0; f < COUNT(pages); f++)
			if (epd_life_page(pages[f], pages[t]))
				from |= 1u << pages[f];
		printf("#define MAY_PAGE_%s %u\n", epd_page_life_name(pages[t]),
		    from);
	}
}

int
main(void)
{
	printf("/* Made by tests/spin/gen.c from libepd/shard/life.h. */\n");
	for (size_t i = 0; i < COUNT(lives); i++)
		printf("#define %s %d\n", epd_state_life_name(lives[i]),
		    lives[i]);
	for (size_t i = 0; i < COUNT(pages); i++)
		printf("#define P_%s %d\n", epd_page_life_name(pages[i]),
		    pages[i]);
	for (size_t i = 0; i < COUNT(verbs); i++)
		printf("#define V_%s %d\n", verbs[i].name, verbs[i].kind);
	for (size_t i = 0; i < COUNT(verbs); i++)
		state_edges(verbs[i].kind, verbs[i].name);
	page_edges();
	printf("#define MAY(from, to, verb) ((MAY_##verb##_##to >> (from)) & 1)\n"
	    "#define MAY_PAGE(from, to) ((MAY_PAGE_##to >> (from)) & 1)\n");
	return 0;
}
