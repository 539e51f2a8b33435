"""PEFT: ranks train LoRA adapters on their own, and exchange the changes of the adapters only.

``torchrun --nproc-per-node 2 peft_adapters.py saved 40`` trains a tiny Llama on numbers that repeat. Called
again with more steps, it resumes from the folder. `OuterStep` leaves out parameters without gradients,
so it needs no list of the adapters. Its rules are about PEFT's names, such as
``...layers.0.self_attn.q_proj.lora_A.default.weight``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from fedplug_torch import OuterStep
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from trainer_callback import new_model, sentences

RULES = {"*.lora_A.*": "topk(0.1) | qsgd(4)", "*.lora_B.*": "topk(0.2) | qsgd(8)"}
"""The encoders of the two factors of an adapter."""


def train(steps: int, folder: Path) -> tuple[torch.nn.Module, OuterStep]:
    """Trains until a number of steps, and saves."""
    if not dist.is_initialized():
        dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = get_peft_model(new_model(), LoraConfig(r=8, lora_alpha=16, target_modules="all-linear"))
    inner = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-2)
    outer = OuterStep(model, RULES, inner_steps=4, fragments=2, fragment_sync_delay=1)
    saved = folder / f"rank-{rank}.safetensors"
    first = 0
    if saved.exists():
        outer.load_state_dict(load_file(saved))  # with the adapters
        inner.load_state_dict(torch.load(saved.with_suffix(".pt")))
        first = 2 * outer.outer_step + outer.inner_step
    texts = torch.tensor([each["input_ids"] for each in sentences(256)])
    for step in range(first, steps):
        chosen = torch.randint(256, (8,), generator=torch.Generator().manual_seed(2 * step + rank))
        inner.zero_grad()
        model(input_ids=texts[chosen], labels=texts[chosen]).loss.backward()
        inner.step()
        outer.step()
    folder.mkdir(parents=True, exist_ok=True)
    save_file(outer.state_dict(), saved)
    torch.save(inner.state_dict(), saved.with_suffix(".pt"))
    if rank == 0:
        model.save_pretrained(folder / "adapter")
    return model, outer


if __name__ == "__main__":
    _, trained = train(int(sys.argv[2]), Path(sys.argv[1]))
    print(f"{trained.bytes_sent:,} bytes instead of {trained.dense_bytes:,}", flush=True)
    dist.destroy_process_group()
