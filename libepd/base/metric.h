/* metric.h - what is counted, in the order of the file; outside base include base/metrics.h. */
#ifndef EPD_BASE_METRIC_H
#define EPD_BASE_METRIC_H

/*        id                  group       name */
#define EPD_METRICS(X) \
	X(ENCODE_COUNT,       "stage",    "encode_count") \
	X(ENCODE_NS,          "stage",    "encode_ns") \
	X(EP_TRANSFER_COUNT,  "stage",    "e2p_transfer_count") \
	X(EP_TRANSFER_NS,     "stage",    "e2p_transfer_ns") \
	X(PREFILL_COUNT,      "stage",    "prefill_count") \
	X(PREFILL_NS,         "stage",    "prefill_ns") \
	X(PREFILL_TOKENS,     "stage",    "prefill_tokens") \
	X(PREFILL_PAGES,      "stage",    "prefill_pages") \
	X(PD_TRANSFER_COUNT,  "stage",    "p2d_transfer_count") \
	X(PD_TRANSFER_NS,     "stage",    "p2d_transfer_ns") \
	X(TTFT_COUNT,         "stage",    "decode_ttft_count") \
	X(TTFT_NS,            "stage",    "decode_ttft_ns") \
	X(DECODE_TOKENS,      "stage",    "decode_tokens") \
	X(DECODE_NS,          "stage",    "decode_ns") \
	X(ITL_MAX_NS,         "stage",    "inter_token_max_ns") \
	X(MM_HIT,             "feature",  "mm_hit") \
	X(MM_MISS,            "feature",  "mm_miss") \
	X(MM_READBACK,        "feature",  "mm_store_readback") \
	X(MM_DEDUP,           "feature",  "mm_dedup") \
	X(MM_MEMO_HIT,        "feature",  "mm_memo_hit") \
	X(MM_EXPIRED,         "feature",  "mm_expired") \
	X(CORRUPT_META,       "feature",  "corrupt_meta") \
	X(CORRUPT_BLOB,       "feature",  "corrupt_blob") \
	X(FIRST_PASS_NS,      "feature",  "first_pass_ns") \
	X(SECOND_PASS_NS,     "feature",  "second_pass_ns") \
	X(CLONE_FORK_NS,      "state",    "clone_fork_ns") \
	X(CLONE_FORK_COUNT,   "state",    "clone_fork_count") \
	X(CLONE_STATE_NS,     "state",    "clone_state_ns") \
	X(FORK_FALLBACKS,     "state",    "fork_fallbacks") \
	X(TAIL_PAGE_COPY_NS,  "state",    "tail_page_copy_ns") \
	X(TAIL_PAGE_COPIES,   "state",    "tail_page_copies") \
	X(STATES_CREATED,     "state",    "states_created") \
	X(STATES_RELEASED,    "state",    "states_released") \
	X(STATES_ADVANCED,    "state",    "states_advanced") \
	X(PAGES_LOST,         "state",    "pages_lost") \
	X(PAGES_RECOMPUTED,   "state",    "pages_recomputed") \
	X(PAGES_CORRUPT,      "state",    "pages_corrupt") \
	X(REFCOUNT_MISMATCH,  "state",    "refcount_mismatch_count") \
	X(ORPHAN_PAGES,       "state",    "orphan_page_count") \
	X(LEASES,             "state",    "lease_count") \
	X(GC_COUNT,           "state",    "gc_count") \
	X(GC_NS,              "state",    "gc_ns") \
	X(LOG_APPENDS,        "state",    "log_appends") \
	X(LOG_FLUSHES,        "state",    "log_flushes") \
	X(TORN_TAILS,         "state",    "log_torn_tails") \
	X(CHECKPOINTS,        "state",    "log_checkpoints") \
	X(EXACT_ATTEMPTS,     "reuse",    "exact_reuse_attempts") \
	X(EXACT_HITS,         "reuse",    "exact_reuse_hits") \
	X(EXACT_TOKENS,       "reuse",    "exact_reuse_tokens") \
	X(APPROX_ATTEMPTS,    "reuse",    "approx_reuse_attempts") \
	X(GATE_STRUCTURAL,    "reuse",    "gate_structural_failures") \
	X(GATE_STATISTICAL,   "reuse",    "gate_statistical_failures") \
	X(GATE_EXECUTION,     "reuse",    "gate_execution_failures") \
	X(REUSE_FALLBACKS,    "reuse",    "reuse_fallbacks") \
	X(ADMISSION_REJECTED, "scheduler", "admission_rejections") \
	X(PREEMPTIONS,        "scheduler", "preemptions") \
	X(CHECKSUM_FAILURES,  "transfer", "checksum_failures") \
	X(TRANSFER_RETRIES,   "transfer", "retries") \
	X(TRANSFER_TIMEOUTS,  "transfer", "timeouts") \
	X(TRANSFER_FALLBACKS, "transfer", "fallbacks") \
	X(TRANSFER_REPLANS,   "transfer", "replans") \
	X(TRANSFER_LATE,      "transfer", "late_completions") \
	X(TRANSFER_NO_CREDIT, "transfer", "credits_refused") \
	X(TRANSFER_CANCELLED, "transfer", "cancelled") \
	X(VIA_TCP_BYTES,      "transfer", "tcp_bytes") \
	X(VIA_TCP_COUNT,      "transfer", "tcp_count") \
	X(VIA_TCP_NS,         "transfer", "tcp_ns") \
	X(VIA_SHM_BYTES,      "transfer", "shm_bytes") \
	X(VIA_SHM_COUNT,      "transfer", "shm_count") \
	X(VIA_SHM_NS,         "transfer", "shm_ns") \
	X(VIA_RDMA_BYTES,     "transfer", "rdma_bytes") \
	X(VIA_RDMA_COUNT,     "transfer", "rdma_count") \
	X(VIA_RDMA_NS,        "transfer", "rdma_ns") \
	X(VIA_FILE_BYTES,     "transfer", "io_uring_bytes") \
	X(VIA_FILE_COUNT,     "transfer", "io_uring_count") \
	X(VIA_FILE_NS,        "transfer", "io_uring_ns") \
	X(VIA_RECOMPUTE,      "transfer", "recompute_count") \
	X(PLANS_COMPARED,     "transfer", "plans_compared") \
	X(PLANS_DIFFER,       "transfer", "plans_differ") \
	X(VIA_LINK_BYTES,     "transfer", "link_bytes") \
	X(VIA_LINK_COUNT,     "transfer", "link_count")

#endif
