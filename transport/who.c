/*
 * who.c - SO_PEERCRED, and /proc/net/tcp.
 *
 * The table's row of the other end has its address first.  A socket that nobody has
 * any more stands there as root's, so only an established one with an inode counts.
 */
#include "transport/who.h"

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

int
epd_who_unix(int fd, uid_t *out)
{
	struct ucred cred;
	socklen_t n = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return -errno;
	*out = cred.uid;
	return 0;
}

/* As the table prints it: words in the machine's order, the port in people's. */
static void
print(char out[48], const struct sockaddr_storage *at)
{
	uint32_t word[4];

	if (at->ss_family == AF_INET) {
		const struct sockaddr_in *a = (const void *)at;

		snprintf(out, 48, "%08" PRIX32 ":%04X", a->sin_addr.s_addr,
		    ntohs(a->sin_port));
	} else {
		const struct sockaddr_in6 *a = (const void *)at;

		memcpy(word, &a->sin6_addr, sizeof word);
		snprintf(out, 48, "%08" PRIX32 "%08" PRIX32 "%08" PRIX32 "%08"
		    PRIX32 ":%04X", word[0], word[1], word[2], word[3],
		    ntohs(a->sin6_port));
	}
}

int
epd_who_loopback(int fd, uid_t *out)
{
	struct sockaddr_storage here, there;
	socklen_t n = sizeof here, m = sizeof there;
	char ours[48], theirs[48], a[48], b[48], line[512];
	int rc = -ENOENT;
	FILE *f;

	if (getsockname(fd, (void *)&here, &n) ||
	    getpeername(fd, (void *)&there, &m))
		return -errno;
	print(ours, &here);
	print(theirs, &there);
	f = fopen(here.ss_family == AF_INET ? "/proc/thread-self/net/tcp" :
	    "/proc/thread-self/net/tcp6", "re");
	if (!f)
		return -errno;
	while (rc && fgets(line, sizeof line, f)) {
		unsigned state, uid;
		unsigned long inode;

		if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %u %*s %lu",
		    a, b, &state, &uid, &inode) == 5 && !strcmp(a, theirs) &&
		    !strcmp(b, ours) && state == 1 && inode) {
			*out = uid;
			rc = 0;
		}
	}
	fclose(f);
	return rc;
}
