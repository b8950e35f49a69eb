"""mooncake.py - Mooncake's transfer engine over TCP on loopback, and its store.

They listen on all addresses, so they run in a network namespace of their own,
where there is loopback alone; that needs root.
"""
import glob
import json
import os
import re
import signal
import subprocess
import time


class Network:
    """A namespace with processes in it, which go with it."""

    def __init__(self, others, tmp):
        self.name = f"epd-bench-{os.getpid()}"
        self.others, self.pids = others, []
        subprocess.run(["ip", "netns", "add", self.name], check=True)
        self.log = open(os.path.join(tmp, "mooncake.log"), "w+",
                        encoding="utf-8")
        try:
            subprocess.run(["ip", "-n", self.name, "link", "set", "lo", "up"],
                           check=True)
        except BaseException:
            self.close()
            raise

    def argv(self, *argv):
        return ["ip", "netns", "exec", self.name, *argv]

    def begin(self, *argv):
        p = subprocess.Popen(self.argv(*argv), stdout=self.log,
                             stderr=subprocess.STDOUT, start_new_session=True)
        self.others.servers.add(p.pid)
        self.pids.append(p)

    def close(self):
        for p in self.pids:
            if p.poll() is None:
                os.killpg(p.pid, signal.SIGKILL)
                p.wait()
            self.others.servers.discard(p.pid)
        subprocess.run(["ip", "netns", "del", self.name], check=False)
        self.log.close()


class Store:
    """A master and a REST service that holds `mb` of memory."""

    def __init__(self, peers, others, tmp, mb=2048):
        self.bin = os.path.join(peers, "mooncake/bin")
        if not os.path.exists(os.path.join(self.bin, "mc_store_rest_server")):
            raise FileNotFoundError("mc_store_rest_server")
        config = os.path.join(tmp, "mooncake.json")
        with open(config, "w", encoding="utf-8") as f:
            json.dump(dict(
                local_hostname="127.0.0.1", metadata_server="P2PHANDSHAKE",
                global_segment_size=f"{mb}mb", local_buffer_size="128mb",
                protocol="tcp", device_name="",
                master_server_address="127.0.0.1:50051"), f)
        self.net = Network(others, tmp)
        try:
            self.net.begin(
                os.path.join(self.bin, "mooncake_master"),
                "--rpc_address=127.0.0.1", "--rpc_port=50051",
                "--rpc_thread_num=2", "--metrics_host=127.0.0.1",
                "--metrics_port=9003", "--enable_metric_reporting=false",
                "--default_kv_lease_ttl=500", "--logtostderr")
            self.net.begin(os.path.join(self.bin, "mc_store_rest_server"),
                           "--config", config, "--port", "8081")
            self.run("curl", "-s", "--retry", "60", "--retry-connrefused",
                     "--retry-delay", "1", "http://127.0.0.1:8081/api/exist/x")
        except BaseException:
            self.net.close()
            raise

    def run(self, *argv):
        p = subprocess.run(self.net.argv(*argv), capture_output=True,
                           text=True, timeout=120, check=False)
        if p.returncode:
            raise RuntimeError((p.stderr + p.stdout)[-300:])
        return p.stdout

    def client(self, how, count, size, at_once):
        out = self.run(os.path.join(self.bin, "python3"), os.path.join(
            os.path.dirname(__file__), "mooncake_client.py"), how, str(count),
            str(size), str(at_once))
        return json.loads(out.splitlines()[-1])

    def close(self):
        self.net.close()


class Engine:
    """A target that serves memory, and initiators that read it or write there."""

    def __init__(self, peers, others, tmp):
        found = glob.glob(os.path.join(
            peers, "mooncake/lib/python3*/site-packages/mooncake",
            "transfer_engine_bench"))
        if not found:
            raise FileNotFoundError("transfer_engine_bench")
        self.binary = found[0]
        self.net = Network(others, tmp)
        self.log = self.net.log
        try:
            self.net.begin(*self.args("--mode=target"))
            self.segment = self.listening()
        except BaseException:
            self.close()
            raise

    def args(self, *more):
        return [self.binary, "--protocol=tcp",
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
            self.net.argv(*self.args(
                "--mode=initiator", f"--segment_id={self.segment}",
                f"--operation={op}", f"--block_size={block}",
                f"--batch_size={batch}", "--threads=1",
                f"--duration={seconds}")), capture_output=True, text=True,
            timeout=seconds + 60, check=False)
        m = re.search(r"throughput ([0-9.]+) GB/s", out.stderr + out.stdout)
        if not m:
            raise RuntimeError((out.stderr + out.stdout)[-300:])
        return float(m[1])

    def close(self):
        self.net.close()
