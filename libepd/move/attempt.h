/* attempt.h - one attempt at a plan, and what has moved so far.  Not for outsiders. */
#ifndef EPD_MOVE_ATTEMPT_H
#define EPD_MOVE_ATTEMPT_H

#include "move/carry.h"

enum epd_piece_state { EPD_PIECE_TO_DO, EPD_PIECE_UNDER_WAY, EPD_PIECE_DONE };

/* The items cut in pieces; it outlives the attempts. */
struct epd_pieces {
	uint64_t size;			/* of a piece, but an item's last */
	uint64_t n, left;		/* all; not done yet */
	uint64_t *first;		/* [items + 1] of each item */
	uint8_t *state;			/* [n], enum epd_piece_state */
	/* [n]: of what is to be done, the bytes from its beginning that have moved. */
	uint64_t *certain;
	uint8_t *moved;			/* [items]: all of it has, and was whole */
};
int epd_pieces_cut(struct epd_pieces *out, const struct epd_carry *c);
void epd_pieces_free(struct epd_pieces *p);

struct epd_attempt {
	const struct epd_carry *c;
	const struct epd_plan *plan;	/* its own copy's, attempt number in it */
	struct epd_pieces *pieces;
	struct epd_carried *out;
	int last;			/* no other one follows: it has all the time there is */
	int submitted;			/* out: some of it may have moved */
};
/*
 * Open a passage, move what is left, commit.  Fails: as epd_carry; EPD_ECORRUPT: all
 * but what was damaged has moved.
 */
int epd_attempt_make(struct epd_attempt *a, struct epd_why *why);

#endif
