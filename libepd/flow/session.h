/*
 * session.h - a model opened for use with a store: its tokenizer, template,
 * fingerprints, and the engine once something has to be computed.
 */
#ifndef EPD_FLOW_SESSION_H
#define EPD_FLOW_SESSION_H

#include "engine/engine.h"
#include "flow/store.h"

/* Version of the order of additions, and the numeric family's name. */
enum { EPD_ARITHMETIC = 1 };
#define EPD_NUMERIC "lanes16-f32"

struct epd_session_options {
	const char *model;	/* checkpoint directory */
	const char *isa;	/* NULL: the best */
	int threads;		/* 0: configuration, then one a core */
};

struct epd_session {
	struct epd_store *store;
	struct epd_model *model;
	const struct epd_model_info *info;
	struct epd_tokenizer *tokens;
	struct epd_engine *engine;		/* NULL until epd_session_engine */
	enum epd_template template;
	uint8_t template_hash[32];
	struct epd_model_parts parts;		/* strings are the session's */
	char snapshot[33];
	struct epd_name feature_model;		/* fingerprint of parts: features */
	struct epd_name model_fp;		/* of states: arithmetic and weights */
	struct epd_page_shape shape;
	size_t page_bytes;
	enum epd_resampler resampler;
	enum epd_type feature_type;
	char *isa;
	int threads;
	unsigned cuts;		/* as its files were when they were mapped */
	uint64_t forwards;	/* steps of the engine so far */
};

/*
 * Fails: as epd_model_open; EPD_EUNSUPPORTED (numeric limits of the checkpoint).
 * The weights are hashed the first time a store sees them.
 * Owns: the caller owns *out; the store must outlive it.
 */
int epd_session_open(struct epd_session **out, struct epd_store *s,
    const struct epd_session_options *o, struct epd_why *why);
/*
 * The model that states say they were made by, which o->model is; no states: one
 * that a person named.  While its files are out of reach they are SUSPECT.
 * Fails: as epd_session_open; EPD_ESUSPECT.
 */
int epd_flow_session(struct epd_session **out, struct epd_store *s,
    const struct epd_session_options *o, const struct epd_ref *states, int n,
    struct epd_why *why);
void epd_session_close(struct epd_session *s);
/* Threads and working memory, made when first needed. */
int epd_session_engine(struct epd_session *s, struct epd_why *why);
/*
 * epd_forward.  EPD_ECORRUPT: somebody has cut short what is mapped, now or before,
 * so what came is void, and so is the session.
 */
int epd_session_forward(struct epd_session *s, struct epd_chunk *c, int n,
    struct epd_why *why);
int epd_session_whole(const struct epd_session *s, struct epd_why *why);
/* Parent's name of page 0 for this model, shape and arithmetic. */
void epd_session_base(const struct epd_session *s, struct epd_name *out);
/* All parts of the fingerprint as a JSON object. */
int epd_session_fingerprint(const struct epd_session *s, struct epd_buf *out);

#endif
