"""Hugging Face Trainer: a callback registers the hook, and saves and loads the residuals with a checkpoint.

``torchrun --nproc-per-node 2 trainer_callback.py saved 100`` trains a tiny Llama on numbers that repeat.
Called again with more steps, it resumes from the newest checkpoint in the folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from fedplug_torch import FedplugState, fedplug_hook
from safetensors.torch import load_file, save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)


class CompressGradients(TrainerCallback):
    """Compresses the gradients that ranks exchange."""

    def __init__(self, trainer: Trainer, encoder: str) -> None:
        self.state = FedplugState(encoder, trainer.model)
        self._trainer = trainer

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Registers the hook with the DDP model that the trainer has made, and resumes."""
        self._trainer.model_wrapped.register_comm_hook(self.state, fedplug_hook)
        if state.global_step:
            self.state.load_state_dict(load_file(_path(args, state)))

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Saves the state of this rank into the folder of the checkpoint."""
        save_file(self.state.state_dict(), _path(args, state))


def _path(args: TrainingArguments, state: TrainerState) -> Path:
    folder = Path(args.output_dir, f"checkpoint-{state.global_step}")
    return folder / f"fedplug-{args.process_index}.safetensors"


def new_model() -> LlamaForCausalLM:
    """Returns a tiny Llama with the same parameters in every call."""
    torch.manual_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=64,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=32,
        )
    )


def sentences(count: int) -> list[dict[str, list[int]]]:
    """Returns sequences that repeat four random numbers."""
    numbers = torch.randint(64, (count, 4), generator=torch.Generator().manual_seed(0))
    return [{"input_ids": row, "labels": row} for row in numbers.repeat(1, 4).tolist()]


def train(steps: int, folder: Path) -> tuple[torch.nn.Module, FedplugState]:
    """Trains until a number of steps, and saves."""
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=steps,
        learning_rate=1e-2,
        lr_scheduler_type="constant",
        per_device_train_batch_size=8,
        save_steps=steps,
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo",
    )
    trainer = Trainer(new_model(), arguments, train_dataset=sentences(256))
    callback = CompressGradients(trainer, "topk(0.05, scope='model') | qsgd(8)")
    trainer.add_callback(callback)
    trainer.train(resume_from_checkpoint=any(folder.glob("checkpoint-*")))
    return trainer.model, callback.state


if __name__ == "__main__":
    _, hook = train(int(sys.argv[2]), Path(sys.argv[1]))
    print(f"{hook.step} steps, {hook.bytes_sent:,} bytes instead of {hook.dense_bytes:,}", flush=True)
