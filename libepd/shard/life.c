/* life.c - the tables of life.h as data, and looking a move up. */
#include "shard/life.h"

enum { R, OURS };

const struct epd_state_move epd_state_moves[] = {
#define X(from, to, verb, origin, reason) \
	{ EPD_STATE_##from, EPD_STATE_##to, EPD_KIND_##verb, origin, reason },
	EPD_STATE_MOVES(X)
#undef X
};
const struct epd_page_move epd_page_moves[] = {
#define X(from, to, verb, origin, reason) \
	{ EPD_PAGE_##from, EPD_PAGE_##to, verb, origin, reason },
	EPD_PAGE_MOVES(X)
#undef X
};
const int epd_state_nmoves = sizeof epd_state_moves / sizeof *epd_state_moves;
const int epd_page_nmoves = sizeof epd_page_moves / sizeof *epd_page_moves;

const char *
epd_state_life_name(enum epd_state_life l)
{
	switch (l) {
#define X(name) case EPD_STATE_##name: return #name;
	EPD_STATE_LIVES(X)
#undef X
	}
	return "?";
}

const char *
epd_page_life_name(enum epd_page_life l)
{
	switch (l) {
#define X(name) case EPD_PAGE_##name: return #name;
	EPD_PAGE_LIVES(X)
#undef X
	}
	return "?";
}

enum epd_state_life
epd_life_of(enum epd_status s)
{
	switch (s) {
	case EPD_ACTIVE: return EPD_STATE_ACTIVE;
	case EPD_OFFLOADING: return EPD_STATE_OFFLOADING;
	case EPD_OFFLOADED: return EPD_STATE_OFFLOADED;
	case EPD_RESTORING: return EPD_STATE_RESTORING;
	case EPD_SUSPECT: return EPD_STATE_SUSPECT;
	case EPD_ABORTED: return EPD_STATE_ABORTED;
	case EPD_FREE: return EPD_STATE_FREE;
	}
	return EPD_STATE_NONE;
}

const char *
epd_status_name(enum epd_status s)
{
	enum epd_state_life l = epd_life_of(s);

	return l == EPD_STATE_NONE ? "?" : epd_state_life_name(l);
}

const struct epd_state_move *
epd_life_state(enum epd_state_life from, enum epd_state_life to,
    enum epd_kind verb)
{
	for (int i = 0; i < epd_state_nmoves; i++)
		if (epd_state_moves[i].from == from &&
		    epd_state_moves[i].to == to &&
		    epd_state_moves[i].verb == verb)
			return &epd_state_moves[i];
	return NULL;
}

const struct epd_page_move *
epd_life_page(enum epd_page_life from, enum epd_page_life to)
{
	for (int i = 0; i < epd_page_nmoves; i++)
		if (epd_page_moves[i].from == from &&
		    epd_page_moves[i].to == to)
			return &epd_page_moves[i];
	return NULL;
}
