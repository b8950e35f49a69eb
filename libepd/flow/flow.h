/*
 * flow.h - the verbs: what commands, the file system and workers do with a
 * store.  flow/store.h opens one, flow/session.h adds a model, flow/work.h is
 * encode and prefill, flow/decode.h decode, flow/view.h looks and keeps house,
 * flow/watch.h looks again and again; flow/transfer.h and flow/node.h reach other
 * stores, flow/prospect.h tells by what, flow/ask.h, give.h and arrive.h are what
 * these say and hand each other.
 *
 * The RFC's create_state is epd_flow_create, fork_state epd_flow_fork,
 * release_state epd_flow_release, offload_state epd_flow_offload, restore_state
 * epd_flow_restore, and advance_step epd_flow_prefill onto a state:
 * text, images, and observations and results of tools as messages.
 */
#ifndef EPD_FLOW_H
#define EPD_FLOW_H

#include "flow/ahead.h"
#include "flow/arrive.h"
#include "flow/ask.h"
#include "flow/branch.h"
#include "flow/clone.h"
#include "flow/decode.h"
#include "flow/draft.h"
#include "flow/give.h"
#include "flow/handle.h"
#include "flow/handoff.h"
#include "flow/idle.h"
#include "flow/node.h"
#include "flow/prospect.h"
#include "flow/rest.h"
#include "flow/session.h"
#include "flow/store.h"
#include "flow/hints.h"
#include "flow/transfer.h"
#include "flow/view.h"
#include "flow/watch.h"
#include "flow/where.h"
#include "flow/work.h"

#endif
