/*
 * flow.h - the verbs: what commands, the file system and workers do with a
 * store.  flow/store.h opens one, flow/session.h adds a model, flow/work.h is
 * encode and prefill, flow/decode.h decode, flow/view.h looks and keeps house.
 */
#ifndef EPD_FLOW_H
#define EPD_FLOW_H

#include "flow/branch.h"
#include "flow/decode.h"
#include "flow/handoff.h"
#include "flow/session.h"
#include "flow/store.h"
#include "flow/view.h"
#include "flow/work.h"

#endif
