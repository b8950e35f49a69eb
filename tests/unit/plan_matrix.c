/*
 * plan_matrix - the policy matrix: what the planner decides beside what the legacy
 * selector does, in every combination of memories, distance, loaded backends, hint,
 * index and policy.  They are equal but for the classes that plan_differences.txt
 * lists; a difference in none of them fails, and so does a class without one.
 *
 * Of the RFC's list of differential tests: V10 memories, V11 distance, V12 loaded
 * backends, V13 policy name and hint, V14 direct and staged, V15 order of failover are
 * each an axis here, or compared by epd_shadow_compare.
 */
#include <stdbool.h>
#include <string.h>

#include "tests/unit/plan.h"

enum distance { REMOTE, NEAR, OWN, UNKNOWN };

enum policy { NONE, TCP_RDMA, RDMA_MASK, SIZED, TYPOS, NEAR_ONLY, UNTAGGED,
    NO_DEVICE, NAMED, UNNAMED, POLICIES };

struct matter {
	struct epd_legacy l;
	enum policy policy;
	enum distance distance;
	struct epd_intent i;
	int planned, did;		/* what each returned */
	unsigned differ;
	const struct epd_decision *p, *q;	/* the planner's, the selector's */
};

/* A case as a class would have it: what legacy is asked, and what both answered. */
struct mended {
	struct epd_legacy l;
	struct epd_rule rule;
	struct epd_intent i;
	struct epd_decision p, q;
};

static bool
loaded(const struct matter *m, unsigned b)
{
	return m->l.loaded & BIT(b);
}

static bool
involves(const struct matter *m, unsigned medium)
{
	return m->i.here.medium == medium || m->i.there.medium == medium;
}

static bool
is_file(const struct matter *m)
{
	return involves(m, EPD_IN_FILE);
}

static bool
staged_at(const struct epd_decision *d, int n)
{
	return n < d->n && d->plan[n].path_kind == EPD_PATH_STAGED;
}

static void
remove_nth(struct epd_decision *d, int n)
{
	memmove(&d->plan[n], &d->plan[n + 1],
	    (size_t)(--d->n - n) * sizeof *d->plan);
}

static void
remove_staged(struct epd_decision *d)
{
	for (int n = d->n - 1; n >= 0; n--)
		if (staged_at(d, n))
			remove_nth(d, n);
}

/* Nothing can be had by it: it is in no list, but what asks for it is no error. */
static void
unlist(struct mended *x, unsigned b)
{
	struct epd_end *e = &x->i.there;
	int n = 0;

	for (int k = 0; k < x->rule.nbackends; k++)
		if (x->rule.backend[k] == b)
			x->rule.backend[k] = EPD_VIA_MPCOMM;
	for (int k = 0; k < e->ntags; k++)
		if (e->tag[k] != b)
			e->tag[n++] = e->tag[k];
	e->ntags = (uint8_t)n;
}

/* ---- the classes, by their names in plan_differences.txt ---- */

/* When a case may be of a class, and how legacy would have to be for it to agree. */

static bool
unknown_applies(const struct matter *m)
{
	return m->distance == UNKNOWN && m->l.selector;
}

static void
unknown_mend(struct mended *x)
{
	x->i.here.machine = 1;
	x->i.there.machine = 2;
}

static bool
mnnvl_applies(const struct matter *m)
{
	return loaded(m, EPD_VIA_MNNVL) && m->i.op == EPD_OP_READ &&
	    m->i.here.medium != m->i.there.medium && !is_file(m);
}

/* Asked by the way bytes go; the rule is the one that matched before. */
static void
mnnvl_mend(struct mended *x)
{
	const uint8_t here = x->i.here.medium;
	struct epd_legacy_choice c;

	if (!x->i.policy && x->l.nrules) {
		struct epd_intent plain = x->i;

		plain.hint = 0;
		epd_legacy_select(&x->l, &plain, &c);
		x->i.policy = c.rule;
		x->l.nrules = c.rule ? x->l.nrules : 0;
	}
	x->i.here.medium = x->i.there.medium;
	x->i.there.medium = here;
}

