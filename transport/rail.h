/*
 * rail.h - one-sided moves over RDMA: memory of a host that a guest reads and
 * writes while the host's processor sleeps.  An inner part of transport/; what the
 * two have to tell each other first goes over the session they have already.
 *
 * The host opens a door and tells the guest of it: address and token.  Who comes
 * through it with the token, once and in time, has a queue pair with a protection
 * domain of its own; all else is turned away.  Then the host exposes regions, tells
 * their keys, and covers them as soon as they are done with: a key is good for one
 * region, one way, this one queue pair and that long.  Keys are never shown.
 *
 * A rail is one thread's.  Deadlines are ns of the boot clock.  A rail that failed
 * once only fails: EPD_EPEER.  No call but those with a deadline waits, and those end
 * with -ECANCELED when they are called off (base/stop.h), the rail with them.
 */
#ifndef TRANSPORT_RAIL_H
#define TRANSPORT_RAIL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "base/piece.h"

enum { EPD_RAIL_TOKEN = 32 };

/*
 * What is to be had here; device NULL or "": any.
 * Fails: EPD_EUNSUPPORTED with why: no device, none with a live port.
 */
int epd_rail_probe(struct epd_transport_facts *out, const char *device,
    struct epd_why *why);

/* The host's side of how they meet. */
struct epd_rail;
struct epd_rail_door;

struct epd_rail_invite {
	struct sockaddr_storage at;
	uint8_t token[EPD_RAIL_TOKEN];
};

/*
 * A door at address near, where a device has that, else at some device's address of
 * near's family; its port is taken as it comes.
 * Fails: EPD_EUNSUPPORTED (as probe; no such address), -errno.
 */
int epd_rail_door_open(struct epd_rail_door **out, const struct sockaddr *near,
    const char *device, struct epd_why *why);
void epd_rail_door_tell(const struct epd_rail_door *d, struct epd_rail_invite *out);
/*
 * Let in who knocks with the token.  The door is shut behind him, also if he failed on
 * the threshold, and then only fails: EPD_EUSAGE.  tether: the session's socket, whose
 * hang-up ends this and every later wait with EPD_EPEER; -1: none.
 * Fails: EPD_ETIMEOUT (nobody came by then: the door stays), EPD_EPEER, -errno.
 */
int epd_rail_door_wait(struct epd_rail_door *d, struct epd_rail **out, int tether,
    uint64_t deadline_ns, struct epd_why *why);
void epd_rail_door_close(struct epd_rail_door *d);

/*
 * The guest's: knock asks to be let in and does not wait for it, so that the host
 * can be told to look; joined does.
 * Fails: EPD_EUNSUPPORTED, EPD_EAUTH (turned away), EPD_EPEER, EPD_ETIMEOUT, -errno.
 */
int epd_rail_knock(struct epd_rail **out, const struct epd_rail_invite *to,
    const char *device, int tether, uint64_t deadline_ns, struct epd_why *why);
int epd_rail_joined(struct epd_rail *r, uint64_t deadline_ns, struct epd_why *why);

/*
 * Nothing of what was submitted touches memory here afterwards, and no key of what
 * was exposed is good.
 */
void epd_rail_close(struct epd_rail *r);

/* Nonzero: it only fails.  Looks at what the device has told; does not wait. */
int epd_rail_is_lost(struct epd_rail *r);

/* A region as its guest needs it, to be told over the session and nowhere else. */
struct epd_rail_key {
	uint64_t at, bytes;
	uint32_t key;
};
struct epd_rail_region;

/*
 * Expose n bytes at p, to be read or (writable) to be written.  They stay until it is
 * covered.  Memory that this kernel cannot pin as it is, such as a file's that is
 * mapped to be read, is copied, 256 MiB at most at a time.
 * Fails: -EFAULT, -ENOMEM (and the limit of locked memory), EPD_ECREDIT (the copies),
 *        EPD_EPEER.
 */
int epd_rail_expose(struct epd_rail *r, void *p, size_t n, int writable,
    struct epd_rail_region **out, struct epd_rail_key *key, struct epd_why *why);
void epd_rail_cover(struct epd_rail *r, struct epd_rail_region *g);

/* The guest's memory, registered once.  Fails: -errno; moves do without. */
int epd_rail_lend(struct epd_rail *r, void *p, size_t n);
/* A move that is still under way on it breaks the rail first. */
void epd_rail_unlend(struct epd_rail *r, void *p);

/*
 * Begin a move between piece->local and the region of key, piece->offset bytes into
 * it; piece->window is not looked at.
 * Fails: -EAGAIN (as many as may be), EPD_EUSAGE (beyond the region), EPD_EPEER,
 *        -EFAULT, -ENOMEM.
 */
int epd_rail_submit(struct epd_rail *r, const struct epd_piece *piece,
    const struct epd_rail_key *key, struct epd_why *why);
/*
 * As struct epd_transport's wait; a deadline of 0 only looks.  Moves that a broken
 * rail leaves are told done with EPD_EPEER, or with why it broke.
 * Fails: EPD_ETIMEOUT, EPD_EPEER, EPD_EUSAGE (nothing is under way).
 */
int epd_rail_wait(struct epd_rail *r, struct epd_piece_done *done, int max,
    uint64_t deadline_ns, struct epd_why *why);

#endif
