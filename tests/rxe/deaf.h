/* deaf.h - the wire loses all that goes to the host, or no more. */
#ifndef TESTS_RXE_DEAF_H
#define TESTS_RXE_DEAF_H

#include <stdlib.h>

static int is_deaf;
static int
deafen(int on)
{
	is_deaf = on;
	return system(on ? "tc qdisc replace dev e0 root blackhole"
	    : "tc qdisc del dev e0 root");
}

#endif
