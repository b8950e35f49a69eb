/* key.c - reading a key's file. */
#include "base/key.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static int
take(struct epd_buf *out, int fd, const char *path, struct epd_why *why)
{
	struct epd_buf b = {0};
	struct stat st;
	int rc;

	if (fstat(fd, &st))
		return epd_why(why, -errno, "%s: %s", path, strerror(errno));
	if (st.st_mode & 077)
		return epd_why(why, EPD_EUSAGE, "%s: others may read this key: "
		    "chmod 600", path);
	rc = epd_file_slurp(fd, EPD_KEY_MOST + 16, &b);
	while (rc >= 0 && b.n && memchr(" \t\r\n", b.p[b.n - 1], 4))
		b.n--;
	if (rc < 0 && rc != EPD_ETOOBIG)
		epd_why(why, rc, "%s: %s", path, epd_strerror(rc));
	else if (rc == EPD_ETOOBIG || b.n < EPD_KEY_LEAST || b.n > EPD_KEY_MOST)
		rc = epd_why(why, EPD_EUSAGE, "%s: a key is %d to %d bytes",
		    path, EPD_KEY_LEAST, EPD_KEY_MOST);
	if (rc < 0) {
		if (b.p)
			explicit_bzero(b.p, b.cap);
		epd_buf_free(&b);
		return rc;
	}
	*out = b;
	return 0;
}

int
epd_key_read(struct epd_buf *out, const char *path, struct epd_why *why)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0)
		return epd_why(why, -errno, "%s: %s", path, strerror(errno));
	rc = take(out, fd, path, why);
	close(fd);
	return rc;
}
