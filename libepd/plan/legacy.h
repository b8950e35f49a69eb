#ifndef EPD_PLAN_LEGACY_H
#define EPD_PLAN_LEGACY_H
#include "plan/decide.h"
int epd_legacy_decide(const struct epd_legacy *l, const struct epd_planner *p,
    const struct epd_intent *i, struct epd_decision *out);
#endif
