/* store.h - a store with a few features by name alone, for the targets that need one. */
#ifndef TESTS_FUZZ_STORE_H
#define TESTS_FUZZ_STORE_H

#include <stdio.h>
#include <sys/stat.h>

#include "feature/inner.h"
#include "flow/store.h"
#include "tests/fuzz/folder.h"

/* What lists features goes by the names of their files. */
static const char *const store_features[] = {
	"abcd000000000000000000000000000000000000000000000000000000000000",
	"abcd100000000000000000000000000000000000000000000000000000000000",
	"abce000000000000000000000000000000000000000000000000000000000000",
	"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
};
enum { STORE_FEATURES = sizeof store_features / sizeof *store_features };

static inline struct epd_store *
store(void)
{
	static struct epd_config config;
	static struct epd_store *s;
	static char path[128];
	struct epd_store_options o = {
		.path = path, .config = &config, .create = 1,
	};

	if (s)
		return s;
	close(epd_dir_make(folder(), "store"));
	snprintf(path, sizeof path, "%s/store", folder_path);
	epd_config_default(&config);
	config.state_sync = 0;
	snprintf(config.memory_dir, sizeof config.memory_dir, "%s/memory",
	    folder_path);
	if (epd_store_open(&s, &o, NULL))
		abort();
	for (int i = 0; i < STORE_FEATURES; i++) {
		char file[96];

		snprintf(file, sizeof file, "%.2s", store_features[i]);
		close(epd_dir_make(s->features->dirfd, file));
		snprintf(file, sizeof file, "%.2s/%s.meta", store_features[i],
		    store_features[i]);
		folder_put(s->features->dirfd, file, "", 0);
	}
	return s;
}

#endif
