"""mount.py - the figures of the file system."""
import contextlib
import os
import shutil
import tempfile

from harness import median, turns

LARGE = (1024, 1 << 20)      # pages of a GiB
SMALL = (10000, 24576)       # pages to list


@contextlib.contextmanager
def mounted(b, store):
    at = tempfile.mkdtemp(dir=b.tmp)
    b.run(b.bin("epd-mount"), "--store", store, "--read-only", at)
    try:
        yield os.path.join(at, "pages")
    finally:
        b.run(b.bin("epd-mount"), "-u", at)


def filled(b, name, shape):
    """A store of such pages, and the same as plain files on tmpfs."""
    store = os.path.join(b.tmp, name)
    plain = os.path.join("/dev/shm", f"epd-bench.{os.getpid()}.{name}")
    b.run(b.tool("mount"), "fill", store, *map(str, shape))
    with mounted(b, store) as pages:
        b.run(b.tool("mount"), "copy", pages, plain)
    return store, plain


def fs_read(b):
    if not os.path.exists("/dev/fuse"):
        b.skip("fs_read", "no /dev/fuse")
        return
    store, plain = filled(b, "large", LARGE)

    def read(at, rounds=1, how="read"):
        return b.works(b.tool("mount"), how, at, str(rounds))[0]["read"]

    def cold():
        with mounted(b, store) as pages:
            return read(pages)[0]

    def warm(how="read"):
        with mounted(b, store) as pages:
            return median(read(pages, 8, how)[3:])

    def fresh():
        """The same bytes read and put into memory that nobody had yet."""
        try:
            return b.wall(b.tool("mount"), "copy", plain, plain + ".fresh")
        finally:
            shutil.rmtree(plain + ".fresh")

    try:
        got = turns(b.rounds, tmpfs=lambda: median(read(plain, 3)), warm=warm,
                    held=lambda: warm("held"), cold=cold, fresh=fresh)
    finally:
        shutil.rmtree(plain)
    gib = LARGE[0] * LARGE[1] / 2**30
    rate = {k: [gib / t for t in v] for k, v in got.items()}
    for figure, name, peer, bar in (
            ("warm", "warm", "tmpfs", ">= 0.85"),
            ("warm_held_open", "held", "tmpfs", None),
            ("cold", "cold", "tmpfs", ">= 0.4"),
            ("cold_fresh", "cold", "fresh", None)):
        b.against(f"fs_read_{figure}", "GiB/s", rate[name],
                  "a copy in tmpfs" if peer == "fresh" else peer, rate[peer],
                  bar, rate=True)


def fs_ls(b):
    if not os.path.exists("/dev/fuse"):
        b.skip("fs_ls_10k", "no /dev/fuse")
        return
    store, plain = filled(b, "small", SMALL)
    try:
        with mounted(b, store) as pages:
            got = turns(
                2 * b.rounds + 1,
                own=lambda: 1e3 * b.wall("/bin/ls", "-l", pages),
                tmpfs=lambda: 1e3 * b.wall("/bin/ls", "-l", plain))
            b.emit("fs_ls_10k", median(got["own"]), "ms", "tmpfs",
                   median(got["tmpfs"]),
                   median([x / y for x, y in zip(got["tmpfs"], got["own"])]),
                   "<= 15 ms", len(got["own"]))

            def stats(at):
                return b.works(b.tool("mount"), "stat", at, "1")[0]["stats"]

            got = turns(b.rounds, own=lambda: stats(pages),
                        tmpfs=lambda: stats(plain))
            b.against("fs_stat", "1/s", got["own"], "tmpfs", got["tmpfs"],
                      ">= 0.5", rate=True)
    finally:
        shutil.rmtree(plain)


FIGURES = dict(fs_read=fs_read, fs_ls_10k=fs_ls)
