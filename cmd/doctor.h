/* doctor.h - what this machine has. */
#ifndef CMD_DOCTOR_H
#define CMD_DOCTOR_H

#include "cmd/cli.h"

/* Print it; the exit status. */
int epd_doctor(struct cli *c);
/* doctor_tiers.c: objects of it. */
void doctor_tiers(struct cli *c, struct epd_jw *w);
void doctor_directory(struct cli *c, struct epd_jw *w);

#endif
