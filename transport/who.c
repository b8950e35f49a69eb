/*
 * who.c - SO_PEERCRED; of TCP the kernel's sock_diag, or where there is none its table
 * in /proc/net, all of which is read, milliseconds each time.
 *
 * The other end has its own address first.  A socket that nobody has any more is said
 * to be root's, so only an established one with an inode counts.
 */
#include "transport/who.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ESTABLISHED = 1 };

int
epd_who_unix(int fd, uid_t *out, pid_t *pid)
{
	struct ucred cred;
	socklen_t n = sizeof cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &n))
		return -errno;
	*out = cred.uid;
	*pid = cred.pid;
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

static int
look_in_table(const struct sockaddr_storage *here,
    const struct sockaddr_storage *there, uid_t *out)
{
	char ours[48], theirs[48], a[48], b[48], line[512];
	int rc = -ENOENT;
	FILE *f;

	print(ours, here);
	print(theirs, there);
	f = fopen(here->ss_family == AF_INET ? "/proc/thread-self/net/tcp" :
	    "/proc/thread-self/net/tcp6", "re");
	if (!f)
		return -errno;
	while (rc && fgets(line, sizeof line, f)) {
		unsigned state, uid;
		unsigned long inode;

		if (sscanf(line, " %*d: %47s %47s %x %*s %*s %*s %u %*s %lu",
		    a, b, &state, &uid, &inode) == 5 && !strcmp(a, theirs) &&
		    !strcmp(b, ours) && state == ESTABLISHED && inode) {
			*out = uid;
			rc = 0;
		}
	}
	fclose(f);
	return rc;
}

/* Address and port, both as on the wire. */
static void
put_address(__be32 to[4], __be16 *port, const struct sockaddr_storage *at)
{
	if (at->ss_family == AF_INET) {
		const struct sockaddr_in *a = (const void *)at;

		memcpy(to, &a->sin_addr, sizeof a->sin_addr);
		*port = a->sin_port;
	} else {
		const struct sockaddr_in6 *a = (const void *)at;

		memcpy(to, &a->sin6_addr, sizeof a->sin6_addr);
		*port = a->sin6_port;
	}
}

/* -ENOENT: it is not there; anything else: the kernel cannot be asked. */
static int
ask(int fd, const struct sockaddr_storage *here,
    const struct sockaddr_storage *there, uid_t *out)
{
	struct {
		struct nlmsghdr h;
		struct inet_diag_req_v2 r;
	} q = { .h = { .nlmsg_len = sizeof q, .nlmsg_type = SOCK_DIAG_BY_FAMILY,
	    .nlmsg_flags = NLM_F_REQUEST }, .r = {
	    .sdiag_family = (uint8_t)here->ss_family,
	    .sdiag_protocol = IPPROTO_TCP, .idiag_states = UINT32_MAX } };
	union {
		struct nlmsghdr h;
		char room[8192];
	} a;
	const struct inet_diag_msg *m = NLMSG_DATA(&a.h);
	const struct nlmsgerr *e = NLMSG_DATA(&a.h);
	ssize_t n;

	put_address(q.r.id.idiag_src, &q.r.id.idiag_sport, there);
	put_address(q.r.id.idiag_dst, &q.r.id.idiag_dport, here);
	q.r.id.idiag_cookie[0] = q.r.id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
	if (send(fd, &q, sizeof q, 0) != sizeof q)
		return -EIO;
	/* The kernel has answered by the time that it was asked. */
	n = recv(fd, &a, sizeof a, MSG_DONTWAIT);
	if (n < (ssize_t)NLMSG_LENGTH(sizeof *e) || a.h.nlmsg_len > (size_t)n)
		return -EIO;
	if (a.h.nlmsg_type == NLMSG_ERROR)
		return e->error == -ENOENT ? -ENOENT : -EIO;
	if (a.h.nlmsg_type != SOCK_DIAG_BY_FAMILY ||
	    a.h.nlmsg_len < NLMSG_LENGTH(sizeof *m))
		return -EIO;
	/* Where there is none it finds who listens there. */
	if (m->idiag_state != ESTABLISHED || !m->idiag_inode ||
	    m->id.idiag_sport != q.r.id.idiag_sport ||
	    m->id.idiag_dport != q.r.id.idiag_dport)
		return -ENOENT;
	*out = m->idiag_uid;
	return 0;
}

int
epd_who_loopback(int fd, uid_t *out)
{
	struct sockaddr_storage here, there;
	socklen_t n = sizeof here, m = sizeof there;
	int diag, rc = -EIO;

	if (getsockname(fd, (void *)&here, &n) ||
	    getpeername(fd, (void *)&there, &m))
		return -errno;
	diag = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (diag >= 0) {
		rc = ask(diag, &here, &there, out);
		close(diag);
	}
	return !rc || rc == -ENOENT ? rc : look_in_table(&here, &there, out);
}
