/*
 * plan.h - which ways bytes may go from one memory to another, decided and told
 * before anything moves, after the TENT RFC (Mooncake issue 2863).  This room reads
 * no clock, opens no file and moves nothing: capability.h and model.h are its nouns,
 * policy.h and intent.h what it is asked by, decide.h decides, again.h whether to
 * restore or compute, legacy.h is the
 * selector it is compared with, by shadow.h; words.h names, explain.h tells,
 * scenario.h reads.
 */
#ifndef EPD_PLAN_PLAN_H
#define EPD_PLAN_PLAN_H

#include "plan/again.h"
#include "plan/decide.h"
#include "plan/explain.h"
#include "plan/legacy.h"
#include "plan/scenario.h"
#include "plan/shadow.h"
#include "plan/words.h"

#endif
