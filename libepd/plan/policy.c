/* policy.c - patterns of media, and templates as stages. */
#include "plan/policy.h"

#include <string.h>

#include "base/err.h"
#include "plan/inner.h"

uint32_t
epd_media_pattern(const char *text)
{
	const enum epd_medium m = epd_medium_parse(text);

	if (!strcmp(text, "*"))
		return BIT(EPD_IN_COUNT) - 1 - BIT(EPD_IN_NONE);
	return m == EPD_IN_NONE || m == EPD_IN_FILE ? 0 : BIT(m);
}

static const struct epd_path_template templates[] = {
	{ "device-host-net-host-device",
	    { EPD_FROM_DEVICE, EPD_FROM_HOST, EPD_TO_HOST, EPD_TO_DEVICE } },
	{ "device-host-net-host",
	    { EPD_FROM_DEVICE, EPD_FROM_HOST, EPD_TO_HOST } },
	{ "host-net-host-device",
	    { EPD_FROM_HOST, EPD_TO_HOST, EPD_TO_DEVICE } },
	{ "device-host-file",
	    { EPD_FROM_DEVICE, EPD_FROM_HOST, EPD_TO_FILE } },
	{ "file-host-device",
	    { EPD_FROM_FILE, EPD_TO_HOST, EPD_TO_DEVICE } },
};

const struct epd_path_template *
epd_plan_templates(int *n)
{
	*n = sizeof templates / sizeof *templates;
	return templates;
}

/* Whether a stage within one side leads from a to b. */
static int
leg(unsigned a, unsigned b)
{
	return (a == EPD_FROM_DEVICE && b == EPD_FROM_HOST) ||
	    (a == EPD_TO_HOST && b == EPD_TO_DEVICE);
}

int
epd_plan_shape(struct shape *out, const struct epd_path_template *t,
    struct epd_why *why)
{
	struct shape s = { 0 };
	unsigned seen = 0, crossings = 0;
	int n = 0;

	while (n < (int)sizeof t->place && t->place[n])
		n++;
	/* One more than its stages may have to be a commit. */
	if (n > EPD_PLAN_STAGES)
		return epd_why(why, EPD_EUSAGE, "template %.31s: more than %d "
		    "stages", t->name, EPD_PLAN_STAGES - 1);
	for (int i = 0; i < n; i++) {
		const unsigned p = t->place[i];

		if (p > EPD_TO_FILE || seen & 1u << p)
			return epd_why(why, EPD_EUSAGE,
			    "template %.31s: a place %s", t->name,
			    p > EPD_TO_FILE ? "nobody knows" : "twice");
		seen |= 1u << p;
		s.place[i] = (uint8_t)p;
		if (i == 0)
			continue;
		if (t->place[i - 1] < EPD_TO_DEVICE && p >= EPD_TO_DEVICE) {
			crossings++;
			s.cross = (uint8_t)(i - 1);
		} else if (!leg(t->place[i - 1], p)) {
			return epd_why(why, EPD_EUSAGE,
			    "template %.31s: stage %d leads nowhere", t->name, i);
		}
	}
	if (crossings != 1 || n < 3)
		return epd_why(why, EPD_EUSAGE, "template %.31s: crosses %u "
		    "times in %d stages", t->name, crossings, n - 1);
	s.nstages = (uint8_t)(n - 1);
	s.legs = (uint8_t)(n - 2);
	*out = s;
	return 0;
}
