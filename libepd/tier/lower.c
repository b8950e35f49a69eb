/* lower.c - tiers by their names. */
#include "tier/lower.h"

#define X(id, name) name,
const struct epd_words epd_tiers = EPD_WORDS("none", EPD_TIERS(X));
#undef X

const char *
epd_tier_name(enum epd_tier t)
{
	return epd_word(&epd_tiers, (unsigned)t < EPD_TIER_COUNT ? t : 0);
}

enum epd_tier
epd_tier_parse(const char *name)
{
	const int i = epd_word_parse(&epd_tiers, name);

	return i < 0 ? EPD_TIER_NONE : (enum epd_tier)i;
}
