/*
 * check.c - the books against the log.
 *
 *	the log		every kept record is read; from the oldest point where
 *			a table is known they are applied to one of its own
 *	life cycles	each record's move is looked up in life.h against a
 *			ledger kept here, not by apply(); so is each run's
 *	the checkpoint	must be what the log gives at its record, where the log
 *			is kept from the start
 *	the tables	in memory must be what the replay gives
 *	the counts	holders, children and starts are recounted
 *	the bodies	every one is read and its CRC compared
 *
 * What is found counts as refcount mismatches: R has one name for them all.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "shard/check.h"
#include "shard/checkpoint.h"
#include "shard/life.h"
#include "shard/shard_in.h"

#define LLU(x) ((unsigned long long)(x))

enum { STOP = 1 };

struct check {
	struct epd_shard *s;
	struct epd_table *t;		/* replayed so far */
	struct epd_table *checkpoint;	/* to meet at its lsn, or NULL */
	struct epd_ledger ledger;
	struct epd_faults faults;
};

void
epd_fault(struct epd_faults *f, const char *fmt, ...)
{
	char text[240];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	f->n++;
	if (f->fn)
		f->fn(f->arg, text);
}

struct runs {
	struct check *c;
	uint64_t lsn;
	int begins;
};

static int
ledger_run(void *arg, uint64_t run)
{
	const struct runs *r = arg;

	return epd_ledger_run(&r->c->ledger, run, r->lsn, r->begins);
}

/* All runs of a body; of one without links the table knows it. */
static int
ledger_runs(struct check *c, const struct epd_body *b, uint64_t lsn,
    int begins)
{
	struct runs r = { c, lsn, begins };
	struct epd_span bytes;
	int rc;

	if (!b->nlinks)
		return epd_ledger_run(&c->ledger, b->run, lsn, begins);
	rc = epd_table_body(c->t, b, &bytes);
	return rc ? rc : epd_body_runs(bytes, ledger_run, &r);
}

static int
replay(void *arg, const struct epd_rec *r, struct epd_why *why)
{
	struct check *c = arg;
	int rc;

	if (r->lsn > c->s->table->lsn)
		return STOP;
	if (r->lsn <= c->t->lsn)
		return 0;
	rc = epd_ledger_record(&c->ledger, r, &c->faults);
	if (!rc)
		rc = epd_apply(c->t, r, why);
	if (rc)
		return rc;
	for (struct epd_body *b = c->t->freed; !rc && b; b = b->next)
		rc = ledger_runs(c, b, r->lsn, 0);
	c->t->freed = NULL;
	if (!rc && c->checkpoint && c->checkpoint->lsn == r->lsn)
		rc = epd_table_compare(c->t, c->checkpoint,
		    "checkpoint", &c->faults);
	return rc;
}

/* The table the replay begins with, and what it may be compared with. */
static int
begin(struct check *c, int whole, struct epd_why *why)
{
	struct epd_table *t = NULL;
	const struct epd_node *n = NULL;
	uint32_t segment;
	uint64_t size;
	int rc;

	rc = epd_checkpoint_read(c->s->dirfd, &t, &segment, &size, why);
	if (rc == EPD_ECORRUPT || rc == EPD_EKIND)
		epd_fault(&c->faults, "checkpoint: %s", epd_strerror(rc));
	else if (rc && rc != -ENOENT)
		return rc;
	if (whole) {
		c->checkpoint = t;
		return epd_table_new(&c->t);
	}
	if (!t)
		return epd_why(why, EPD_ECORRUPT, "neither the log's first "
		    "records nor a whole checkpoint are here");
	c->t = t;
	rc = epd_ledger_start(&c->ledger, t);
	while (!rc && (n = epd_tree_next(t->tree, n ? n->id : 0)))
		rc = ledger_runs(c, n->body, n->id, 1);
	return rc;
}

/* Read what is kept; damage is a fault, told in the words of the reader. */
static int
read_log(struct check *c, struct epd_why *why)
{
	struct epd_why what = { "" };
	struct epd_wal *w;
	uint32_t first;
	int rc;

	rc = epd_shard_reader(c->s, &w, &first, &what);
	if (!rc) {
		rc = begin(c, first == 1, &what);
		if (!rc)
			rc = epd_wal_read(w, replay, c, &what);
		epd_wal_close(w);
	}
	if (rc == STOP)
		return 0;
	if (rc == EPD_ECORRUPT || rc == EPD_EKIND) {
		epd_fault(&c->faults, "%s", *what.text ? what.text :
		    epd_strerror(rc));
		return 0;
	}
	return rc ? epd_why(why, rc, "%s", *what.text ? what.text :
	    epd_strerror(rc)) : 0;
}

/* Those in the checkpoint's file too, whoever has them in memory.  -errno. */
static int
check_bodies(struct check *c, struct epd_why *why)
{
	struct epd_table *t = c->checkpoint ? c->checkpoint : c->t;
	const struct epd_node *n = NULL;
	struct epd_span bytes;
	int rc;

	while ((n = epd_tree_next(t->tree, n ? n->id : 0))) {
		rc = epd_table_body(t, n->body, &bytes);
		if (!rc)
			rc = epd_body_glance(bytes,
			    &(struct epd_glance){ 0 });
		if (rc == EPD_ECORRUPT || rc == EPD_EKIND)
			epd_fault(&c->faults, "node %llu: its body: %s",
			    LLU(n->id), epd_strerror(rc));
		else if (rc)
			return epd_why(why, rc, "node %llu: its body: %s",
			    LLU(n->id), epd_strerror(rc));
	}
	return 0;
}

static void
forget(struct check *c)
{
	epd_table_free(c->t);
	epd_table_free(c->checkpoint);
	epd_ledger_free(&c->ledger);
	c->t = c->checkpoint = NULL;
}

int
epd_shard_check(struct epd_shard *s,
    void (*fn)(void *arg, const char *fault), void *arg, struct epd_why *why)
{
	struct check c = { .s = s, .faults = { fn, arg, 0 } };
	struct epd_why what = { "" };
	int rc;

	/* Another process's checkpoint may sweep what is being read. */
	for (int i = 0; i < EPD_SHARD_TRIES; i++) {
		forget(&c);
		rc = epd_shard_catch_up(s, why);
		if (!rc)
			rc = read_log(&c, why);
		if (rc != -ESTALE && rc != -ENOENT)
			break;
	}
	/* Where damage ended the replay there is nothing to compare with. */
	if (!rc && c.t && c.t->lsn == s->table->lsn)
		rc = epd_table_compare(s->table, c.t, "replay", &c.faults);
	if (!rc && epd_tree_check(s->table->tree, &what) == EPD_ECORRUPT)
		epd_fault(&c.faults, "%s", what.text);
	if (!rc)
		rc = epd_recount(s->table, &c.faults);
	if (!rc)
		rc = epd_ledger_settle(&c.ledger, &c.faults);
	if (!rc && c.t)
		rc = check_bodies(&c, why);
	forget(&c);
	if (c.faults.n)
		epd_count(s->o.metrics, EPD_M_REFCOUNT_MISMATCH,
		    (uint64_t)c.faults.n);
	return rc ? rc : c.faults.n;
}
