"""A tiny random Llama as a GGUF file, by the standard library alone: about 1.5 MB, the same bytes each time.

Its text is readable ASCII: one direction of the residual stream is constant, and every other token is pushed down along
it. Its end token is among those, so that answers run to `max_tokens`.
"""

import random
import struct
from array import array
from pathlib import Path
from typing import Any

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, FEED, CONTEXT = 128, 2, 4, 2, 32, 256, 65536
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
NAMES = "amber birch cedar delta ember fjord grove heron islet jade kelp linden maple north ocean pine quartz river"
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: GGUF's numbers of value types
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32


def write_tiny_model(path: Path) -> Path:
    """Write the model to `path` and return it."""
    named = tensors(vocabulary())
    offset, infos, data = 0, b"", b""
    for name, (shape, values) in named.items():
        infos += _string(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        infos += struct.pack("<IQ", 0, offset)  # 0: 32-bit floats
        body = _padded(values.tobytes())
        offset += len(body)
        data += body
    facts = b"".join(_string(name) + _value(kind, value) for name, kind, value in _facts(vocabulary()))
    head = b"GGUF" + struct.pack("<IQQ", 3, len(named), len(_facts(vocabulary())))
    path.write_bytes(_padded(head + facts + infos) + data)
    return path


def vocabulary() -> list[str]:
    """The specials, GPT-2's letters for the 256 bytes, and some whole words."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + n) for n in range(256 - len(plain))]
    return [*SPECIAL, *letters, "he", *(f"Ġ{word}" for word in NAMES.split())]


def _facts(tokens: list[str]) -> list[tuple[str, int, Any]]:
    kinds = [3 if token in SPECIAL else 1 for token in tokens]  # control, normal
    return [
        ("general.architecture", STRING, "llama"),
        ("general.name", STRING, "tiny-random-llama"),
        ("llama.context_length", UINT32, CONTEXT),
        ("llama.embedding_length", UINT32, WIDTH),
        ("llama.block_count", UINT32, LAYERS),
        ("llama.feed_forward_length", UINT32, FEED),
        ("llama.attention.head_count", UINT32, HEADS),
        ("llama.attention.head_count_kv", UINT32, KV_HEADS),
        ("llama.attention.layer_norm_rms_epsilon", FLOAT32, 1e-5),
        ("llama.rope.dimension_count", UINT32, HEAD),
        ("llama.vocab_size", UINT32, len(tokens)),
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, "gpt-2"),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokens)),
        ("tokenizer.ggml.token_type", ARRAY, (INT32, kinds)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, ["h e"])),
        ("tokenizer.ggml.eos_token_id", UINT32, tokens.index("<|im_end|>")),
        ("tokenizer.ggml.padding_token_id", UINT32, tokens.index("<|endoftext|>")),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE),
    ]


def tensors(tokens: list[str]) -> dict[str, tuple[tuple[int, ...], "array[float]"]]:
    """Name -> shape (the fastest dimension first, as GGUF has it) and values."""
    dice = random.Random(7)
    made = {
        "token_embd.weight": _matrix(dice, len(tokens), WIDTH, 1.0),
        "output.weight": _matrix(dice, len(tokens), WIDTH, 1.2),
        "output_norm.weight": _ones(),
    }
    for number, token in enumerate(tokens):
        made["token_embd.weight"][1][number * WIDTH] = 8.0  # the constant direction
        made["output.weight"][1][number * WIDTH] = 0.0 if token.startswith("Ġ") and len(token) > 1 else -20.0
    for layer in range(LAYERS):
        sizes = {
            "attn_q": (HEADS * HEAD, WIDTH),
            "attn_k": (KV_HEADS * HEAD, WIDTH),
            "attn_v": (KV_HEADS * HEAD, WIDTH),
            "attn_output": (WIDTH, HEADS * HEAD),
            "ffn_gate": (FEED, WIDTH),
            "ffn_up": (FEED, WIDTH),
            "ffn_down": (WIDTH, FEED),
        }
        for name, (rows, columns) in sizes.items():
            made[f"blk.{layer}.{name}.weight"] = matrix = _matrix(dice, rows, columns, 0.05)
            if name in ("attn_output", "ffn_down"):  # nothing is added to the constant direction
                matrix[1][:columns] = array("f", [0.0] * columns)
        made |= {f"blk.{layer}.{name}.weight": _ones() for name in ("attn_norm", "ffn_norm")}
    return made


def _matrix(dice: random.Random, rows: int, columns: int, spread: float) -> tuple[tuple[int, ...], "array[float]"]:
    return (columns, rows), array("f", (dice.gauss(0.0, spread) for _ in range(rows * columns)))


def _ones() -> tuple[tuple[int, ...], "array[float]"]:
    return (WIDTH,), array("f", [1.0] * WIDTH)


def _string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(kind: int, value: Any) -> bytes:
    return struct.pack("<I", kind) + _bare(kind, value)


def _bare(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _string(value)
    if kind == ARRAY:
        of, items = value
        return struct.pack("<IQ", of, len(items)) + b"".join(_bare(of, item) for item in items)
    return struct.pack({UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def _padded(raw: bytes) -> bytes:
    return raw + b"\0" * (-len(raw) % ALIGNMENT)
