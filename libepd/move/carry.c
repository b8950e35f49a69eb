/* carry.c - attempts, one after another, until one comes through or none is left. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/stop.h"
#include "move/attempt.h"
#include "move/backoff.h"

enum { TRIES = 3, REPLANS = 16 };

struct journey {
	const struct epd_carry *c;
	struct epd_carried *out;
	struct epd_pieces pieces;
	struct epd_decision d;
	int k;				/* which of its plans */
	int32_t passed;			/* paths that failed */
	uint32_t tries;			/* of this one */
	uint32_t rounds;		/* that all paths failed in */
	int failed;			/* what the last attempt failed by, or 0 */
	uint64_t wait_ns;		/* before the next try */
};

/* Of a path before the next one; a second round is for a peer to come back in. */
static uint32_t
tries_of(const struct journey *j)
{
	if (j->rounds)
		return 1;
	return j->c->tries ? j->c->tries : TRIES;
}

/* Whether there would be a path if the receiver granted more. */
static int
lacks_credit(const struct epd_decision *d)
{
	for (int i = 0; i < d->nrejected; i++)
		if (d->rejected[i].reason == EPD_REFUSED_CREDIT)
			return 1;
	return 0;
}

static int
decide(struct journey *j, struct epd_why *why)
{
	int rc;

	for (;;) {
		j->d.n = j->d.nrejected = 0;
		rc = j->c->how->decide(j->c->arg, j->passed, &j->d, why);
		j->k = 0;
		if (rc >= 0 && j->d.n > 0)
			break;
		/* No way is left: what the last one failed by says more. */
		if (rc == EPD_ENOPLAN && j->failed)
			return j->failed;
		if (rc != EPD_ENOPLAN || !lacks_credit(&j->d))
			return rc < 0 ? rc : EPD_ENOPLAN;
		epd_count(j->c->metrics, EPD_M_TRANSFER_NO_CREDIT, 1);
		if (epd_back_off(&j->wait_ns, j->c->deadline_ns))
			continue;
		return epd_is_stopped() ?
		    epd_why(why, -ECANCELED, "called off") :
		    epd_why(why, EPD_ECREDIT, "the receiver grants too little");
	}
	if (epd_plan_backend(j->d.plan) != j->out->backend)
		j->tries = 0;
	return 0;
}

/* What the plan rests on is as it was, or it is decided anew. */
static int
revalidate(struct journey *j, struct epd_why *why)
{
	struct epd_generations now;
	int rc;

	for (;;) {
		j->c->how->now(j->c->arg, &now);
		if (!epd_plan_stale(j->d.plan + j->k, &now))
			return 0;
		j->out->replans++;
		epd_count(j->c->metrics, EPD_M_TRANSFER_REPLANS, 1);
		if (j->out->replans > REPLANS)
			return epd_why(why, EPD_EPEER, "what the plan rests on "
			    "does not stay as it is");
		if ((rc = decide(j, why)) < 0)
			return rc;
	}
}

/* What a second try of the same path may mend. */
static int
is_passing(int rc)
{
	return rc == EPD_ETIMEOUT || rc == EPD_EPEER || rc == EPD_ECORRUPT ||
	    rc == EPD_ECREDIT || rc == -EAGAIN || rc == -EINTR || rc == -EIO;
}

/* What no other path will mend either. */
static int
is_final(int rc)
{
	return rc == -ECANCELED || rc == -ENOMEM || rc == -ENOSPC ||
	    rc == EPD_EUSAGE || rc == EPD_EPARTIAL || rc == EPD_ETOOBIG ||
	    rc == EPD_ENOTHING || rc == EPD_ENOSTATE || rc == EPD_ESTATUS ||
	    rc == EPD_EVERSION || rc == EPD_EUNSURE || rc == EPD_EMODEL ||
	    rc == EPD_EKIND;
}

static int
is_unsafe(const struct journey *j, const struct epd_attempt *a)
{
	return a->submitted && !j->c->versioned &&
	    (a->plan->reasons >> EPD_WHY_UNSAFE & 1);
}

static const struct { enum epd_backend via; enum epd_metric bytes, count, ns; }
counters[] = {
	{ EPD_VIA_TCP, EPD_M_VIA_TCP_BYTES, EPD_M_VIA_TCP_COUNT, EPD_M_VIA_TCP_NS },
	{ EPD_VIA_SHM, EPD_M_VIA_SHM_BYTES, EPD_M_VIA_SHM_COUNT, EPD_M_VIA_SHM_NS },
	{ EPD_VIA_RDMA, EPD_M_VIA_RDMA_BYTES, EPD_M_VIA_RDMA_COUNT, EPD_M_VIA_RDMA_NS },
	{ EPD_VIA_IO_URING, EPD_M_VIA_FILE_BYTES, EPD_M_VIA_FILE_COUNT, EPD_M_VIA_FILE_NS },
};

