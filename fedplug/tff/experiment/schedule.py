"""Runs experiments: checks and builds everything first, then trains, in one process or several."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

import fedplug
from fedplug.errors import ConfigError
from fedplug.tff.experiment import runner
from fedplug.tff.experiment.jobs import Jobs
from fedplug.tff.experiment.progress import Progress, TrainingProgress
from fedplug.tff.experiment.runner import Built, Experiment, Folder, Plan, TrainingId

__all__ = ["run_experiments"]


def run_experiments(plans: Sequence[Plan], jobs: int = 1) -> None:
    """Runs or resumes experiments, one training at a time or several in parallel, and writes the reports.

    Results do not depend on the number of jobs: trainings share nothing, and this process is the only user of
    stores and logs.

    Args:
        plans: The plans, with a folder each.
        jobs: Number of trainings to run in parallel. Above 1, each runs in a worker process.

    Raises:
        FedplugError: An error of `Experiment` or `Folder`. Everything is checked before anything is written.
    """
    paths = [plan.folder.resolve() for plan in plans]
    for i, path in enumerate(paths):
        if path in paths[:i]:
            raise ConfigError(f"two configurations have the name {path.name!r}; rename one of them")
    experiments = [Experiment(plan) for plan in plans]
    fingerprints = [experiment.fingerprints() for experiment in experiments]  # once, not in each worker
    jobs = min(jobs, sum(len(plan.trainings) for plan in plans))
    with contextlib.ExitStack() as stack:
        workers = stack.enter_context(Jobs(plans, jobs)) if jobs > 1 else None
        built = workers.build() if workers else [_build(experiment) for experiment in experiments]
        folders = [
            stack.enter_context(contextlib.closing(Folder(*arguments)))
            for arguments in zip(plans, built, fingerprints, strict=True)
        ]
        progress, lines = _progress(plans, folders)
        with contextlib.closing(progress):
            if workers:
                workers.train(folders, lines)
            else:
                for experiment, folder, of_plan in zip(experiments, folders, lines, strict=True):
                    _train(experiment, folder, of_plan)
        for experiment, folder, processes in zip(experiments, folders, built, strict=True):
            dense_bytes = next(iter(processes.values())).dense_bytes
            runner.write_results(experiment.plan, folder.log, dense_bytes, experiment.metric)


def _train(experiment: Experiment, folder: Folder, lines: Mapping[TrainingId, TrainingProgress]) -> None:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        for training, line in lines.items():
            experiment.train(training, folder.store, folder.log, line)


def _build(experiment: Experiment) -> dict[str, Built]:
    with fedplug.use_runtime(experiment.plan.config.runtime):
        return {name: Built.of(experiment.process(name)) for name in experiment.plan.runs}


def _progress(
    plans: Sequence[Plan], folders: Sequence[Folder]
) -> tuple[Progress, list[dict[TrainingId, TrainingProgress]]]:
    """Returns the progress line, and the part of every training in it."""
    total = sum(plan.config.rounds * len(plan.trainings) for plan in plans)
    done = sum(
        min(rounds, plan.config.rounds)
        for plan, folder in zip(plans, folders, strict=True)
        for rounds in folder.done.values()
    )
    if done:
        print(f"resuming after {done} of {total} rounds", flush=True)
    names = [{each: _name(plan, each, len(plans) > 1) for each in plan.trainings} for plan in plans]
    progress = Progress(total, done, max(len(name) for of_plan in names for name in of_plan.values()))
    return progress, [
        {each: progress.training(name, folder.sent(each)) for each, name in of_plan.items()}
        for of_plan, folder in zip(names, folders, strict=True)
    ]


def _name(plan: Plan, training: TrainingId, several: bool) -> str:
    name = f"{plan.config.name}: {training.run}" if several else training.run
    return f"{name} seed {training.seed}" if plan.config.repeats > 1 else name
