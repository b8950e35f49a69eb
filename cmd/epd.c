/* epd.c - `epd VERB` runs epd-VERB; and the manual, and the doctor. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/cli.h"
#include "cmd/doctor.h"

enum { VERBS = 64 };

static const char *const usage[] = {
	"VERB [ARGUMENT ...]",
	"help [VERB]",
	"doctor [-j]",
	NULL
};

static const struct cli_command command = {
	.name = "epd",
	.usage = usage,
	.about = "Pictures and questions to answers, by commands that share "
	    "nothing but a store. epd VERB runs epd-VERB.",
	.common = "",
	.more =
	    "verbs:\n"
	    "  encode                  pictures to features\n"
	    "  prefill                 text and pictures to a state\n"
	    "  decode                  what a state says next\n"
	    "  fork                    branches of a state, or back in one\n"
	    "  handoff                 a state to another workflow\n"
	    "  plan                    which way bytes would go, and why\n"
	    "  state                   look at states, and keep house\n"
	    "  mount                   a store as a tree of files\n"
	    "  doctor                  what this machine has\n"
	    "  help [VERB]             the manual\n"
	    "\n"
	    "  s=$(epd-encode sign.jpg | epd-prefill -p 'What does it say?' -)\n"
	    "  epd-decode $s\n",
};

static const char *const doctor_usage[] = {
	"[-j] [-m DIR] [--store DIR]",
	NULL
};

static const struct cli_command doctor = {
	.name = "epd doctor",
	.usage = doctor_usage,
	.about = "Show what this machine has: instructions and which are "
	    "chosen, the memory tier, devices, the store, tiers below memory and "
	    "the directory and whether they answer, the model, limits.",
	.common = "mtjvqSCI",
};

static const char *const help_usage[] = { "[VERB]", NULL };

static const struct cli_command help_command = {
	.name = "epd help",
	.usage = help_usage,
	.about = "Show the manual page of a verb, or of epd itself. "
	    "`epd help config` is the page of the configuration.",
	.common = "",
};

/* Folder of the running program, with its slash. */
static int
own_folder(char out[PATH_MAX])
{
	ssize_t n = readlink("/proc/self/exe", out, PATH_MAX - 1);

	if (n <= 0)
		return -1;
	out[n] = '\0';
	strrchr(out, '/')[1] = '\0';
	return 0;
}

/* Become epd-VERB: the one beside this, else the first in PATH. */
static void
become(const char *verb, char **argv)
{
	char dir[PATH_MAX], path[PATH_MAX + 128];

	snprintf(path, sizeof path, "epd-%s", verb);
	argv[0] = path;
	signal(SIGPIPE, SIG_DFL);
	if (own_folder(dir) == 0) {
		char beside[2 * PATH_MAX];

		snprintf(beside, sizeof beside, "%sepd-%s", dir, verb);
		execv(beside, argv);
		if (errno != ENOENT)
			return;
	}
	execvp(path, argv);
	signal(SIGPIPE, SIG_IGN);
}

static int
verb_ok(const char *s)
{
	return *s && strlen(s) < 64 && strspn(s,
	    "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(s);
}

static _Noreturn void
no_such_verb(struct cli *c, const char *verb)
{
	const char *names[VERBS + 1] = { "help", "doctor" }, *near;
	char dir[PATH_MAX];
	struct dirent *e;
	DIR *d = own_folder(dir) == 0 ? opendir(dir) : NULL;
	int n = 2;

	while (d && n < VERBS && (e = readdir(d)))
		if (!strncmp(e->d_name, "epd-", 4))
			names[n++] = e->d_name + 4;
	names[n] = NULL;
	near = cli_nearest(verb, names);
	if (near)
		cli_usage(c, "%s: no such verb, did you mean %s?", verb, near);
	cli_usage(c, "%s: no such verb", verb);
}

static char *
page_file(const char *name, int section)
{
	char built[256], installed[256];

	snprintf(built, sizeof built, "../../cmd/%s.%d", name, section);
	snprintf(installed, sizeof installed, "../share/man/man%d/%s.%d",
	    section, name, section);
	return cli_beside(built, installed);
}

/* The manual by man(1); where that is not installed, what --help says. */
static int
manual(struct cli *c, const char *verb)
{
	char name[80] = "epd", *file;
	char *options[] = { name, "--help", NULL };
	int section = 1;

	/* A page's own name does as well. */
	if (!strncmp(verb, "epd-", 4))
		verb += 4;
	else if (!strcmp(verb, "epd"))
		verb = "";
	if (!strcmp(verb, "config") || !strcmp(verb, "epd.yaml")) {
		verb = "config";
		snprintf(name, sizeof name, "epd.yaml");
		section = 5;
	} else if (*verb && strcmp(verb, "doctor") && strcmp(verb, "help")) {
		snprintf(name, sizeof name, "epd-%s", verb);
	}
	file = verb_ok(*verb ? verb : "epd") ? page_file(name, section) : NULL;
	if (!file)
		no_such_verb(c, verb);
	fflush(stdout);
	signal(SIGPIPE, SIG_DFL);
	execlp("man", "man", "-l", file, NULL);
	execlp("mandoc", "mandoc", "-a", file, NULL);
	signal(SIGPIPE, SIG_IGN);
	if (section == 5)
		return execlp("cat", "cat", file, NULL);
	free(file);
	if (!strncmp(name, "epd-", 4))
		become(name + 4, options);
	c->command = &command;
	cli_help(&command);
	return cli_end(c);
}

int
main(int argc, char **argv)
{
	struct cli c;
	int first = cli_verb(&c, &command, argc, argv);
	const char *verb = argv[first];

	if (!verb) {
		cli_help(&command);
		c.status = 2;
		return cli_end(&c);
	}
	if (!strcmp(verb, "doctor")) {
		first = cli_options(&c, &doctor, NULL, argc, argv, first);
		if (first < argc)
			cli_usage(&c, "%s: an operand too many", argv[first]);
		return epd_doctor(&c);
	}
	if (!strcmp(verb, "help")) {
		first = cli_options(&c, &help_command, NULL, argc, argv, first);
		if (first + 1 < argc)
			cli_usage(&c, "%s: an operand too many",
			    argv[first + 1]);
		return manual(&c, argv[first] ? argv[first] : "");
	}
	if (!verb_ok(verb))
		no_such_verb(&c, verb);
	become(verb, argv + first);
	if (errno != ENOENT)
		cli_fail(&c, verb, -errno, NULL);
	else
		no_such_verb(&c, verb);
	return cli_end(&c);
}
