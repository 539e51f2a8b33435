"""A vLLM server in a process of its own, driven by lines of JSON: a command, then its answer.

The first commands are those of the trainer's client. The others ask for answers, weights and the staged step.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

PROMPTS = [[1, 5, 9, 200, 3], list(range(40, 60))]


class Server:
    """Starts the process, and is the client of a trainer."""

    def __init__(self, model: Path) -> None:
        environment = os.environ | {
            "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_LOGGING_LEVEL": "WARNING",
            "HF_HUB_OFFLINE": "1",
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__, model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def call(self, name: str, *arguments: Any) -> Any:
        """Runs a command. Raises RuntimeError with the server's error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, *arguments]).encode() + b"\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(b"ANSWER "):
                error, answer = json.loads(line.removeprefix(b"ANSWER "))
                if error:
                    raise RuntimeError(error)
                return answer
        raise RuntimeError(f"the server ended with {self._process.wait()}")

    def init_weight_transfer_engine(self, init_info: dict[str, Any]) -> None:
        self.call("init", init_info)

    def start_weight_update(self) -> None:
        self.call("start")

    def update_weights(self, update_info: Any) -> None:
        self.call("update", update_info)

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        self.call("finish", weight_version)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a command that a killed server never read
                    pipe.close()


def staged(worker: Any) -> int | None:
    """Returns the number of the step that a worker can apply without waiting."""
    return worker.weight_transfer_engine.staged


def main(model: str) -> None:
    from vllm import LLM, SamplingParams

    llm = LLM(
        model=model,
        weight_transfer_config={"backend": "fedplug"},
        enforce_eager=True,
        skip_tokenizer_init=True,
        max_model_len=64,
        max_num_seqs=4,
        disable_log_stats=True,
    )
    greedy = SamplingParams(temperature=0, max_tokens=8, detokenize=False, logprobs=1)

    def answers() -> list[Any]:
        outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], greedy, use_tqdm=False)
        best = [output.outputs[0] for output in outputs]
        return [[list(one.token_ids), one.cumulative_logprob] for one in best]

    def weights() -> dict[str, int]:
        import torch

        def sums(module: torch.nn.Module) -> dict[str, int]:
            return {
                name: zlib.crc32(tensor.detach().contiguous().view(torch.uint8).numpy().tobytes())
                for name, tensor in module.named_parameters()
            }

        return llm.apply_model(sums)[0]

    commands = {
        "init": lambda info: llm.init_weight_transfer_engine({"init_info": info}),
        "start": llm.start_weight_update,
        "update": lambda info: llm.update_weights({"update_info": info}),
        "finish": llm.finish_weight_update,
        "version": llm.get_weight_version,
        "staged": lambda: llm.collective_rpc(staged)[0],
        "answers": answers,
        "weights": weights,
    }
    for line in sys.stdin:
        name, *arguments = json.loads(line)
        try:
            answer, error = commands[name](*arguments), None
        except Exception as problem:
            answer, error = None, f"{type(problem).__name__}: {problem}"
        print("ANSWER", json.dumps([error, answer]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
