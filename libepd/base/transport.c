/* transport.c - finding a transport in the table. */
#include "base/transport.h"

const struct epd_transport *
epd_transport_of(const struct epd_transports *all, enum epd_backend b)
{
	for (int i = 0; all && i < all->n; i++)
		if (all->t[i]->backend == b)
			return all->t[i];
	return NULL;
}
