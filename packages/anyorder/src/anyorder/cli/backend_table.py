"""The table of attention backends that ``list`` and ``doctor`` print."""

from __future__ import annotations


def backend_table() -> list[str]:
    """One row a backend: whether it can train and evaluate here, dtype by dtype; then every refusal in words."""
    import torch

    from anyorder.core import BackendUnsupportedError
    from anyorder.train.backend import AutoBackend
    from anyorder.train.capabilities import USES, capabilities, uses

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    found = capabilities(device)
    rows = [["backend", *USES]]
    rows += [[each.name, *("no" if each.refusals[use] else "yes" for use in USES)] for each in found]
    taken = []
    for request in uses(device).values():
        try:
            taken.append(AutoBackend().choose(request).backend.name)
        except BackendUnsupportedError:
            taken.append("none")
    rows.append(["auto takes", *taken])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [f"attention on {device.type}, scores having biases (dropout and compiled: training in fp32)"]
    lines += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    for each in found:
        for reason, refused in each.reasons().items():
            lines.append(f"  {each.name}{': not to ' + _joined(refused) if refused else ''}: {reason}")
    return lines


def _joined(refused: list[str]) -> str:
    """Uses in words, a dtype only where another dtype is served."""
    words = []
    for verb in ("train", "evaluate"):
        dtypes = [use.partition(" ")[2] for use in refused if use.startswith(verb)]
        words += [verb if len(dtypes) == 3 else f"{verb} in {' or '.join(dtypes)}"] if dtypes else []
    if "train" in words:  # which dropout and compilation are
        return " or ".join(words)
    words += ["train with dropout"] * ("dropout" in refused) + ["train compiled"] * ("compiled" in refused)
    return " or ".join(words)
