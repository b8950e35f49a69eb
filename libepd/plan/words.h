/*
 * words.h - what the enums of this room are called in text, JSON and scenarios; of
 * those that are bits, by the number of the bit.  Outside this room include
 * plan/plan.h.
 */
#ifndef EPD_PLAN_WORDS_H
#define EPD_PLAN_WORDS_H

#include "base/words.h"

extern const struct epd_words
    epd_plan_roles,		/* enum epd_plan_role */
    epd_plan_path_kinds,	/* epd_path_kind */
    epd_plan_stages,		/* epd_stage_type */
    epd_plan_sources,		/* epd_cost_source */
    epd_plan_dependencies,	/* epd_dependency */
    epd_plan_lossy,		/* epd_lossy */
    epd_plan_healths,		/* epd_health */
    epd_plan_completions,	/* epd_completion */
    epd_plan_intents,		/* epd_intent_class */
    epd_plan_allows,		/* bits of epd_allow */
    epd_plan_segments,		/* epd_segment_type */
    epd_plan_asked,		/* epd_asked */
    epd_plan_modes,		/* epd_plan_mode */
    epd_plan_differs,		/* bits of epd_differ */
    epd_plan_reasons,		/* epd_reason: a sentence, with %b */
    epd_plan_refusals;		/* epd_refusal: one with %n */

#endif