static bool
typos_applies(const struct matter *m)
{
	return m->policy == TYPOS && m->l.selector;
}

static void
typos_mend(struct mended *x)
{
	x->l.loaded = 0;
	x->i.hint = 0;
}

static bool
untagged_applies(const struct matter *m)
{
	return m->policy == UNTAGGED && m->l.selector && !is_file(m);
}

static void
untagged_mend(struct mended *x)
{
	unlist(x, EPD_VIA_RDMA);
	if (x->i.hint != EPD_VIA_RDMA)
		x->l.loaded &= ~BIT(EPD_VIA_RDMA);
}

static bool
device_applies(const struct matter *m)
{
	return m->policy == NO_DEVICE && m->l.selector && !is_file(m);
}

static bool
hint_applies(const struct matter *m)
{
	return !m->l.selector && m->i.hint;
}

/* As the selector mode takes hints, but with machines compared as legacy mode does. */
static void
hint_mend(struct mended *x)
{
	x->l.selector = 1;
	x->l.nrules = 0;
	if (!x->i.here.machine)
		x->i.there.machine = 2;
}

static bool
file_applies(const struct matter *m)
{
	return is_file(m) && involves(m, EPD_IN_CUDA) && staged_at(m->p, 0);
}

static void
file_after(struct mended *x)
{
	remove_staged(&x->p);
}

static bool
prefers_tcp(const struct matter *m)
{
	return m->i.hint == EPD_VIA_TCP || (m->l.selector &&
	    (m->policy == TCP_RDMA || m->policy == NAMED));
}

static bool
order_applies(const struct matter *m)
{
	return prefers_tcp(m) && !is_file(m);
}

/* What was chosen first, then what it is staged by. */
static void
order_after(struct mended *x)
{
	const struct epd_plan first = x->q.plan[0];

	if (!staged_at(&x->q, 0) || x->q.n < 2)
		return;
	x->q.plan[0] = x->q.plan[1];
	x->q.plan[1] = first;
}

static bool
authorised_applies(const struct matter *m)
{
	return !is_file(m) && (m->policy == UNTAGGED || (m->l.selector &&
	    (m->policy == SIZED || m->policy == NEAR_ONLY)));
}

static void
authorised_after(struct mended *x)
{
	remove_staged(&x->q);
}

static bool
beside_applies(const struct matter *m)
{
	return refused(m->p, EPD_VIA_NONE) == EPD_REFUSED_DIRECT && !is_file(m);
}

/* Not staged, since a direct path serves; nor back to index 0 after it. */
static void
beside_mend(struct mended *x)
{
	if (x->i.hint != EPD_VIA_RDMA && !x->l.gpudirect)
		x->l.loaded &= ~BIT(EPD_VIA_RDMA);
}

/* Legacy has nothing by a hint that only goes through the host. */
static bool
through_applies(const struct matter *m)
{
	return m->i.hint == EPD_VIA_RDMA && !m->l.gpudirect && !is_file(m) &&
	    involves(m, EPD_IN_CUDA);
}

static void
through_mend(struct mended *x)
{
	x->i.hint = 0;
}

/* TCP itself does not lead there, so legacy never thinks of staging. */
static bool
alone_applies(const struct matter *m)
{
	if (is_file(m) || !staged_at(m->p, 0))
		return false;
	for (int n = 0; n < m->p->n; n++)
		if (!staged_at(m->p, n))
			return false;
	return true;
}

static bool
index_applies(const struct matter *m)
{
	return m->i.index > 0 && !is_file(m);
}

