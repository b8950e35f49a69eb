#!/usr/bin/env python3
"""Makes cases.jsonl: message lists drawn by a fixed seed, rendered by Jinja2 from the template texts themselves.
usage: make.py > cases.jsonl (needs jinja2; templates.py of tests/golden)"""
import json, os, random, sys
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../golden"))
import templates

env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
read = lambda d: open(os.path.join(HERE, d, "chat_template.jinja"), encoding="utf-8").read()
KINDS = {"qwen2_vl": templates.QWEN2_VL, "qwen3_vl": templates.QWEN3_VL, "qwen3_bare": read("../../../examples/tiny-vlm/model"), "chatml": read("chatml")}
WORDS = ["Hello", " what", "\n", "é", "e\u0301", "你好", "<|im_end|>", "<tool_call>", "😀", "  x ", "\n\nb", "<|image_pad|>", "1", "", "'s", "\u0301"]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "a \"b\" <c> \\ é\n", "parameters": {"type": "object", "properties": {"n": {"type": "integer", "default": -1}}, "required": []}}},
         {"name": "bare", "n": [1, 2.5, None, True, {}], "e": []}]
r = random.Random(7)
text = lambda: "".join(r.choice(WORDS) for _ in range(r.randrange(4)))

def content(images):
    if r.random() < .5: return text()
    part = lambda: r.choice([{"type": "image"}, {"type": "image", "image": "a.png"}, {"image": "b.png", "type": "image"}, {"type": "image_url", "image_url": {"url": "c.png"}}]) if images and r.random() < .4 else {"type": "text", "text": text()}
    return [part() for _ in range(r.randrange(4))]

def call():
    f = {"name": r.choice(["look", "bare"]), "arguments": r.choice([{}, {"n": 1, "s": "é\"<"}, '{"raw":1}', [1], {"x": {"y": [None, False, 0.25]}}])}
    return {"type": "function", "function": f} if r.random() < .5 else f

def chat(kind):
    tools = kind.startswith("qwen3"); any_images = kind != "qwen3_vl"
    ms = [{"role": "system", "content": content(any_images)}] if r.random() < .5 else []
    for _ in range(r.randrange(1, 6)):
        x = r.random()
        if x < .35: ms.append({"role": "user", "content": content(True)})
        elif x < .65:
            m = {"role": "assistant", "content": content(any_images)}
            if r.random() < .5: m["tool_calls"] = [call() for _ in range(r.randrange(3))]
            ms.append(m)
        elif x < .9: ms += [{"role": "tool", "content": content(True)} for _ in range(r.randrange(1, 4))]
        else: ms.append({"role": "system", "content": content(False)})
    return ms, r.choice([None, [], TOOLS, TOOLS[:1]]) if tools else None

for kind, tpl in KINDS.items():
    t = env.from_string(tpl)
    for _ in range(60):
        ms, tools = chat(kind); gen = r.random() < .7; vid = kind != "chatml" and r.random() < .4
        out = t.render(messages=ms, tools=tools, add_generation_prompt=gen, add_vision_id=vid)
        print(json.dumps(dict(family=kind, messages=ms, tools=tools, add_generation_prompt=gen, add_vision_id=vid, rendered=out)))
