"""tier.py - pages to the tier on a disk and back, against fio on the same disk."""
import json
import os
import shutil

from harness import turns

MIB = 1024
FIO = ["--direct=1", "--bs=1M", "--ioengine=io_uring", "--iodepth=4",
       "--end_fsync=1", f"--size={MIB}m", "--output-format=json"]


def on_disk(b, figure):
    """The folder for it, or None if that would be none on a disk."""
    kind = b.run("stat", "-f", "-c", "%T", b.tmp).strip()
    if kind in ("tmpfs", "ramfs"):
        b.skip(figure, f"{b.tmp} is {kind}; set TMPDIR to a folder on a disk")
        return None
    return os.path.join(b.tmp, "disk")


def fio(b, rw):
    """GB/s; a write makes the file anew, as every pack is."""
    name = os.path.join(b.tmp, "fio.dat")
    if rw == "write" and os.path.exists(name):
        os.unlink(name)
    out = b.run("fio", "--name=x", "--filename=" + name, "--rw=" + rw, *FIO)
    return json.loads(out)["jobs"][0][rw]["bw_bytes"] / 1e9


def nvme(b):
    """Two threads, so that one has memory made while the other reads."""
    disk = on_disk(b, "nvme")
    if not disk:
        return
    if not shutil.which("fio"):
        b.skip("nvme", "no fio")
        return
    both = {}

    def own():
        both.update(b.works(b.tool("tier"), "nvme", disk, str(MIB), "2")[0])
        return both["write"]

    got = turns(3 * b.rounds, write=own, fio_write=lambda: fio(b, "write"),
                read=lambda: both["read"], fio_read=lambda: fio(b, "read"))
    for way in ("write", "read"):
        b.against("nvme_" + way, "GB/s", got[way], f"fio {way}",
                  got["fio_" + way], ">= 0.9", rate=True)


def real_pages(b, dtype):
    """A folder of run files that a prefill of the mid model made."""
    store = os.path.join(b.tmp, "pages-" + dtype)
    memory = store + "-memory"
    config = store + ".yaml"
    with open(config, "w", encoding="ascii") as f:
        f.write(f"page:\n  dtype: {dtype}\n  memory_dir: {memory}\n")
    text = os.path.join(b.tmp, "text")
    with open(text, "w", encoding="ascii") as f:
        f.write(" ".join(f"{i * 7919 % 10007} of {i}" for i in range(330)))
    b.run(b.bin("epd-prefill"), "--config", config, "--store", store, "-q",
          "-w", "w1", "-f", text)
    (top,) = os.listdir(memory)
    return os.path.join(memory, top, "w", "w1")


def zstd_gain(b):
    """Bytes on the disk, and the speed of both ways, of pages as they are made."""
    disk = on_disk(b, "zstd_gain")
    if not disk:
        return
    for dtype in ("bf16", "f32"):
        runs = real_pages(b, dtype)
        both = {p: [] for p in ("none", "zstd", "auto")}

        def one(packing):
            d = b.works(b.tool("tier"), "pages", disk, runs, packing)[0]
            both[packing].append(d)
            return 1 / (1 / d["write"] + 1 / d["read"])

        got = turns(3 * b.rounds, none=lambda: one("none"),
                    zstd=lambda: one("zstd"), auto=lambda: one("auto"))
        for packing, bar in (("zstd", None), ("auto", ">= 0.95")):
            d = both[packing][-1]
            b.emit(f"zstd_gain_{dtype}_{packing}", d["disk"] / 1e6, "MB",
                   "raw", both["none"][-1]["disk"] / 1e6,
                   d["disk"] / both["none"][-1]["disk"], None, 1)
            b.against(f"zstd_speed_{dtype}_{packing}", "GB/s", got[packing],
                      "raw", got["none"], bar, rate=True)


def restore_vs_recompute(b):
    """How often the store's choice is the faster way, of the shipped model and of mid."""
    disk = on_disk(b, "restore_vs_recompute")
    if not disk:
        return
    right = cases = 0
    slow = 0.0
    tiny = os.path.join(os.path.dirname(__file__), "..", "..", "examples",
                        "tiny-vlm", "model")
    for name, model, longest in (("tiny", tiny, 512), ("mid", b.mid, 1024)):
        store = os.path.join(b.tmp, "again-" + name)
        for d in b.works(b.tool("again"), store, disk, model, str(longest),
                         str(max(3, b.rounds))):
            faster = d["restore"] <= d["recompute"]
            cases += 1
            right += faster == d["restores"]
            if faster != d["restores"]:
                slow = max(slow, max(d["restore"], d["recompute"]) /
                           min(d["restore"], d["recompute"]))
    b.emit("restore_vs_recompute", 100 * right / cases, "% right", "cases",
           cases, slow or 1, ">= 95 %", cases)


FIGURES = dict(nvme=nvme, zstd_gain=zstd_gain,
               restore_vs_recompute=restore_vs_recompute)