static const struct class {
	const char *name;
	bool (*applies)(const struct matter *m);
	void (*before)(struct mended *x);	/* legacy is asked */
	void (*after)(struct mended *x);	/* both have answered */
	bool from_zero;		/* index counts what failed, from the first on */
} classes[] = {
	{ "unknown-machines", unknown_applies, unknown_mend, NULL, false },
	{ "mnnvl-way", mnnvl_applies, mnnvl_mend, NULL, false },
	{ "typos", typos_applies, typos_mend, NULL, false },
	{ "untagged", untagged_applies, untagged_mend, NULL, false },
	{ "no-device", device_applies, untagged_mend, NULL, false },
	{ "hint-unavailable", hint_applies, hint_mend, NULL, false },
	{ "device-to-file", file_applies, NULL, file_after, false },
	{ "tcp-preferred", order_applies, NULL, order_after, false },
	{ "unauthorised-staging", authorised_applies, NULL, authorised_after,
	    false },
	{ "staged-beside-direct", beside_applies, beside_mend, NULL, false },
	{ "hint-through-host", through_applies, through_mend, NULL, false },
	{ "staged-without-tcp", alone_applies, NULL, file_after, false },
	{ "index-after-staged", index_applies, NULL, NULL, true },
};
enum { CLASSES = sizeof classes / sizeof *classes };

static long matched[CLASSES], cases, equal, unlisted;
static bool listed[CLASSES];

/* Ask legacy as the classes in set would have it. */
static void
ask_mended(struct mended *x, const struct matter *m, unsigned set,
    const struct epd_planner *p)
{
	int32_t index = 0;

	x->l = m->l;
	x->rule = m->l.rule[0];
	x->l.rule = &x->rule;
	x->i = m->i;
	x->p = *m->p;
	for (int c = 0; c < CLASSES; c++) {
		if (!(set >> c & 1))
			continue;
		if (classes[c].before)
			classes[c].before(x);
		if (classes[c].from_zero) {
			index = x->i.index;
			x->i.index = 0;
		}
	}
	if (epd_legacy_decide(&x->l, p, &x->i, &x->q) < 0)
		x->q.n = 0;
	for (int c = 0; c < CLASSES; c++)
		if (set >> c & 1 && classes[c].after)
			classes[c].after(x);
	for (; index > 0 && x->q.n > 0; index--)
		remove_nth(&x->q, 0);
}

/* The fewest classes that explain a difference; 0: none do. */
static unsigned
explained(const struct matter *m, const struct epd_planner *p)
{
	static struct mended x;
	struct epd_shadow sh = { 0 };
	unsigned may = 0;

	for (int c = 0; c < CLASSES; c++)
		if (listed[c] && classes[c].applies(m))
			may |= 1u << c;
	for (int size = 1; size <= 4; size++) {
		for (unsigned set = 1; set < 1u << CLASSES; set++) {
			if (set & ~may || __builtin_popcount(set) != size)
				continue;
			ask_mended(&x, m, set, p);
			if (!epd_shadow_compare(&sh, &x.p, &x.q))
				return set;
		}
	}
	return 0;
}

static void
say(const struct matter *m)
{
	printf("# %s %s %s->%s distance %d loaded", m->l.selector ? "selector" :
	    "legacy", m->i.op == EPD_OP_READ ? "read" : "write",
	    epd_medium_name((enum epd_medium)m->i.here.medium),
	    epd_medium_name((enum epd_medium)m->i.there.medium), m->distance);
	for (int b = 1; b < EPD_VIA_COUNT; b++)
		if (loaded(m, (unsigned)b))
			printf(" %s", epd_backend_name((enum epd_backend)b));
	printf(" cpu %d gpudirect %d hint %s index %d policy %d: differ %u; "
	    "planned %d", m->l.cpu, m->l.gpudirect,
	    epd_backend_name((enum epd_backend)m->i.hint), m->i.index,
	    m->policy, m->differ, m->planned);
	for (int n = 0; n < m->p->n; n++)
		printf(" %s%s", m->p->plan[n].path_kind == EPD_PATH_STAGED ?
		    "staged-" : "", epd_backend_name(epd_plan_backend(
		    &m->p->plan[n])));
	printf("; legacy %d", m->did);
	for (int n = 0; n < m->q->n; n++)
		printf(" %s%s", m->q->plan[n].path_kind == EPD_PATH_STAGED ?
		    "staged-" : "", epd_backend_name(epd_plan_backend(
		    &m->q->plan[n])));
	printf("\n");
}

