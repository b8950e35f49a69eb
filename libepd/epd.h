/*
 * epd.h - the library, for commands and other programs.  flow/flow.h names the
 * verbs; what a header there leaves open, the room it comes from says.
 */
#ifndef EPD_H
#define EPD_H

#include "flow/flow.h"

#endif
