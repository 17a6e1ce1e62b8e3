"""Open MLflow's pages on the runs of a folder, for this machine only and without the network."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="FOLDER", nargs="?", type=Path, default=Path("runs"), help="where runs are (%(default)s)"
    )
    parser.add_argument("--port", metavar="N", type=int, default=5000, help="of the address (%(default)s)")


def run(args: argparse.Namespace) -> int:
    import importlib.util
    import os
    import socket
    import subprocess
    import sys

    from anyorder.core import RecipeError

    if importlib.util.find_spec("mlflow") is None:
        raise RecipeError("MLflow is not installed; install it with: pip install 'anyorder[mlflow]'")
    store = next((place for place in (args.runs, args.runs.parent) if (place / "mlflow.db").is_file()), None)
    if store is None:
        raise RecipeError(
            f"{args.runs} has no mlflow.db, so no run there was tracked; name the folder that runs are in"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", args.port))
        except OSError:
            raise RecipeError(f"port {args.port} is taken; choose another with --port") from None
    print(f"http://127.0.0.1:{args.port} shows the runs of {store} (Ctrl-C ends it)", flush=True)
    command = [
        *(sys.executable, "-m", "mlflow", "ui"),
        *("--backend-store-uri", f"sqlite:///{(store / 'mlflow.db').resolve()}"),
        *("--host", "127.0.0.1", "--port", str(args.port), "--workers", "1"),
    ]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    return subprocess.run(command, env={**os.environ, **quiet}, check=False).returncode
