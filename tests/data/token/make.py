#!/usr/bin/env python3
"""Makes drawn.jsonl: strings drawn by a fixed seed, dense in what normal forms and the split pattern turn on, with the ids the
tokenizers library (0.23.3) gives them.  usage: make.py tokenizer.json > drawn.jsonl (the published Qwen3 file, unpacked)"""
import json, random, sys
import unicodedata2 as U
from tokenizers import Tokenizer

js = json.load(open(sys.argv[1], encoding="utf-8"))
full, plain = Tokenizer.from_str(json.dumps(js)), Tokenizer.from_str(json.dumps(dict(js, added_tokens=[])))
canonical = lambda c: U.decomposition(chr(c)) and not U.decomposition(chr(c)).startswith("<")
marks = [c for c in range(0x300, 0x1f000) if U.combining(chr(c))]
made = [c for c in range(0xc0, 0x30000) if canonical(c) and not 0xac00 <= c < 0xd7a4]
parts = sorted({int(x, 16) for c in made for x in U.decomposition(chr(c)).split()})
forms = [marks, made, parts, parts, [0x61, 0x65, 0x20], range(0x1100, 0x1200), range(0xac00, 0xac80), [0x11a7, 0x1175, 0x11c2, 0x11c3]]
pools = ["abcdefghij ABC", "0123456789.,- ", " \n\t\r\u00a0\u3000\u0085\u180e\u2028", "'sStTdDmM lLvVeErR\u017f", "àéîõü ñç", "你好世界，。", "😀👍🏽‍❤️", "<|>im_endstart ", "{}[]();=+-*/\n ", "אבגד هو ", "हिन्दी ",
         "\U0001d2c0\U0001426f\U00031350\u1c89\ua7cb\U00010d40>m "]
special = [a["content"] for a in js["added_tokens"]]
r = random.Random(11)

def text():
    if r.random() < .4: return "".join(chr(r.choice(r.choice(forms))) for _ in range(r.randrange(2, 10)))
    out = ""
    for _ in range(r.randrange(1, 5)):
        pool = r.choice(pools)
        out += r.choice(special) if r.random() < .15 else "".join(r.choice(pool) for _ in range(r.randrange(1, 12)))
    return out

for _ in range(500):
    s = text(); ids = full.encode(s, add_special_tokens=False).ids; p = plain.encode(s, add_special_tokens=False).ids
    print(json.dumps(dict(text=s, ids=ids, **({"ids_plain": p} if p != ids else {}))))
