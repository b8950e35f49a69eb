/* words.c - the words, a table an enum. */
#include "plan/words.h"

#include "plan/reasons.h"
#include "plan/shadow.h"

const struct epd_words epd_plan_roles = EPD_WORDS(
    [EPD_ROLE_PRIMARY] = "primary", [EPD_ROLE_FALLBACK] = "fallback",
    [EPD_ROLE_DEGRADED] = "degraded");

const struct epd_words epd_plan_path_kinds = EPD_WORDS(
    [EPD_PATH_DIRECT] = "direct", [EPD_PATH_STAGED] = "staged");

const struct epd_words epd_plan_stages = EPD_WORDS(
    [EPD_STAGE_TRANSFER] = "transfer", [EPD_STAGE_LOCAL_COPY] = "local_copy",
    [EPD_STAGE_REMOTE_DELEGATE] = "remote_delegate",
    [EPD_STAGE_COMMIT] = "commit", [EPD_STAGE_RECOMPUTE] = "recompute");

const struct epd_words epd_plan_sources = EPD_WORDS(
    [EPD_COST_NONE] = "none", [EPD_COST_BASELINE] = "baseline",
    [EPD_COST_OBSERVED] = "observed", [EPD_COST_MEASURED] = "measured");

const struct epd_words epd_plan_dependencies = EPD_WORDS(
    [EPD_DEP_SOURCE] = "source", [EPD_DEP_TARGET] = "target",
    [EPD_DEP_CAPABILITY] = "capability", [EPD_DEP_POLICY] = "policy",
    [EPD_DEP_TOPOLOGY] = "topology", [EPD_DEP_HEALTH] = "health",
    [EPD_DEP_CREDIT] = "credit");

const struct epd_words epd_plan_lossy = EPD_WORDS(
    [EPD_LOSSY_NONE] = "none", [EPD_LOSSY_FP8] = "fp8",
    [EPD_LOSSY_INT8] = "int8", [EPD_LOSSY_CUSTOM] = "custom");

const struct epd_words epd_plan_healths = EPD_WORDS(
    [EPD_HEALTH_UNKNOWN] = "unknown", [EPD_HEALTHY] = "healthy",
    [EPD_DEGRADED] = "degraded", [EPD_DOWN] = "down");

const struct epd_words epd_plan_completions = EPD_WORDS(
    [EPD_DONE_SENT] = "sent", [EPD_DONE_PLACED] = "placed",
    [EPD_DONE_VISIBLE] = "visible");

const struct epd_words epd_plan_intents = EPD_WORDS(
    [EPD_INTENT_ANY] = "any", [EPD_INTENT_FOREGROUND] = "foreground",
    [EPD_INTENT_BACKGROUND] = "background",
    [EPD_INTENT_PREFETCH] = "prefetch", [EPD_INTENT_OFFLOAD] = "offload",
    [EPD_INTENT_HANDOFF] = "handoff");

const struct epd_words epd_plan_allows = EPD_WORDS("fallback", "fp8", "int8",
    "custom", "recompute");

const struct epd_words epd_plan_segments = EPD_WORDS(
    [EPD_SEGMENT_ANY] = "any", [EPD_SEGMENT_MEMORY] = "memory",
    [EPD_SEGMENT_FILE] = "file");

const struct epd_words epd_plan_asked = EPD_WORDS([EPD_ASKED_NOT] = "any",
    [EPD_ASKED_YES] = "true", [EPD_ASKED_NO] = "false");

const struct epd_words epd_plan_modes = EPD_WORDS(
    [EPD_PLAN_DISABLED] = "disabled", [EPD_PLAN_SHADOW] = "shadow",
    [EPD_PLAN_ENFORCED] = "enforced");

const struct epd_words epd_plan_differs = EPD_WORDS("any", "backend",
    "devices", "path_kind", "order");

#define X(id, text) [EPD_WHY_##id] = text,
const struct epd_words epd_plan_reasons = EPD_WORDS(EPD_REASONS(X));
#undef X
#define X(id, text) [EPD_REFUSED_##id] = text,
const struct epd_words epd_plan_refusals = EPD_WORDS(EPD_REFUSALS(X));
#undef X
