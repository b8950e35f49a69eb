/*
 * weights.c - names to weights.  A checkpoint calls the text model
 * model.language_model. or model., the tower model.visual. or visual.; which,
 * its first tensor tells.  The first failure is kept and the rest skipped.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/model/weights.h"

enum { ROOM = 64 << 10 };	/* floats allocated at once */

struct epd_room {
	struct epd_room *next;
	long used, n;
	float at[];
};

struct bind {
	struct epd_weights *w;
	const struct epd_arch *a;
	const struct epd_tensors *t;
	struct epd_why *why;
	const char *prefix;	/* of what is being bound */
	char part[64];		/* "blocks.3.", put before names */
	int rc;
};

static float *
room(struct epd_weights *w, long n)
{
	struct epd_room *r = w->room;
	long size = n > ROOM ? n : ROOM;

	if (!r || r->n - r->used < n) {
		r = epd_malloc(sizeof *r + (size_t)size * 4);
		if (!r)
			return NULL;
		*r = (struct epd_room){ .next = w->room, .n = size };
		w->room = r;
	}
	r->used += n;
	return r->at + r->used - n;
}

static void __attribute__((format(printf, 2, 3)))
part(struct bind *b, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(b->part, sizeof b->part, fmt, ap);
	va_end(ap);
}

static int
type_of(const struct epd_tensor *t)
{
	static const char *const name[] = {
		[EPD_F32] = "F32", [EPD_BF16] = "BF16", [EPD_F16] = "F16",
	};

	for (int i = 0; i < 3; i++)
		if (!strcmp(t->type, name[i]))
			return i;
	return -1;
}

/* The tensor prefix part name with these dimensions, or NULL and a failure. */
static const struct epd_tensor *
tensor(struct bind *b, const char *name, int dims, const long *dim)
{
	const struct epd_tensor *t;
	char full[256];
	int same;

	if (b->rc)
		return NULL;
	snprintf(full, sizeof full, "%s%s%s", b->prefix, b->part, name);
	if (!(t = epd_tensors_find(b->t, full))) {
		b->rc = epd_why(b->why, EPD_EFORMAT, "%s is missing", full);
		return NULL;
	}
	same = t->dims == dims;
	for (int i = 0; same && i < dims; i++)
		same = t->dim[i] == dim[i];
	if (!same)
		b->rc = epd_why(b->why, EPD_EFORMAT,
		    "%s has not the shape config.json gives it", full);
	else if (type_of(t) < 0)
		b->rc = epd_why(b->why, EPD_EUNSUPPORTED,
		    "%s is %s: only BF16, F16 and F32 are supported", full,
		    t->type);
	return b->rc ? NULL : t;
}

static void
matrix(struct bind *b, struct epd_weight *w, const char *name, long n, long k)
{
	const long dim[] = { n, k };
	const struct epd_tensor *t = tensor(b, name, 2, dim);

	if (t)
		*w = (struct epd_weight){ (enum epd_type)type_of(t), n, k,
		    t->data };
}

static void
vector(struct bind *b, const float **v, const char *name, long n)
{
	const struct epd_tensor *t = tensor(b, name, 1, &n);
	float *p;

	if (!t)
		return;
	if (!(p = room(b->w, n))) {
		b->rc = -ENOMEM;
		return;
	}
	epd_widen(p, (enum epd_type)type_of(t), t->data, n);
	*v = p;
}

static void
linear(struct bind *b, struct epd_linear *l, const char *name, long n, long k,
    int bias)
{
	char full[64];

	snprintf(full, sizeof full, "%s.weight", name);
	matrix(b, &l->w, full, n, k);
	snprintf(full, sizeof full, "%s.bias", name);
	if (bias)
		vector(b, &l->bias, full, n);
}

static void
norm(struct bind *b, struct epd_norm *x, const char *name, long n, int rms)
{
	char full[64];

	snprintf(full, sizeof full, "%s.weight", name);
	vector(b, &x->g, full, n);
	snprintf(full, sizeof full, "%s.bias", name);
	if (!rms)
		vector(b, &x->b, full, n);
}

static void
bind_layer(struct bind *b, struct epd_layer *l)
{
	const struct epd_text_arch *t = &b->a->text;
	const long h = t->hidden, q = t->heads * t->dim;
	const long k = t->kv_heads * t->dim;
	const int bias = b->a->rules->qkv_bias;

	norm(b, &l->norm1, "input_layernorm", h, 1);
	norm(b, &l->norm2, "post_attention_layernorm", h, 1);
	linear(b, &l->q, "self_attn.q_proj", q, h, bias);
	linear(b, &l->k, "self_attn.k_proj", k, h, bias);
	linear(b, &l->v, "self_attn.v_proj", k, h, bias);
	linear(b, &l->o, "self_attn.o_proj", h, q, 0);
	linear(b, &l->gate, "mlp.gate_proj", t->inner, h, 0);
	linear(b, &l->up, "mlp.up_proj", t->inner, h, 0);
	linear(b, &l->down, "mlp.down_proj", h, t->inner, 0);
	if (!bias) {
		vector(b, &l->qnorm, "self_attn.q_norm.weight", t->dim);
		vector(b, &l->knorm, "self_attn.k_norm.weight", t->dim);
	}
}

