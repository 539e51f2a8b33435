"""Counts the bytes that a rank sends in a step of DDP, for several numbers of ranks and both exchanges.

``python examples/ddp_traffic.py`` starts up to 16 processes over gloo, and writes
examples/results/ddp_traffic.md. For more ranks the bytes are calculated from the same payloads.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import fedplug_torch
import torch
import torch.distributed as dist
from fedplug_torch.division import partition
from torch.nn.parallel import DistributedDataParallel

import fedplug

ENCODERS = "topk(0.01) | qsgd(8)", "topk(0.01, scope='model') | qsgd(8)", "qsgd(4)"
EXCHANGES = "gather", "two_phase"
MEASURED, CALCULATED = (2, 4, 8, 16), (64, 256)
STEPS = 3


class Sent(NamedTuple):
    """Bytes that a rank sends in a step: the mean over the ranks, and the maximum."""

    mean: float
    most: float


def model() -> torch.nn.Module:
    """Returns a network of 1.3 million parameters, most of them in one layer."""
    torch.manual_seed(0)
    layers = torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256), torch.nn.ReLU()
    return torch.nn.Sequential(*layers, torch.nn.Linear(256, 10))


def count(rank: int, ranks: int, meeting_point: str, results: Any) -> None:
    """Puts the bytes per step of this rank for each encoder and exchange."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting_point, rank=rank, world_size=ranks)
    torch.manual_seed(rank)
    for encoder in ENCODERS:
        for exchange in EXCHANGES:
            ddp = DistributedDataParallel(model())
            state = fedplug_torch.FedplugState(encoder, ddp, exchange=exchange)
            ddp.register_comm_hook(state, fedplug_torch.fedplug_hook)
            for _ in range(STEPS):
                torch.nn.functional.cross_entropy(
                    ddp(torch.randn(16, 1024)), torch.randint(10, (16,))
                ).backward()
            results.put((encoder, exchange, state.bytes_sent / STEPS))
    dist.destroy_process_group()


def measured(ranks: int) -> dict[tuple[str, str], Sent]:
    """Starts the ranks, and returns the bytes they sent by encoder and exchange."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["fedplug_torch"])
    results = context.Queue()
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        meeting_point = Path(folder, "ranks").as_uri()
        processes = [
            context.Process(target=count, args=(rank, ranks, meeting_point, results)) for rank in range(ranks)
        ]
        for process in processes:
            process.start()
        for _ in range(ranks * len(ENCODERS) * len(EXCHANGES)):
            encoder, exchange, sent = results.get()
            found.setdefault((encoder, exchange), []).append(sent)
        for process in processes:
            process.join()
    return {key: Sent(sum(sent) / ranks, max(sent)) for key, sent in found.items()}


def calculated(encoder: str, exchange: str, ranks: int) -> Sent:
    """Returns the same from the sizes of one rank's payloads. Means count as large as its gradients."""
    network = model()
    torch.nn.functional.cross_entropy(network(torch.randn(16, 1024)), torch.randint(10, (16,))).backward()
    gradients = {name: p.grad for name, p in network.named_parameters() if p.grad is not None}
    codec, others = fedplug.codec(encoder), ranks - 1
    if exchange == "gather":
        payloads, _ = codec.encode_model({name: gradient.numpy() for name, gradient in gradients.items()})
        sent = others * (8 + sum(8 + len(payload) for payload in payloads.values()))
        return Sent(sent, sent)
    parts = partition({name: gradient.shape for name, gradient in gradients.items()}, ranks)
    names = {part.name: part.parameter for owned in parts for part in owned}
    pieces = {part.name: part.of(gradients[part.parameter]).numpy() for owned in parts for part in owned}
    arrays = {name: gradient.numpy() for name, gradient in gradients.items()}
    payloads, _ = codec.for_slices(arrays, names).encode_model(pieces)
    by_owner = [sum(8 + len(payloads[part.name]) for part in owned) for owned in parts]
    by_rank = [sum(by_owner) - mine + others * (8 + 8 + mine) for mine in by_owner]
    return Sent(sum(by_rank) / ranks, max(by_rank))


def table(rows: dict[tuple[str, str], dict[str, Sent]]) -> str:
    """Returns the Markdown page."""
    elements = sum(p.numel() for p in model().parameters())
    lines = [
        "# Traffic of a step of DDP",
        "",
        f"Made by `python examples/ddp_traffic.py`: gloo, {STEPS} steps of a network with {elements:,} "
        f"parameters, of which one layer has {1024 * 1024:,}. Bytes per parameter that a rank sends in a "
        "step, with all headers, sizes and status messages; in brackets those of the rank that sends most. "
        "Dense is a ring all-reduce of float32, 8 (ranks - 1) / ranks bytes. Rows with the word calculated "
        "add up the sizes of one rank's payloads.",
        "",
        "| encoder | exchange | ranks | bytes per parameter | dense | fewer |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (encoder, exchange), of_ranks in rows.items():
        for label, sent in of_ranks.items():
            ranks = int(label.split()[0])
            dense = 8 * (ranks - 1) / ranks
            mean, most = sent.mean / elements, sent.most / elements
            more = f" ({most:.4f})" if f"{most:.4f}" != f"{mean:.4f}" else ""
            lines.append(
                f"| `{encoder.replace('|', chr(92) + '|')}` | {exchange} | {label} | {mean:.4f}{more} "
                f"| {dense:.2f} | {dense / mean:,.0f}x |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures and calculates, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results"), metavar="FOLDER")
    arguments = parser.parse_args()
    rows: dict[tuple[str, str], dict[str, Sent]] = {(e, x): {} for e in ENCODERS for x in EXCHANGES}
    for ranks in MEASURED:
        for key, sent in measured(ranks).items():
            rows[key][str(ranks)] = sent
    for ranks in (MEASURED[-1], *CALCULATED):
        for (encoder, exchange), of_ranks in rows.items():
            of_ranks[f"{ranks} calculated"] = calculated(encoder, exchange, ranks)
    arguments.out.mkdir(parents=True, exist_ok=True)
    lines = table(rows)
    (arguments.out / "ddp_traffic.md").write_text(lines, encoding="utf-8")
    print(lines)


if __name__ == "__main__":
    main()
