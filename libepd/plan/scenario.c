/*
 * scenario.c - a scenario's defaults, its ends, and what a decision is made from.
 *
 * Its clock stands still, so that the same scenario is decided the same.
 */
#include "plan/scenario.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "plan/inner.h"

#define NOW (UINT64_C(3600) * 1000000000)

enum { LONGEST = 1 << 16 };

void
epd_scenario_default(struct epd_scenario *s)
{
	struct epd_plan_config c;

	epd_plan_config_default(&c);
	epd_plan_baseline_default(&c);
	*s = (struct epd_scenario){ .contract = c.contract };
	s->contract.allows |= EPD_MAY_UNSAID;
	memcpy(s->baseline, c.baseline, sizeof s->baseline);
	for (int b = 0; b < EPD_VIA_COUNT; b++)
		if (epd_capability_default(&s->capability[b],
		    (enum epd_backend)b))
			s->capability[b] = (struct epd_capability){
				.schema_version = EPD_PLAN_SCHEMA,
				.backend = (uint8_t)b, .generation = 1,
				.flags = EPD_CAN_LOCAL | EPD_CAN_REMOTE |
				    EPD_CAN_READ | EPD_CAN_WRITE,
			};
	s->intent = (struct epd_intent){
		.id = 1, .op = EPD_OP_WRITE, .priority = EPD_PRIO_NORMAL,
		.alignment = 4096, .now_ns = NOW,
	};
}

/* A number and its unit; units go by name, the last has none. */
struct unit { const char *name; uint64_t n; };

static int
scaled(const char *text, const struct unit *u, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	for (; u->name; u++) {
		if (strcmp(u->name, end))
			continue;
		if (v > UINT64_MAX / u->n)
			return -EINVAL;
		*out = v * u->n;
		return 0;
	}
	return -EINVAL;
}

int
epd_scenario_bytes(const char *text, uint64_t *out)
{
	static const struct unit units[] = {
		{ "", 1 }, { "B", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 },
		{ "G", 1 << 30 }, { "T", UINT64_C(1) << 40 }, { "KiB", 1 << 10 },
		{ "MiB", 1 << 20 }, { "GiB", 1 << 30 }, { NULL, 0 },
	};

	return scaled(text, units, out);
}

int
epd_scenario_time(const char *text, uint64_t *out)
{
	static const struct unit units[] = {
		{ "ns", 1 }, { "us", 1000 }, { "ms", 1000000 },
		{ "s", 1000000000 }, { NULL, 0 },
	};

	return scaled(text, units, out);
}

/* Number of a node from 1, which is made if it is new; 0: too many. */
static unsigned
node_of(struct epd_scenario *s, const char *name)
{
	for (int i = 0; i < s->nnodes; i++)
		if (!strcmp(s->node[i], name))
			return (unsigned)i + 1;
	if (s->nnodes == EPD_SCENARIO_NODES)
		return 0;
	strcpy(s->node[s->nnodes], name);
	return (unsigned)++s->nnodes;
}

static int
is_node(const char *name)
{
	const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz"
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");

	return n > 0 && n < EPD_PLAN_NAME && !name[n];
}

int
epd_scenario_end(struct epd_scenario *s, const char *text, struct epd_end *out,
    struct epd_why *why)
{
	const char *node = strchr(text, '@');
	const size_t n = node ? (size_t)(node - text) : strlen(text);
	const char *colon = memchr(text, ':', n);
	const size_t m = colon ? (size_t)(colon - text) : n;
	char medium[16] = "", *end = NULL;
	enum epd_medium id;
	unsigned long device = 0;

	node = node ? node + 1 : "here";
	if (m < sizeof medium)
		memcpy(medium, text, m);
	if (!strcmp(medium, "host"))
		strcpy(medium, "cpu");
	id = epd_medium_parse(medium);
	if (id == EPD_IN_NONE)
		return epd_why(why, EPD_EUSAGE, "%.64s: wants host, cuda, rocm, "
		    "tpu or file, and behind an @ the node", text);
	if (colon && id == EPD_IN_FILE)
		return epd_why(why, EPD_EUSAGE, "%.64s: file is said without "
		    "a path", text);
	if (colon) {
		device = strtoul(colon + 1, &end, 10);
		if (colon[1] < '0' || colon[1] > '9' || end != text + n ||
		    device > 63)
			return epd_why(why, EPD_EUSAGE, "%.64s: wants a "
			    "device's number, 0 to 63, behind the colon", text);
	}
	if (!is_node(node))
		return epd_why(why, EPD_EUSAGE, "%.64s: wants a node's name "
		    "behind the @, %d letters, digits, dots, _ and - at most",
		    text, EPD_PLAN_NAME - 1);
	out->node = node_of(s, node);
	if (!out->node)
		return epd_why(why, EPD_EUSAGE, "more than %d nodes",
		    EPD_SCENARIO_NODES);
	out->medium = (uint8_t)id;
	out->device = (uint16_t)device;
	return 0;
}

