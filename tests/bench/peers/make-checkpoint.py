#!/usr/bin/env python3
"""make-checkpoint.py - a random checkpoint in Hugging Face layout, for timing.

    make-checkpoint.py [--size mid|tiny] --tokenizer tokenizer.json.zst DIR

Qwen2-VL in shape, names and configuration, so that every engine takes its
usual path; bf16.  The values are noise, so what a model says is noise too:
lengths have to be forced.  mid has 0.56 B parameters.  Needs numpy and zstd.
"""
import argparse
import json
import os
import struct
import subprocess
from math import prod

import numpy as np

VOCAB = 151936
SIZES = {  # hidden, inner, layers, heads, kv heads, head dim; vision: depth, width, heads
    "tiny": (256, 704, 4, 4, 2, 64, 2, 160, 2),
    "mid": (896, 4864, 24, 14, 2, 64, 12, 640, 8),
}
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}"
    "{% if c['type'] in ['image','image_url'] or 'image' in c %}"
    "<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in c %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def tensors(size):
    hidden, inner, layers, heads, kv, dim, depth, width, _ = SIZES[size]
    yield "model.embed_tokens.weight", (VOCAB, hidden)
    for i in range(layers):
        p = f"model.layers.{i}."
        yield p + "input_layernorm.weight", (hidden,)
        yield p + "post_attention_layernorm.weight", (hidden,)
        for n, rows in (("q", heads * dim), ("k", kv * dim), ("v", kv * dim)):
            yield f"{p}self_attn.{n}_proj.weight", (rows, hidden)
            yield f"{p}self_attn.{n}_proj.bias", (rows,)
        yield p + "self_attn.o_proj.weight", (hidden, heads * dim)
        yield p + "mlp.gate_proj.weight", (inner, hidden)
        yield p + "mlp.up_proj.weight", (inner, hidden)
        yield p + "mlp.down_proj.weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)
    yield "visual.patch_embed.proj.weight", (width, 3, 2, 14, 14)
    for i in range(depth):
        p = f"visual.blocks.{i}."
        for n in ("norm1", "norm2"):
            yield f"{p}{n}.weight", (width,)
            yield f"{p}{n}.bias", (width,)
        for n, rows, cols in (("attn.qkv", 3 * width, width),
                              ("attn.proj", width, width),
                              ("mlp.fc1", 4 * width, width),
                              ("mlp.fc2", width, 4 * width)):
            yield f"{p}{n}.weight", (rows, cols)
            yield f"{p}{n}.bias", (rows,)
    yield "visual.merger.ln_q.weight", (width,)
    yield "visual.merger.ln_q.bias", (width,)
    for n, rows in (("0", 4 * width), ("2", hidden)):
        yield f"visual.merger.mlp.{n}.weight", (rows, 4 * width)
        yield f"visual.merger.mlp.{n}.bias", (rows,)


def config(size):
    hidden, inner, layers, heads, kv, dim, depth, width, vheads = SIZES[size]
    t = dim // 8
    h = (dim // 2 - t) // 2
    return dict(
        architectures=["Qwen2VLForConditionalGeneration"],
        model_type="qwen2_vl", torch_dtype="bfloat16",
        tie_word_embeddings=True, rope_theta=1e6,
        rope_scaling=dict(type="mrope", mrope_section=[t, h, dim // 2 - t - h]),
        use_sliding_window=False, sliding_window=32768,
        max_window_layers=layers, hidden_size=hidden, intermediate_size=inner,
        num_hidden_layers=layers, num_attention_heads=heads,
        num_key_value_heads=kv, vocab_size=VOCAB,
        max_position_embeddings=32768, rms_norm_eps=1e-6, hidden_act="silu",
        attention_dropout=0.0, initializer_range=0.02, use_cache=True,
        bos_token_id=151643, eos_token_id=151645, vision_token_id=151654,
        vision_start_token_id=151652, vision_end_token_id=151653,
        image_token_id=151655, video_token_id=151656,
        vision_config=dict(
            model_type="qwen2_vl", depth=depth, embed_dim=width,
            hidden_size=hidden, num_heads=vheads, mlp_ratio=4, in_channels=3,
            in_chans=3, patch_size=14, spatial_patch_size=14,
            spatial_merge_size=2, temporal_patch_size=2,
            hidden_act="quick_gelu"))


def bf16(x):
    u = x.view(np.uint32)
    return ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype("<u2")


def write_weights(path, size):
    header, off = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors(size):
        n = prod(shape) * 2
        header[name] = dict(dtype="BF16", shape=list(shape),
                            data_offsets=[off, off + n])
        off += n
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    rng = np.random.Generator(np.random.SFC64(1))
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors(size):
            left = prod(shape)
            if "norm" in name and name.endswith("weight") or \
                    name.endswith("ln_q.weight"):
                f.write(np.full(left, 0x3F80, "<u2").tobytes())
                continue
            while left:
                n = min(left, 1 << 22)
                x = rng.standard_normal(n, dtype=np.float32)
                f.write(bf16(x * np.float32(0.02)).tobytes())
                left -= n


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--size", choices=list(SIZES), default="mid")
    ap.add_argument("--tokenizer", required=True)
    ap.add_argument("dir")
    a = ap.parse_args()
    os.makedirs(a.dir, exist_ok=True)

    def put(name, what):
        with open(os.path.join(a.dir, name), "w", encoding="utf-8") as f:
            json.dump(what, f, indent=1)

    text = subprocess.run(["zstd", "-dcq", a.tokenizer], check=True,
                          stdout=subprocess.PIPE).stdout
    with open(os.path.join(a.dir, "tokenizer.json"), "wb") as f:
        f.write(text)
    tokens = json.loads(text)
    put("vocab.json", tokens["model"]["vocab"])
    with open(os.path.join(a.dir, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n")
        for m in tokens["model"]["merges"]:
            f.write((m if isinstance(m, str) else " ".join(m)) + "\n")
    put("tokenizer_config.json", dict(
        tokenizer_class="Qwen2Tokenizer", chat_template=TEMPLATE,
        eos_token="<|im_end|>", pad_token="<|endoftext|>", bos_token=None,
        unk_token=None, add_prefix_space=False, model_max_length=131072,
        added_tokens_decoder={
            str(t.pop("id")): t for t in tokens["added_tokens"]}))
    put("chat_template.json", dict(chat_template=TEMPLATE))
    put("config.json", config(a.size))
    put("generation_config.json", dict(
        bos_token_id=151643, eos_token_id=[151645, 151643],
        pad_token_id=151643, do_sample=False))
    put("preprocessor_config.json", dict(
        patch_size=14, temporal_patch_size=2, merge_size=2, do_resize=True,
        do_rescale=True, do_normalize=True, do_convert_rgb=True,
        image_mean=[0.48145466, 0.4578275, 0.40821073],
        image_std=[0.26862954, 0.26130258, 0.27577711],
        image_processor_type="Qwen2VLImageProcessor",
        processor_class="Qwen2VLProcessor", min_pixels=3136,
        max_pixels=12845056,
        size=dict(shortest_edge=3136, longest_edge=12845056)))
    # Last: whoever looks for this file finds a whole checkpoint.
    tmp = os.path.join(a.dir, ".model.safetensors")
    write_weights(tmp, a.size)
    os.rename(tmp, os.path.join(a.dir, "model.safetensors"))


if __name__ == "__main__":
    main()
