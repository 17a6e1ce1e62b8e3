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
    import sys

    from anyorder.core import RecipeError

    if importlib.util.find_spec("mlflow") is None:
        raise RecipeError("MLflow is not installed; install it with: pip install 'anyorder[mlflow]'")
    store = next((place for place in (args.runs, args.runs.parent) if (place / "mlflow.db").is_file()), None)
    if store is None:
        raise RecipeError(
            f"{args.runs} has no mlflow.db, so no run there was tracked; name the folder that runs are in"
        )
    _require_free(args.port)
    print(f"http://127.0.0.1:{args.port} shows the runs of {store} (Ctrl-C ends it)", flush=True)
    command = [
        *(sys.executable, "-m", "mlflow", "ui"),
        *("--backend-store-uri", f"sqlite:///{(store / 'mlflow.db').resolve()}"),
        *("--host", "127.0.0.1", "--port", str(args.port), "--workers", "1"),
    ]
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    return _serve(command, {**os.environ, **quiet})


def _require_free(port: int) -> None:
    import socket

    from anyorder.core import RecipeError

    if not 1 <= port <= 65535:
        raise RecipeError(f"--port {port}: a port, 1 to 65535")
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            raise RecipeError(f"port {port} is taken; choose another with --port") from None


def _serve(command: list[str], environment: dict[str, str]) -> int:
    """Run a server until it ends or a signal does; the processes that it started end with it."""
    import os
    import signal
    import subprocess

    def stop(signum: int, _: object) -> None:
        raise SystemExit(128 + signum)

    before = signal.signal(signal.SIGTERM, stop)
    server = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        return server.wait()
    finally:
        for signum in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(server.pid, signum)
                server.wait(timeout=5)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue
        signal.signal(signal.SIGTERM, before)
