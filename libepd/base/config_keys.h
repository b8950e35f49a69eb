/* config_keys.h - every key of the configuration; outside base include base/config.h. */
#ifndef EPD_BASE_CONFIG_KEYS_H
#define EPD_BASE_CONFIG_KEYS_H

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
	X("feature",   "store",                 E, feature_store,         "none", "none|mooncake_store", 0) \
	X("feature",   "store_min_ttl_ms",      I, feature_store_min_ttl_ms, 60000, 0, INT64_MAX) \
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
	X("directory", "endpoints",             S, directory_endpoints,   "http://127.0.0.1:2379", "http://|https://", 0) \
	X("directory", "prefix",                S, directory_prefix,      "/epd/", "/", 0) \
	X("directory", "node",                  S, directory_node,        "", "", 0) \
	X("directory", "lease_ms",              I, directory_lease_ms,    10000, 2000, 3600000) \
	X("directory", "timeout_ms",            I, directory_timeout_ms,  2000, 1, 600000) \
	X("tier",      "high_water",            R, tier_high_water,       0.90, 0, 1) \
	X("tier",      "low_water",             R, tier_low_water,        0.80, 0, 1) \
	X("tier",      "evict_to",              E, tier_evict_to,         "nvme", "none|nvme|mooncake_store", 0) \
	X("tier",      "restore",               E, tier_restore,          "cheaper", "cheaper|always", 0) \
	X("tier",      "compression",           E, tier_compression,      "auto", "none|zstd|auto", 0) \
	X("tier",      "nvme_dir",              S, tier_nvme_dir,         "", "/", 0) \
	X("tier",      "nvme_cap",              I, tier_nvme_cap,         68719476736, 1048576, INT64_MAX) \
	X("tier",      "mooncake_url",          S, tier_mooncake_url,     "", "http://|https://", 0) \
	X("tier",      "mooncake_master",       S, tier_mooncake_master,  "", "", 0) \
	X("tier",      "mooncake_admin",        S, tier_mooncake_admin,   "", "http://|https://", 0) \
	X("tier",      "mooncake_parallel",     I, tier_mooncake_parallel, 4, 1, 64) \
	X("tier",      "mooncake_timeout_ms",   I, tier_mooncake_timeout_ms, 2000, 1, 600000) \
	X("tier",      "mooncake_pin",          E, tier_mooncake_pin,     "none", "none|soft|hard", 0) \
	X("tier",      "key_file",              S, tier_key_file,         "", "", 0) \
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

#endif
