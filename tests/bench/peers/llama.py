"""llama.py - llama.cpp's programs, driven for one figure each."""
import base64
import concurrent.futures
import http.client
import json
import os
import re
import socket
import subprocess
import time

# Barriers that spin collapse when another job shares the cores.
ENV = dict(os.environ, OMP_WAIT_POLICY="passive")


class Llama:
    def __init__(self, peers):
        self.bin = os.path.join(peers, "bin", "")
        self.models = os.path.join(peers, "models", "")

    def _run(self, *argv):
        p = subprocess.run(argv, env=ENV, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, errors="replace", check=False)
        if p.returncode:
            raise RuntimeError(f"{argv[0]}: {p.stdout[-400:]}")
        return p.stdout

    def bench(self, kind, threads, prefill, decode):
        """Tokens/s: {"pp512": ..., "tg128": ...}; the first pass warms up."""
        out = self._run(
            self.bin + "llama-bench", "-m", f"{self.models}mid-{kind}.gguf",
            "-p", ",".join(map(str, [16] + prefill)), "-n",
            str(decode), "-t", str(threads), "-r", "1", "--no-warmup",
            "-o", "jsonl")
        got = {}
        for line in out.splitlines():
            if line.startswith("{"):
                d = json.loads(line)
                name = f"pp{d['n_prompt']}" if d["n_prompt"] else \
                    f"tg{d['n_gen']}"
                got[name] = d["avg_ts"]
        return got

    def encode(self, kind, threads, image):
        """Seconds of the encoder alone, as mtmd says them."""
        t = str(threads)
        out = self._run(
            self.bin + "llama-mtmd-cli", "-m", self.models + "mid-bf16.gguf",
            "--mmproj", f"{self.models}mmproj-{kind}.gguf", "--image", image,
            "-p", "x", "-n", "1", "-c", "4096", "-t", t, "-tb", t, "--jinja",
            "--temp", "0", "--no-warmup", "-lv", "4")
        ms = re.findall(r"batch encoding done in (\d+) ms", out) or \
            re.findall(r"encoded in (\d+) ms", out)
        if not ms:
            raise RuntimeError("llama-mtmd-cli: " + out[-400:])
        return sum(map(int, ms)) / 1e3

    def completion(self, threads):
        """A whole process that draws one token."""
        return [self.bin + "llama-completion", "-m",
                self.models + "mid-bf16.gguf", "-p", "hello", "-n", "1",
                "-c", "512", "-t", str(threads), "-no-cnv", "--no-warmup",
                "--temp", "0"]


class Server:
    """llama-server on the loopback, until the end of a with."""

    def __init__(self, llama, others, tmp, threads=2, slots=1, context=8192):
        self.llama, self.others, self.tmp = llama, others, tmp
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        m = llama.models
        self.argv = [
            llama.bin + "llama-server", "-m", m + "mid-bf16.gguf", "--mmproj",
            m + "mmproj-f16.gguf", "--host", "127.0.0.1", "--port",
            str(self.port), "-t", str(threads), "-np", str(slots), "-c",
            str(context), "-b", "2048", "-ub", "512", "--slot-save-path", tmp, "--jinja",
            "--slots", "--no-warmup"] + (["-kvu"] if slots > 1 else [])

    def __enter__(self):
        self.log = open(os.path.join(self.tmp, "llama-server.log"), "w",
                        encoding="utf-8")
        self.p = subprocess.Popen(self.argv, env=ENV, stdout=self.log,
                                  stderr=subprocess.STDOUT)
        self.others.servers.add(self.p.pid)
        for _ in range(1200):
            try:
                if self._request("GET", "/health").status == 200:
                    return self
            except OSError:
                pass
            if self.p.poll() is not None:
                break
            time.sleep(0.1)
        self.__exit__()
        raise RuntimeError("llama-server did not come up; see " +
                           self.log.name)

    def __exit__(self, *_):
        self.p.terminate()
        self.p.wait()
        self.others.servers.discard(self.p.pid)
        self.log.close()

    def _request(self, method, path, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request(method, path, body and json.dumps(body),
                  {"Content-Type": "application/json"})
        return c.getresponse()

    def post(self, path, body):
        r = self._request("POST", path, body)
        data = r.read()
        if r.status != 200:
            raise RuntimeError(f"llama-server: {r.status} {data[:200]!r}")
        return json.loads(data)

    def first_token(self, before, image, after):
        """Seconds to the first token of an answer about a picture."""
        with open(image, "rb") as f:
            url = "data:image/png;base64," + base64.b64encode(
                f.read()).decode()
        t = time.perf_counter()
        r = self._request("POST", "/v1/chat/completions", dict(
            messages=[dict(role="user", content=[
                dict(type="text", text=before),
                dict(type="image_url", image_url=dict(url=url)),
                dict(type="text", text=after)])],
            max_tokens=1, temperature=0, ignore_eos=True, stream=True))
        for line in r:
            if line.startswith(b"data: {"):
                d = json.loads(line[6:]).get("choices") or [{}]
                if d[0].get("finish_reason") or \
                        (d[0].get("delta") or {}).get("content"):
                    return time.perf_counter() - t
        raise RuntimeError("llama-server: no token")

    def fanout(self, ids, answers, length, at_once):
        """Seconds of so many answers of a length: one request, or as many."""
        body = dict(prompt=ids, n_predict=length, ignore_eos=True,
                    temperature=0.8, cache_prompt=False)
        t = time.perf_counter()
        if at_once:
            got = self.post("/completion", dict(body, n_cmpl=answers))
            if not isinstance(got, list) or len(got) != answers:
                raise RuntimeError("llama-server: not as many answers")
        else:
            with concurrent.futures.ThreadPoolExecutor(answers) as pool:
                list(pool.map(lambda seed: self.post(
                    "/completion", dict(body, seed=seed)), range(answers)))
        return time.perf_counter() - t

    def slot(self, tokens):
        """Seconds to save a slot of so many tokens and to take it back."""
        ids = [1000 + i * 7919 % 100000 for i in range(tokens)]
        self.post("/completion", dict(prompt=ids, n_predict=1, id_slot=0,
                                      cache_prompt=True, temperature=0))

        def once():
            t = [time.perf_counter()]
            self.post("/slots/0?action=save", dict(filename="slot.bin"))
            t.append(time.perf_counter())
            self.post("/slots/0?action=erase", {})
            t.append(time.perf_counter())
            self.post("/slots/0?action=restore", dict(filename="slot.bin"))
            t.append(time.perf_counter())
            return t[1] - t[0] + t[3] - t[2]
        return once
