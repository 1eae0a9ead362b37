"""``flwr-kld demo``: a federation of handwriters on this machine."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

_NEEDED = ("ray", "sklearn", "flwr_datasets", "psutil", "matplotlib", "jinja2")


def require_simulation() -> None:
    """Refuse before Flower starts if a part is missing.

    Raises
    ------
    ImportError
        Names the extras.
    """
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ImportError(
            f"simulations need {', '.join(missing)}: pip install 'flwr-kld[simulation,plots]'"
        )


def demo(
    *, out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("out/demo")
) -> None:
    """Run eight checks on simulated handwriters whose data drift; needs no network."""
    require_simulation()
    from flwr_kld.simulations.demo import main  # an extra

    raise typer.Exit(main(["--out", str(out)]))
