/* flow_rest.c - a thousand rounds and more of two verbs at one state, with kills. */
#include "tests/unit/flow_rest.h"

TEST(pairs_of_verbs_at_one_state)
{
	const char *n = getenv("ROUNDS");
	const int rounds = n ? atoi(n) : 3000;
	int kills;

	CHECK_INT(rest_matrix(rounds, &kills), 0);
	printf("# %d rounds, %d with a kill\n", rounds, kills);
}

int
main(int argc, char **argv)
{
	return check_main(argc, argv);
}