/* Which machine a node is on: told, or its own. */
static uint64_t
machine_of(const struct epd_scenario *s, uint64_t node)
{
	const char *m = node ? s->machine[node - 1] : "";

	if (!*m)
		return node;
	for (int i = 0; i < s->nnodes; i++)
		if (!strcmp(s->machine[i], m))
			return EPD_SCENARIO_NODES + 1u + (unsigned)i;
	return node;
}

static void
tag_all(const struct epd_scenario *s, struct epd_end *e)
{
	const uint32_t no = BIT(EPD_VIA_RECOMPUTE) | BIT(EPD_VIA_GDS) |
	    BIT(EPD_VIA_IO_URING);

	e->ntags = 0;
	for EACH(b, s->loaded & ~no)
		e->tag[e->ntags++] = (uint8_t)b;
}

static void
put_ends(const struct epd_scenario *s, struct epd_intent *i)
{
	struct epd_end from = s->from, to = s->to;

	from.machine = machine_of(s, from.node);
	to.machine = machine_of(s, to.node);
	i->here = i->op == EPD_OP_WRITE ? from : to;
	i->there = i->op == EPD_OP_WRITE ? to : from;
	if (s->has_tags) {
		i->there.ntags = s->intent.there.ntags;
		memcpy(i->there.tag, s->intent.there.tag, sizeof i->there.tag);
	} else {
		tag_all(s, &i->there);
	}
	i->here.generation = i->here.generation ? i->here.generation : 1;
	i->there.generation = i->there.generation ? i->there.generation : 1;
}

int
epd_scenario_make(const struct epd_scenario *s, struct epd_planner **planner,
    struct epd_intent *intent, struct epd_legacy *legacy, struct epd_why *why)
{
	struct epd_capability cap[EPD_VIA_COUNT];
	struct epd_plan_config c;
	struct epd_planner *p;
	int n = 0, rc;

	if (!s->from.medium || !s->to.medium)
		return epd_why(why, EPD_EUSAGE, "where from and where to are not both said");
	if (!s->intent.bytes)
		return epd_why(why, EPD_EUSAGE, "how many bytes is not said, or is 0");
	for EACH(b, s->loaded)
		cap[n++] = s->capability[b];
	epd_plan_config_default(&c);
	memcpy(c.baseline, s->baseline, sizeof c.baseline);
	c.capability = cap;
	c.ncapabilities = n;
	c.rule = s->rule;
	c.nrules = s->nrules;
	c.contract = s->contract;
	rc = epd_planner_new(&p, &c, why);
	if (rc)
		return rc;
	*intent = s->intent;
	put_ends(s, intent);
	if (*s->policy)
		intent->policy = epd_planner_policy(p, s->policy);
	*legacy = (struct epd_legacy){
		.loaded = s->loaded & ~(BIT(EPD_VIA_COPY) | BIT(EPD_VIA_RECOMPUTE)),
		.selector = 1, .shm_path = 1, .cuda = 1,
		.cpu = !(s->capability[EPD_VIA_TCP].pairs &
		    EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA)),
		.gpudirect = (s->capability[EPD_VIA_RDMA].pairs &
		    EPD_PAIR(EPD_IN_CUDA, EPD_IN_CUDA)) != 0,
		.rule = s->rule, .nrules = s->nrules,
	};
	if (intent->lossy && !intent->lossy_bytes)
		intent->lossy_bytes = intent->bytes / 2 + intent->bytes % 2;
	*planner = p;
	return 0;
}

int
epd_scenario_read(struct epd_scenario *s, const char *path, struct epd_why *why)
{
	struct epd_buf b = { 0 };
	struct stat st;
	/* Not to hang on a pipe that nobody writes: that one is empty. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), rc;

	rc = fd < 0 || fstat(fd, &st) ? -errno : S_ISDIR(st.st_mode) ? -EISDIR :
	    !S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode) ? -EINVAL :
	    fcntl(fd, F_SETFL, 0) ? -errno : epd_file_slurp(fd, LONGEST, &b);
	if (fd >= 0)
		close(fd);
	if (rc == EPD_ETOOBIG)
		rc = epd_why(why, EPD_EUSAGE, "%s: larger than 64 KiB", path);
	else if (rc == -EINVAL)
		rc = epd_why(why, EPD_EUSAGE, "%s: neither a file nor a pipe", path);
	else if (rc)
		rc = epd_why(why, rc, "%s: %s", path, epd_strerror(rc));
	if (!rc)
		rc = epd_scenario_parse(s, epd_span(b.p, b.n), path, why);
	epd_buf_free(&b);
	return rc;
}
