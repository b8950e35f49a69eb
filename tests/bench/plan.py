"""plan.py - the figures of planning."""
import os
import sys

from harness import median, turns

PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peers",
                    "plan_peer.py")


def plan_ns(b):
    """One decision, the five scenarios in turn."""
    def decided(*argv):
        d = b.works(*argv)[0]
        if d["ok"] != 5:
            raise RuntimeError(f"{argv[0]}: {d['ok']} of 5 scenarios")
        return d["plan_ns"]
    got = turns(2 * b.rounds + 1,
                own=lambda: decided(b.tool("plan"), "1000000"),
                peer=lambda: decided(sys.executable, PEER, "100000"))
    b.against("plan_ns", "ns", got["own"], "Python planner", got["peer"],
              ">= 8")
    b.emit("plan_ns_itself", median(got["own"]), "ns", None, None, None,
           "<= 100 ns", len(got["own"]))


FIGURES = dict(plan_ns=plan_ns)