static void
bind_text(struct bind *b)
{
	const struct epd_text_arch *t = &b->a->text;
	struct epd_weights *w = b->w;

	b->prefix = epd_tensors_find(b->t,
	    "model.language_model.embed_tokens.weight") ?
	    "model.language_model." : "model.";
	matrix(b, &w->embed, "embed_tokens.weight", t->vocab, t->hidden);
	norm(b, &w->norm, "norm", t->hidden, 1);
	for (long i = 0; i < t->layers; i++) {
		part(b, "layers.%ld.", i);
		bind_layer(b, &w->layer[i]);
	}
	/* Whatever the flag says: tied files leave the head out. */
	part(b, "%s", "");
	b->prefix = "";
	w->head = w->embed;
	if (epd_tensors_find(b->t, "lm_head.weight"))
		matrix(b, &w->head, "lm_head.weight", t->vocab, t->hidden);
}

static void
bind_block(struct bind *b, struct epd_block *y)
{
	const struct epd_family_rules *r = b->a->rules;
	const long e = b->a->vision.width, n = b->a->vision.inner;
	char name[48];

	norm(b, &y->norm1, "norm1", e, r->rms);
	norm(b, &y->norm2, "norm2", e, r->rms);
	linear(b, &y->qkv, "attn.qkv", 3 * e, e, 1);
	linear(b, &y->proj, "attn.proj", e, e, 1);
	snprintf(name, sizeof name, "mlp.%s", r->fc1);
	linear(b, &y->fc1, name, n, e, 1);
	snprintf(name, sizeof name, "mlp.%s", r->fc2);
	linear(b, &y->fc2, name, e, n, 1);
	if (!r->up)
		return;
	snprintf(name, sizeof name, "mlp.%s", r->up);
	linear(b, &y->up, name, n, e, 1);
}

/* deep: the norm is over a token's patches together. */
static void
bind_merger(struct bind *b, struct epd_merger *m, int deep)
{
	const struct epd_family_rules *r = b->a->rules;
	const struct epd_vision_arch *v = &b->a->vision;
	const long all = v->width * v->merge * v->merge;

	m->width = deep ? all : v->width;
	norm(b, &m->norm, r->merge_norm, m->width, r->rms);
	linear(b, &m->fc1, r->merge1, all, all, 1);
	linear(b, &m->fc2, r->merge2, b->a->text.hidden, all, 1);
}

static void
bind_vision(struct bind *b)
{
	const struct epd_vision_arch *v = &b->a->vision;
	const long dim[] = { v->width, 3, 2, v->patch, v->patch };
	struct epd_weights *w = b->w;
	const struct epd_tensor *t;

	b->prefix = epd_tensors_find(b->t,
	    "model.visual.patch_embed.proj.weight") ? "model.visual." :
	    "visual.";
	part(b, "%s", "");
	if ((t = tensor(b, "patch_embed.proj.weight", 5, dim)))
		w->patch.w = (struct epd_weight){ (enum epd_type)type_of(t),
		    v->width, 6 * v->patch * v->patch, t->data };
	if (b->a->rules->patch_bias)
		vector(b, &w->patch.bias, "patch_embed.proj.bias", v->width);
	if (v->side > 0)
		matrix(b, &w->table, "pos_embed.weight", v->side * v->side,
		    v->width);
	for (long i = 0; i < v->depth; i++) {
		part(b, "blocks.%ld.", i);
		bind_block(b, &w->block[i]);
	}
	part(b, "merger.");
	bind_merger(b, &w->merger, 0);
	for (long i = 0; i < v->deep; i++) {
		part(b, "deepstack_merger_list.%ld.", i);
		bind_merger(b, &w->deep[i], 1);
	}
}

int
epd_weights_bind(struct epd_weights *out, const struct epd_arch *a,
    const struct epd_tensors *t, struct epd_why *why)
{
	struct epd_weights w = { 0 };
	struct bind b = { .w = &w, .a = a, .t = t, .why = why };

	w.layer = epd_calloc((size_t)a->text.layers, sizeof *w.layer);
	w.block = epd_calloc((size_t)a->vision.depth, sizeof *w.block);
	if (!w.layer || !w.block)
		b.rc = -ENOMEM;
	else
		bind_text(&b);
	if (!b.rc)
		bind_vision(&b);
	if (b.rc) {
		epd_weights_free(&w);
		return b.rc;
	}
	*out = w;
	return 0;
}

void
epd_weights_free(struct epd_weights *w)
{
	struct epd_room *r = w->room, *next;

	for (; r; r = next) {
		next = r->next;
		epd_free(r);
	}
	epd_free(w->layer);
	epd_free(w->block);
	*w = (struct epd_weights){ 0 };
}
