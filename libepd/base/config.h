/*
 * config.h - the YAML configuration, with the sections of the RFC and ours.
 * An unknown section or key, or a value of the wrong type or out of range, is
 * an error that names file and line.  No aliases, no tags, at most 64 KiB.
 */
#ifndef EPD_BASE_CONFIG_H
#define EPD_BASE_CONFIG_H

#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { EPD_CONFIG_STR = 256 };

/* kinds: B bool, I integer (min, max), R real (min, max), S string, E one of a |-list */
/*        section      key                     kind field                default       min|choices  max */
#define EPD_CONFIG(X) \
	X("epd",       "enabled",               B, epd_enabled,           1, 0, 1) \
	X("epd",       "encoder_pool",          S, encoder_pool,          "encoder", "", 0) \
	X("epd",       "prefill_pool",          S, prefill_pool,          "prefill", "", 0) \
	X("epd",       "decode_pool",           S, decode_pool,           "decode", "", 0) \
	X("reuse",     "default_policy",        E, reuse_policy,          "exact_prefix", "none|exact_prefix|segment_verified|aggressive_approx", 0) \
	X("reuse",     "approximate_enabled",   B, approximate_enabled,   0, 0, 1) \
	X("reuse",     "structural_gate",       B, structural_gate,       1, 0, 1) \
	X("reuse",     "statistical_gate",      B, statistical_gate,      1, 0, 1) \
	X("reuse",     "execution_gate",        B, execution_gate,        0, 0, 1) \
	X("reuse",     "max_quality_delta",     R, max_quality_delta,     0.01, 0, 1) \
	X("state",     "snapshot_isolation",    B, snapshot_isolation,    1, 0, 1) \
	X("state",     "ttl_ms",                I, state_ttl_ms,          600000, 0, INT64_MAX) \
	X("state",     "enable_cow",            B, enable_cow,            1, 0, 1) \
	X("state",     "enable_offload",        B, enable_offload,        1, 0, 1) \
	X("state",     "sync",                  B, state_sync,            1, 0, 1) \
	X("state",     "log_keep",              I, log_keep,              0, 0, 1000000) \
	X("state",     "lock_timeout_ms",       I, lock_timeout_ms,       10000, 1, 600000) \
	X("state",     "lease_ms",              I, lease_ms,              60000, 100, 86400000) \
	X("state",     "handoff_ms",            I, handoff_ms,            30000, 100, 86400000) \
	X("state",     "checkpoint_bytes",      I, checkpoint_bytes,      1048576, 4096, 1073741824) \
	X("page",      "tokens",                I, page_tokens,           16, 16, 64) \
	X("page",      "dtype",                 E, kv_dtype,              "bf16", "bf16|f32", 0) \
	X("page",      "memory_cap",            I, memory_cap,            4294967296, 1048576, INT64_MAX) \
	X("page",      "memory_dir",            S, memory_dir,            "", "/", 0) \
	X("feature",   "cache",                 B, feature_cache,         1, 0, 1) \
	X("feature",   "dtype",                 E, feature_dtype,         "f32", "bf16|f32", 0) \
	X("feature",   "ttl_ms",                I, feature_ttl_ms,        0, 0, INT64_MAX) \
	X("feature",   "keep_pixels",           B, keep_pixels,           1, 0, 1) \
	X("image",     "resampler",             E, resampler,             "fast", "fast|pil", 0) \
	X("image",     "exif",                  B, exif,                  1, 0, 1) \
	X("image",     "alpha",                 E, alpha,                 "white", "white|drop", 0) \
	X("image",     "max_pixels",            I, image_max_pixels,      178956970, 1, 1000000000) \
	X("image",     "max_bytes",             I, image_max_bytes,       268435456, 1, 2147483648) \
	X("engine",    "threads",               I, threads,               0, 0, 256) \
	X("engine",    "chunk",                 I, chunk,                 512, 1, 65536) \
	X("engine",    "adapter",               S, adapter,               "", "", 0) \
	X("directory", "bounded_staleness_ms",  I, bounded_staleness_ms,  500, 0, 600000) \
	X("directory", "backend",               E, directory_backend,     "local", "local|etcd", 0) \
	X("scheduler", "preemption_enabled",    B, preemption_enabled,    0, 0, 1) \
	X("scheduler", "admission_control",     B, admission_control,     1, 0, 1) \
	X("transfer",  "default_transport",     E, default_transport,     "tcp", "tcp|shm|rdma", 0) \
	X("transfer",  "rdma_enabled",          B, rdma_enabled,          0, 0, 1) \
	X("transfer",  "checksum",              B, transfer_checksum,     1, 0, 1) \
	X("transfer",  "compression",           E, compression,           "none", "none|fp8|int8|custom", 0) \
	X("transfer",  "mode",                  E, transfer_mode,         "disabled", "disabled|shadow|enforced", 0) \
	X("transfer",  "timeout_ms",            I, transfer_timeout_ms,   30000, 1, 86400000) \
	X("transfer",  "priority",              E, transfer_priority,     "normal", "low|normal|high", 0) \
	X("transfer",  "prefetch",              E, transfer_prefetch,     "next_step", "none|next_step|speculative", 0) \
	X("transfer",  "rules",                 S, transfer_rules,        "", "", 0) \
	X("transfer",  "strict",                B, transfer_strict,       0, 0, 1) \
	X("transfer",  "key_file",              S, transfer_key_file,     "", "", 0) \
	X("transfer",  "address",               S, transfer_address,      "", "tcp://|unix:///", 0) \
	X("transfer",  "trust_peers",           B, trust_peers,           0, 0, 1) \
	X("debug",     "exact_prefix",          B, debug_exact_prefix,    1, 0, 1) \
	X("debug",     "memo",                  B, debug_memo,            1, 0, 1)
/* and scheduler.queues, a list of INTERACTIVE, HYBRID and THINKING, each once */

struct epd_config {
#define X_B(f) int f;
#define X_I(f) int64_t f;
#define X_R(f) double f;
#define X_S(f) char f[EPD_CONFIG_STR];
#define X_E(f) char f[EPD_CONFIG_STR];
#define X(section, key, kind, field, dflt, lo, hi) X_##kind(field)
	EPD_CONFIG(X)
#undef X
#undef X_B
#undef X_I
#undef X_R
#undef X_S
#undef X_E
	char queues[3][16];	/* highest first; "" past the last */
};

void epd_config_default(struct epd_config *c);
/*
 * Read path over what c holds; on failure c is as before.
 * Fails: EPD_EUSAGE with file:line in why, -errno.
 */
int epd_config_read(struct epd_config *c, const char *path, struct epd_why *why);
/* The same of text in memory; name stands for the file's in why. */
int epd_config_parse(struct epd_config *c, struct epd_span text,
    const char *name, struct epd_why *why);

#endif
