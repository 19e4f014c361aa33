"""The tiny model as a Hugging Face folder (config, tokenizer, safetensors), by the standard library alone."""

import json
import struct
from pathlib import Path

from tests.engines import tiny_model as tiny

#: GGUF's name of a tensor -> the folder's; a layer's number stands between
OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
}
INNER = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def write_tiny_hf_model(folder: Path) -> Path:
    """Write the model's files into `folder` and return it."""
    folder.mkdir(parents=True, exist_ok=True)
    tokens = tiny.vocabulary()
    end, padding = tokens.index("<|im_end|>"), tokens.index("<|endoftext|>")
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": tiny.WIDTH,
            "intermediate_size": tiny.FEED, "num_hidden_layers": tiny.LAYERS,
            "num_attention_heads": tiny.HEADS, "num_key_value_heads": tiny.KV_HEADS,
            "head_dim": tiny.HEAD,
            "vocab_size": len(tokens), "max_position_embeddings": tiny.CONTEXT,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "hidden_act": "silu", "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
            "bos_token_id": None, "eos_token_id": end, "pad_token_id": padding, "torch_dtype": "float32",
        },
        "generation_config.json": {"eos_token_id": end, "pad_token_id": padding, "do_sample": True, "temperature": 1.0},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
            "bos_token": None, "unk_token": None, "model_max_length": tiny.CONTEXT, "chat_template": tiny.TEMPLATE,
            "clean_up_tokenization_spaces": False,
        },
        "tokenizer.json": _tokenizer(tokens),
    }  # fmt: skip
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(_safetensors(tokens))
    return folder


def _tokenizer(tokens: list[str]) -> dict[str, object]:
    """Bytes as letters, one merge; the names are only ever written, never read."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    special = [{"id": tokens.index(name), "content": name, "special": True, **flags} for name in tiny.SPECIAL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    numbers = {token: number for number, token in enumerate(tokens)}
    model = {"type": "BPE", "fuse_unk": False, "byte_fallback": False, "vocab": numbers, "merges": ["h e"]}
    nothing = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level, "model": {**model, **nothing},
    }  # fmt: skip


def _safetensors(tokens: list[str]) -> bytes:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (shape, values) in tiny.tensors(tokens).items():
        raw = values.tobytes()
        place = [len(data), len(data) + len(raw)]
        header[_renamed(name)] = {"dtype": "F32", "shape": list(reversed(shape)), "data_offsets": place}
        data += raw
    head = json.dumps(header).encode()
    return struct.pack("<Q", len(head)) + head + data


def _renamed(name: str) -> str:
    if name in OUTER:
        return OUTER[name]
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{INNER[part]}.weight"
