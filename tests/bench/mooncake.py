"""mooncake.py - pages to a Mooncake Store and back, against its own clients."""
import json
import subprocess

from harness import turns
from peers.mooncake import Store

SIZE, COUNT = 1 << 20, 64
URLS = "http://127.0.0.1:8081", "http://127.0.0.1:9003"


def figures(b):
    """Both ways, by REST as many at once as a store has by default, and singly."""
    try:
        peer = Store(b.peers, b.others, b.tmp)
    except (OSError, subprocess.SubprocessError, RuntimeError) as e:
        b.skip("mooncake", f"no mooncake ({e}); make bench-peers installs it, "
               "and it needs root")
        return

    def own(at_once):
        return json.loads(peer.run(b.tool("tier_mooncake"), *URLS, str(COUNT),
                                   str(SIZE), str(at_once)))
    try:
        got = turns(b.rounds, own=lambda: own(4), one=lambda: own(1),
                    rest=lambda: peer.client("rest", COUNT, SIZE, 4),
                    rest_one=lambda: peer.client("rest", COUNT, SIZE, 1),
                    native=lambda: peer.client("native", COUNT, SIZE, 1))
    finally:
        peer.close()
    for op in ("put", "get"):
        side = {k: [x[op] for x in v] for k, v in got.items()}
        for name, ours, theirs, what, bar in (
                ("", "own", "rest", "its REST client, 4 at once", ">= 0.8"),
                ("_one", "one", "rest_one", "its REST client", ">= 0.8"),
                ("_native", "own", "native", "its native client", None)):
            b.against(f"mooncake_{op}{name}", "GB/s", side[ours], what,
                      side[theirs], bar, rate=True)


FIGURES = dict(mooncake=figures)
