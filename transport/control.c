/* control.c - the table of who only asks. */
#include "transport/tables.h"
#include "transport/transport.h"

const struct epd_transports *
epd_transports_control(void)
{
	static const struct epd_transport *const rows[] = {
		&epd_transport_shm, &epd_transport_tcp,
	};
	static const struct epd_transports control = { rows, 2 };

	return &control;
}
