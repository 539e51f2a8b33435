"""The pause in which a vLLM server on a CPU applies a staged version, by the share of changed weights.

Usage: python benchmarks/pause.py [LAYERS WIDTH]

Replaces the rows of this size in results/pause.md, and keeps the others. It needs vLLM and transformers.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers
import updates
from fedplug_vllm.plugin import register
from fedplug_vllm.trainer import FedplugTrainerEngine, FedplugTrainerInitInfo
from vllm.distributed.weight_transfer import ModuleSource

from fedplug.diagnostics.environment import environment

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from vllm_server import Server

ROUNDS = 3


def llama(layers: int, width: int) -> transformers.LlamaForCausalLM:
    """Returns a model with random weights in bfloat16."""
    config = transformers.LlamaConfig(
        hidden_size=width,
        intermediate_size=8 * width // 3,
        num_hidden_layers=layers,
        num_attention_heads=width // 64,
        vocab_size=updates.VOCABULARY,
        tie_word_embeddings=True,
    )
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def pauses(model: torch.nn.Module, folder: Path, patches: bool) -> list[str]:
    """Returns the median of a server's pauses for each share."""
    server, found = Server(folder / "model"), []
    info = FedplugTrainerInitInfo(rank=0, url=str(folder / f"channel-{patches}"), patches=patches)
    engine = FedplugTrainerEngine.trainer_init(info, client=server, source=ModuleSource(model))
    engine.send_weights()
    for share in updates.SHARES:
        seconds = []
        for seed in range(ROUNDS):
            named = {name: parameter.data for name, parameter in model.named_parameters()}
            for name, tensor in updates.changed(named, share, seed)[0].items():
                named[name].copy_(tensor)
            number = engine.publish().number
            while server.call("staged") != number:
                time.sleep(0.05)
            engine.send_weights()
            seconds.append(engine.update_seconds)
        found.append(f"{statistics.median(seconds):.2f}")
    server.close()
    return found


def main() -> None:
    """Writes the table."""
    layers, width = map(int, sys.argv[1:] or ("12", "768"))
    register()
    model = llama(layers, width)
    millions = f"{sum(parameter.numel() for parameter in model.parameters()) / 1e6:,.0f} million"
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(f"{folder}/model")
        columns = [pauses(model, Path(folder), patches) for patches in (True, False)]
    path = Path(__file__).parent / "results" / "pause.md"
    rows = updates.rows_of(path.read_text(encoding="utf-8") if path.exists() else "")
    for share, *seconds in zip(updates.SHARES, *columns, strict=True):
        rows |= updates.rows_of(f"| {millions} | {share:.2%} | {' | '.join(seconds)} |")
    facts = environment()
    lines = [
        "# The pause of a server",
        "",
        f"Seconds in which a vLLM server on a CPU applies a staged version, medians of {ROUNDS}. The weights",
        "are a Llama's in bfloat16, of which a share changes at random. Made by",
        f"`python benchmarks/pause.py {layers} {width}`",
        f"on {facts['cores']} cores, {facts['processor']}, load average {updates.LOAD:.1f} at the start.",
        "",
        "| weights | changed | changed elements (`patches=True`) | whole model |",
        "| --- | --- | ---: | ---: |",
        *(rows[key] for key in sorted(rows)),
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