static void
compare(struct matter *m, struct epd_shadow *sh, const struct epd_planner *p)
{
	unsigned set;

	cases++;
	/* Both may refuse the same request. */
	if (m->planned == EPD_EUSAGE && m->did == EPD_EUSAGE) {
		equal++;
		return;
	}
	m->differ = epd_shadow_compare(sh, m->p, m->q);
	if (!m->differ && (m->planned == EPD_EUSAGE) == (m->did == EPD_EUSAGE)) {
		equal++;
		return;
	}
	set = explained(m, p);
	for (int c = 0; c < CLASSES; c++)
		matched[c] += set >> c & 1;
	if (!set && unlisted++ < 10)
		say(m);
}

static void
make_rules(struct setup *s, enum policy policy)
{
	struct epd_rule *r = &s->rule[0];

	s->config.nrules = policy != NONE;
	*r = (struct epd_rule){ .contract.allows = EPD_MAY_FALLBACK };
	strcpy(r->name, "first");
	switch (policy) {
	case TCP_RDMA:
		r->nbackends = 2;
		r->backend[0] = EPD_VIA_TCP;
		r->backend[1] = EPD_VIA_RDMA;
		break;
	case RDMA_MASK: case NO_DEVICE: case UNTAGGED:
		r->nbackends = 2;
		r->backend[0] = EPD_VIA_RDMA;
		r->backend[1] = EPD_VIA_TCP;
		r->devices = policy == RDMA_MASK ? 6 : 0;
		r->devices_unknown = policy == NO_DEVICE;
		r->pool = 1;
		break;
	case SIZED:
		r->min_size = r->max_size = 1 << 20;
		r->there = epd_media_pattern("cpu");
		r->nbackends = 1;
		r->backend[0] = EPD_VIA_TCP;
		break;
	case TYPOS:
		r->nbackends = 1;
		break;
	case NEAR_ONLY:
		r->same_machine = EPD_ASKED_YES;
		r->nbackends = 3;
		r->backend[0] = EPD_VIA_SHM;
		r->backend[1] = EPD_VIA_NVLINK;
		r->backend[2] = EPD_VIA_TCP;
		break;
	case NAMED: case UNNAMED:
		r->min_size = 1;
		r->max_size = 2;
		r->nbackends = 2;
		r->backend[0] = EPD_VIA_TCP;
		r->backend[1] = EPD_VIA_RDMA;
		break;
	default:
		break;
	}
}

static void
place(struct epd_intent *i, enum distance d)
{
	i->here.node = 1;
	i->there.node = d == OWN ? 1 : 2;
	i->here.machine = d == UNKNOWN ? 0 : 1;
	i->there.machine = d == UNKNOWN ? 0 : d == REMOTE ? 2 : 1;
}

static void
ask(struct setup *s, struct matter *m, struct epd_shadow *sh)
{
	static struct epd_decision q;

	m->p = &s->d;
	m->q = &q;
	s->d.n = q.n = 0;
	m->planned = epd_plan_decide(s->p, &s->how, &m->i, &s->d);
	m->did = epd_legacy_decide(&m->l, s->p, &m->i, &q);
	if (m->planned < 0)
		s->d.n = 0;
	if (m->did < 0)
		q.n = 0;
	compare(m, sh, s->p);
}

static const uint8_t memory[] = { EPD_VIA_MNNVL, EPD_VIA_NVLINK, EPD_VIA_RDMA,
    EPD_VIA_SHM, EPD_VIA_TCP };
static const uint8_t file[] = { EPD_VIA_RDMA, EPD_VIA_NVLINK, EPD_VIA_TCP,
    EPD_VIA_GDS, EPD_VIA_IO_URING };

/* All intents of one planner. */
static void
all_intents(struct setup *s, struct matter *m, const uint8_t *set, bool files,
    struct epd_shadow *sh)
{
	static const uint8_t ends[2][4][2] = {
		{ { EPD_IN_CPU, EPD_IN_CPU }, { EPD_IN_CPU, EPD_IN_CUDA },
		{ EPD_IN_CUDA, EPD_IN_CPU }, { EPD_IN_CUDA, EPD_IN_CUDA } },
		{ { EPD_IN_CPU, EPD_IN_FILE }, { EPD_IN_CUDA, EPD_IN_FILE } },
	};