/* Count an attempt that is over, and tell who keeps the books of backends. */
static void
tell(struct journey *j, const struct epd_plan *plan, int rc, uint64_t bytes,
    uint64_t ns)
{
	const enum epd_backend via = epd_plan_backend(plan);
	const struct epd_carry *c = j->c;

	for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
		if (counters[i].via == via) {
			epd_count(c->metrics, counters[i].bytes, bytes);
			epd_count(c->metrics, counters[i].count, rc == 0);
			epd_count(c->metrics, counters[i].ns, rc == 0 ? ns : 0);
		}
	if (rc == EPD_ETIMEOUT)
		epd_count(c->metrics, EPD_M_TRANSFER_TIMEOUTS, 1);
	if (c->how->told)
		c->how->told(c->arg, via, rc, bytes, ns);
	epd_log(c->log, "op=transfer plan=%llu attempt=%u parent=%llu via=%s "
	    "role=%d stages=%d bytes=%llu us=%llu result=%s",
	    (unsigned long long)plan->id, plan->attempt,
	    (unsigned long long)plan->parent, epd_backend_name(via),
	    plan->role, plan->nstages, (unsigned long long)bytes,
	    (unsigned long long)(ns / 1000), rc ? epd_errlabel(rc) : "ok");
}

static int
attempt(struct journey *j, const struct epd_plan *plan, struct epd_attempt *a,
    struct epd_why *why)
{
	const struct epd_carry *c = j->c;
	int rc;

	if (epd_plan_backend(plan) == EPD_VIA_RECOMPUTE) {
		epd_count(c->metrics, EPD_M_VIA_RECOMPUTE, 1);
		return c->how->recompute ?
		    c->how->recompute(c->arg, plan, why) : EPD_EUNSUPPORTED;
	}
	if (!c->books)
		return epd_attempt_make(a, why);
	if ((rc = epd_ledger_take(c->books, &plan->charge, why)) < 0) {
		epd_count(c->metrics, EPD_M_TRANSFER_NO_CREDIT, 1);
		return rc;
	}
	rc = epd_attempt_make(a, why);
	epd_ledger_give(c->books, &plan->charge);
	return rc;
}

/* One more attempt.  0, or what it failed by. */
static int
try_one(struct journey *j, struct epd_why *why)
{
	struct epd_plan plan = j->d.plan[j->k];
	const uint64_t from = epd_clock_boot_ns(), bytes = j->out->bytes;
	struct epd_attempt a = {
		.c = j->c, .plan = &plan, .pieces = &j->pieces, .out = j->out,
		.last = j->tries + 1 >= tries_of(j) && j->k + 1 >= j->d.n,
	};
	int rc;

	plan.attempt = ++j->out->attempts;
	rc = attempt(j, &plan, &a, why);
	j->out->backend = epd_plan_backend(&plan);
	j->out->role = (enum epd_plan_role)plan.role;
	j->out->plan = plan.id;
	tell(j, &plan, rc, j->out->bytes - bytes, epd_clock_boot_ns() - from);
	if (rc < 0 && !is_final(rc) && is_unsafe(j, &a))
		return epd_why(why, EPD_EPARTIAL, "%s failed when part of it "
		    "had moved: doing it again is not safe",
		    epd_backend_name(j->out->backend));
	return rc;
}

/* Once more, after a wait; or what it failed by, where there is no time for one. */
static int
try_again(struct journey *j, int rc)
{
	if (!epd_back_off(&j->wait_ns, j->c->deadline_ns))
		return rc;
	j->out->retries++;
	epd_count(j->c->metrics, EPD_M_TRANSFER_RETRIES, 1);
	return 0;
}

/* All ways have failed, and the peer may be back in a moment: from the first on. */
static int
begin_round(struct journey *j, int rc, struct epd_why *why)
{
	if ((rc = try_again(j, rc)) < 0)
		return rc;
	j->rounds++;
	j->passed = 0;
	j->tries = 0;
	return decide(j, why);
}

/* After a failure: the same path again, or the next.  0, or that there is none. */
static int
go_on(struct journey *j, int rc, struct epd_why *why)
{
	if (is_final(rc) || epd_is_stopped())
		return rc;
	/* Time that was spent on a peer that is lost was lost by that. */
	if (epd_clock_boot_ns() >= j->c->deadline_ns)
		return rc == EPD_ECREDIT || rc == EPD_EPEER ? rc :
		    j->rounds ? EPD_EPEER : EPD_ETIMEOUT;
	/* What is not granted yet may be later. */
	if (rc == EPD_ECREDIT || (is_passing(rc) && ++j->tries < tries_of(j)))
		return try_again(j, rc);
	if (j->k + 1 >= j->d.n)
		return rc == EPD_EPEER ? begin_round(j, rc, why) : rc;
	j->k++;
	j->passed++;
	j->tries = 0;
	if (!j->rounds)
		j->wait_ns = 0;
	j->out->fallbacks++;
	epd_count(j->c->metrics, EPD_M_TRANSFER_FALLBACKS, 1);
	return 0;
}

static int
travel(struct journey *j, struct epd_why *why)
{
	int rc = decide(j, why);

	if (rc < 0)
		return rc;
	for (;;) {
		if (epd_is_stopped())
			return epd_why(why, -ECANCELED, "called off");
		if ((rc = revalidate(j, why)) < 0)
			return rc;
		rc = j->failed = try_one(j, why);
		if (rc == 0)
			return 0;
		if ((rc = go_on(j, rc, why)) < 0)
			return rc;
	}
}

int
epd_carry(const struct epd_carry *c, struct epd_carried *out,
    struct epd_why *why)
{
	struct journey j = { .c = c, .out = out };
	const uint64_t from = epd_clock_boot_ns();
	int rc;

	*out = (struct epd_carried){0};
	rc = epd_pieces_cut(&j.pieces, c);
	if (rc < 0)
		return epd_why(why, rc, "no memory");
	rc = travel(&j, why);
	epd_pieces_free(&j.pieces);
	out->ns = epd_clock_boot_ns() - from;
	return rc;
}
