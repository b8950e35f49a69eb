"""mooncake.py - Mooncake's transfer engine over TCP on loopback, driven.

It listens on all addresses, so it runs in a network namespace of its own, where
there is loopback alone; that needs root.
"""
import glob
import os
import re
import signal
import subprocess
import time


class Engine:
    """A target that serves memory, and initiators that read it or write there."""

    def __init__(self, peers, others, tmp):
        found = glob.glob(os.path.join(
            peers, "mooncake/lib/python3*/site-packages/mooncake",
            "transfer_engine_bench"))
        if not found:
            raise FileNotFoundError("transfer_engine_bench")
        self.binary = found[0]
        self.name = f"epd-bench-{os.getpid()}"
        self.others = others
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        self.log = open(os.path.join(tmp, "mooncake.log"), "w+",
                        encoding="utf-8")
        try:
            subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"],
                           check=True)
            self.target = subprocess.Popen(
                self.argv("--mode=target"), stdout=self.log,
                stderr=subprocess.STDOUT, start_new_session=True)
            others.servers.add(self.target.pid)
            self.segment = self.listening()
        except BaseException:
            self.close()
            raise

    def argv(self, *more):
        return ["ip", "netns", "exec", self.name, self.binary, "--protocol=tcp",
                "--metadata_server=P2PHANDSHAKE",
                "--local_server_name=127.0.0.1", f"--buffer_size={256 << 20}",
                *more]

    def listening(self):
        for _ in range(400):
            with open(self.log.name, encoding="utf-8") as f:
                m = re.search(r"listening on ([0-9.]+:\d+)", f.read())
            if m:
                time.sleep(0.5)
                return m[1]
            time.sleep(0.05)
        raise RuntimeError("mooncake's target does not listen")

    def rate(self, op, block, batch, seconds=1):
        """GB a second of one thread."""
        out = subprocess.run(
            self.argv("--mode=initiator", f"--segment_id={self.segment}",
                      f"--operation={op}", f"--block_size={block}",
                      f"--batch_size={batch}", "--threads=1",
                      f"--duration={seconds}"), capture_output=True, text=True,
            timeout=seconds + 60, check=False)
        m = re.search(r"throughput ([0-9.]+) GB/s", out.stderr + out.stdout)
        if not m:
            raise RuntimeError((out.stderr + out.stdout)[-300:])
        return float(m[1])

    def close(self):
        target = getattr(self, "target", None)
        if target and target.poll() is None:
            os.killpg(target.pid, signal.SIGKILL)
            target.wait()
            self.others.servers.discard(target.pid)
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        self.log.close()