	m->i = s->i;
	if (m->policy == NAMED && m->l.selector)
		m->i.policy = 1;
	if (m->policy == UNNAMED && m->l.selector)
		m->i.policy = EPD_NO_POLICY;
	m->i.there.ntags = (uint8_t)epd_legacy_tags(&m->l, m->i.there.tag);
	if (m->policy == UNTAGGED) {
		m->i.there.ntags = 1;
		m->i.there.tag[0] = EPD_VIA_TCP;
	}
	for (int e = 0; e < (files ? 2 : 4); e++)
	for (m->i.op = EPD_OP_READ; m->i.op <= EPD_OP_WRITE; m->i.op++)
	for (m->distance = REMOTE; m->distance <= UNKNOWN; m->distance++)
	for (int h = -1; h < 5; h++)
	for (m->i.index = -1; m->i.index < 4; m->i.index++) {
		m->i.hint = h < 0 ? 0 : set[h];
		m->i.here.medium = ends[files][e][0];
		m->i.there.medium = ends[files][e][1];
		place(&m->i, m->distance);
		ask(s, m, sh);
	}
}

static void
all_of(const uint8_t *set, bool files, struct epd_shadow *sh)
{
	static struct setup s;
	struct matter m = { 0 };

	for (unsigned subset = 0; subset < 32; subset++)
	for (int platform = 0; platform < 3; platform++)
	for (m.l.selector = 0; m.l.selector < 2; m.l.selector++)
	for (m.policy = NONE; m.policy < POLICIES; m.policy++) {
		set_up(&s, 0);
		memset(s.config.baseline, 0, sizeof s.config.baseline);
		m.l = (struct epd_legacy){ .selector = m.l.selector,
		    .cpu = platform == 0, .gpudirect = platform == 2,
		    .shm_path = 1, .cuda = 1, .rule = s.rule };
		for (int k = 0; k < 5; k++)
			if (subset >> k & 1)
				m.l.loaded |= BIT(set[k]);
		for (int k = 0; k < 5; k++)
			if (subset >> k & 1)
				epd_legacy_capability(&m.l,
				    (enum epd_backend)set[k],
				    &s.cap[s.config.ncapabilities++]);
		if (m.l.selector)
			make_rules(&s, m.policy);
		else if (m.policy != NONE && m.policy != UNTAGGED)
			continue;
		m.l.nrules = s.config.nrules;
		if (epd_planner_new(&s.p, &s.config, &s.why))
			abort();
		all_intents(&s, &m, set, files, sh);
		epd_planner_free(s.p);
	}
}

/* The classes that the list names: "name: what is done, and why". */
static int
read_list(void)
{
	FILE *f = fopen("tests/unit/plan_differences.txt", "r");
	char line[512];

	if (!f)
		return -1;
	while (fgets(line, sizeof line, f)) {
		const size_t n = strcspn(line, ":");
		int c = 0;

		if (strchr("# \t\n", *line))
			continue;
		while (c < CLASSES && (strlen(classes[c].name) != n ||
		    memcmp(classes[c].name, line, n)))
			c++;
		if (c == CLASSES) {
			printf("# no such class: %s", line);
			fclose(f);
			return -1;
		}
		listed[c] = true;
	}
	fclose(f);
	return 0;
}

TEST(shadow_equals_legacy_but_for_what_is_listed)
{
	struct epd_shadow sh = { 0 };

	CHECK_INT(read_list(), 0);
	all_of(memory, false, &sh);
	all_of(file, true, &sh);
	printf("# plan: %ld cases, %ld equal, %ld differ as listed, %ld "
	    "otherwise\n", cases, equal, cases - equal - unlisted, unlisted);
	for (int c = 0; c < CLASSES; c++)
		printf("# plan: %ld %s\n", matched[c], classes[c].name);
	CHECK_INT(unlisted, 0);
	for (int c = 0; c < CLASSES; c++)
		if (!matched[c])
			CHECK_FAIL("%s: %s", classes[c].name, listed[c] ?
			    "no case differs so" : "it is not listed");
	CHECK(cases > 1000000);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
