/* wire_store.c - unit/wire_store with sixteen times as much to move and to kill. */
#define WIRE_ITEMS 16000
#define WIRE_KILLS 1200
#include "tests/unit/wire_store.c"
