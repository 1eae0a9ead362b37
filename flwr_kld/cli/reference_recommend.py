"""``flwr-kld reference recommend``: which way to a reference serves, before anything is spent."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.table import Table

from flwr_kld.cli.options import AsJson
from flwr_kld.cli.output import print_json, results
from flwr_kld.domain.table import require_one_symbol
from flwr_kld.kernel.promise import Adjacency
from flwr_kld.reference import Reference

if TYPE_CHECKING:
    from flwr_kld.integral.recommend import Recommendation


def recommend(
    *,
    draws: Annotated[int, typer.Option(min=1, help="k: integrally private draws wanted.")],
    epsilon: Annotated[
        float, typer.Option(help="Budget of either way, in nats; all draws together.")
    ],
    records: Annotated[int, typer.Option(min=1, help="Number of private records.")],
    size: Annotated[
        int | None,
        typer.Option(min=2, help="Symbols of the domain; their law is guessed (Zipf's)."),
    ] = None,
    guess: Annotated[
        Path | None,
        typer.Option(help="Instead of --size: a public reference, .npz, that resembles the truth."),
    ] = None,
    adjacency: Annotated[
        Adjacency, typer.Option(help="What the histogram's noise hides.")
    ] = Adjacency.REPLACE_ONE,
    as_json: AsJson = False,
) -> None:
    """Say whether integrally private draws or clients' noised histogram make the better reference.

    Both are simulated on a public guess of the data; no client is asked.
    """
    # Imported here: the other commands do without it.
    from flwr_kld.integral import recommend as advise

    population = None
    if guess is not None:
        reference = Reference.load(guess)
        require_one_symbol(reference.domain, "recommend")
        population = reference.probabilities
    if population is not None and size is None:
        size = len(population)
    elif population is not None or size is None:
        raise ValueError("give --size or --guess")
    advice = advise(
        draws=draws,
        epsilon=epsilon,
        records=records,
        size=size,
        population=population,
        adjacency=adjacency,
    )
    if as_json:
        print_json(asdict(advice))
        return
    results.print(_table(advice, draws, epsilon))
    results.print(advice.advice, soft_wrap=True)
    results.print(
        f"a check against the histogram's reference reads about {advice.read_unchanged:.3f} nats "
        "where nothing has changed: set the threshold above it",
        soft_wrap=True,
    )


def _table(found: Recommendation, draws: int, epsilon: float) -> Table:
    table = Table(
        title="expected KL from the truth",
        caption=f"nats; ε = {epsilon:g} in all",
        box=SIMPLE,
    )
    table.add_column("what is published")
    table.add_column("KL", justify="right")
    table.add_column("protects")
    everybody = "everybody at once"
    for what, kl, protects in (
        ("the uniform law, without any data", found.base_kl, "–"),
        ("a noised histogram (--from clients)", found.histogram_kl, "one record"),
        (f"k = {draws:,} draws: the law of each", found.exemplar_kl, everybody),
        ("k draws: a reference mixed of all", found.draws_kl, everybody),
    ):
        table.add_row(what, f"{kl:.3f}", protects)
    return table
