/* doctor.h - what this machine has. */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cmd/cli.h"

/* Print it; the exit status. */
int epd_doctor(struct cli *c);

#endif
