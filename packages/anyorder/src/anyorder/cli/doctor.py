"""Check this machine: versions, devices, attention backends, tracking, disk and cache.

Exit code 1 if a check fails; a warning is no failure.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

_LITTLE_DISK = 2 * 1024**3


@dataclass(frozen=True, kw_only=True)
class Check:
    """One line of the report: ``ok``, ``warn`` or ``fail``; and lines below the report."""

    status: str
    what: str
    found: str
    more: Sequence[str] = ()


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", metavar="FOLDER", type=Path, default=Path("runs"), help="where runs go (%(default)s)")


def run(args: argparse.Namespace) -> int:
    checks = list(_checks(args.runs))
    width = max(len(check.what) for check in checks)
    for check in checks:
        print(f"{check.status:<4}  {check.what:<{width}}  {check.found}")
    for check in checks:
        if check.more:
            print("\n" + "\n".join(check.more))
    return int(any(check.status == "fail" for check in checks))


def _checks(runs: Path) -> Iterator[Check]:
    parts: list[Callable[[], Iterator[Check]]] = [_versions, _device, _backends, _plugins, _tracking]
    for part in parts:
        try:
            yield from part()
        except Exception as error:
            name = part.__name__.strip("_")
            yield Check(status="fail", what=name, found=f"{type(error).__name__}: {' '.join(str(error).split())}")
    yield _writable("runs folder", runs)
    from anyorder.data import cache_folder

    yield _writable("cache folder", cache_folder())


def _versions() -> Iterator[Check]:
    import platform
    from importlib.metadata import distributions

    import torch

    yield Check(status="ok", what="python", found=f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield Check(status="ok", what="torch", found=torch.__version__)
    own = {d.name: d.version for d in distributions() if d.name and d.name.startswith("anyorder")}
    one = len(set(own.values())) == 1
    found = f"{next(iter(own.values()))}, {len(own)} packages" if one else str(own)
    yield Check(status="ok" if one else "fail", what="anyorder", found=found if one else f"versions differ: {found}")


def _device() -> Iterator[Check]:
    import os

    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = torch.get_num_threads()
    status = "ok" if threads <= cores else "warn"
    yield Check(status=status, what="cpu", found=f"{cores} cores to use, torch computes with {threads} threads")
    from anyorder.train.precision import slow_bf16

    slow = slow_bf16(torch.device("cpu"))
    yield Check(status="warn" if slow else "ok", what="bf16 on the cpu", found=slow or "computed by the processor")
    if not torch.cuda.is_available():
        yield Check(status="warn", what="gpu", found="none that CUDA can use; runs compute on the CPU")
        return
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        yield Check(status="ok", what=f"gpu {index}", found=f"{about.name}, {about.total_memory / 1024**3:.0f} GiB")


def _backends() -> Iterator[Check]:
    import torch

    from anyorder.core import BackendUnsupportedError
    from anyorder.train.backend import AutoBackend
    from anyorder.train.capabilities import uses

    from .backend_table import backend_table

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        taken = AutoBackend().choose(uses(device)["train fp32"]).backend.name
        found = f"auto takes {taken} to train on {device.type} (table below)"
        yield Check(status="ok", what="attention", found=found, more=backend_table())
    except BackendUnsupportedError as error:
        yield Check(status="fail", what="attention", found=str(error), more=backend_table())


def _plugins() -> Iterator[Check]:
    from anyorder.core import SEAMS, PluginError, available, find

    broken = 0
    for seam in SEAMS:
        for name in available(seam):
            try:
                find(seam, name)
            except PluginError as error:
                broken += 1
                yield Check(status="fail", what=f"{seam} {name}", found=" ".join(str(error).split()))
    if not broken:
        count = sum(len(available(seam)) for seam in SEAMS)
        yield Check(status="ok", what="parts", found=f"all {count} import")


def _tracking() -> Iterator[Check]:
    import importlib.util
    from importlib.metadata import version

    if importlib.util.find_spec("mlflow") is None:
        found = "not installed; runs are not tracked (pip install 'anyorder[mlflow]')"
        yield Check(status="warn", what="mlflow", found=found)
    else:
        yield Check(status="ok", what="mlflow", found=version("mlflow"))


def _writable(what: str, folder: Path) -> Check:
    """Whether a file can be made in a folder, or in the nearest one above it that exists."""
    import shutil
    import tempfile

    place = folder.absolute()
    while not place.exists():
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return Check(status="fail", what=what, found=f"{folder} cannot be written: {error.strerror}")
    free = shutil.disk_usage(place).free
    status = "ok" if free > _LITTLE_DISK else "warn"
    return Check(status=status, what=what, found=f"{folder}, {free / 1024**3:.1f} GiB free")
