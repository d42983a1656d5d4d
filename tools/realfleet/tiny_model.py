#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A folder that vLLM loads with `--load-format dummy`: an 8-layer Llama without weights and
a tokenizer of its own, trained on the licence texts of this machine. Nothing is downloaded.

usage: tiny_model.py FOLDER
"""
import glob
import json
import os
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEMPLATE = ("{%- for m in messages -%}{{'<|im_start|>'+m['role']+'\\n'+m['content']+'<|im_end|>\\n'}}{%- endfor -%}"
            "{%- if add_generation_prompt -%}{{'<|im_start|>assistant\\n'}}{%- endif -%}")
TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
    "unk_token": "<|endoftext|>", "model_max_length": 16384, "clean_up_tokenization_spaces": False,
    "chat_template": TEMPLATE,
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 4096, "hidden_size": 512,
    "intermediate_size": 1536, "num_hidden_layers": 8, "num_attention_heads": 8, "num_key_value_heads": 4,
    "head_dim": 64, "max_position_embeddings": 16384, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "hidden_act": "silu", "tie_word_embeddings": True, "eos_token_id": 2, "pad_token_id": 0,
    "torch_dtype": "bfloat16",
}


def main():
    out = sys.argv[1]
    os.makedirs(out)
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    texts = sorted(f for f in glob.glob("/usr/share/common-licenses/*") if os.path.isfile(f))
    if not texts:
        raise SystemExit("tiny_model.py: no texts in /usr/share/common-licenses to train the tokenizer on")
    t.train(texts, trainers.BpeTrainer(
        vocab_size=4096, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    t.save(os.path.join(out, "tokenizer.json"))
    for name, doc in (("tokenizer_config.json", TOKENIZER), ("config.json", CONFIG),
                      ("generation_config.json", {"eos_token_id": 2, "pad_token_id": 0})):
        with open(os.path.join(out, name), "w", encoding="utf-8") as f:
            json.dump(doc, f, indent=1)


if __name__ == "__main__":
    main()
