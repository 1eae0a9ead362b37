"""What a cohort's clients answer in the deciding half, all of them at once."""

from __future__ import annotations

import numpy as np

from flwr_kld.inference.estimators.score import Floats
from flwr_kld.kernel.count import Scores
from flwr_kld.kernel.law import BitSource, sample
from flwr_kld.kernel.promise import Guarantee
from flwr_kld.kernel.release import Release
from flwr_kld.query.noisy import ClientSums
from flwr_kld.query.plan import QueryPlan
from flwr_kld.simulations.studies.records import Integers, Records


def numbers(scores: Scores, records: Records) -> Floats:
    """Each client's numbers, shape [clients, 5], as `score_columns.numbers_of` has them."""
    divergence, outside = scores.tables
    if scores.by == "client":
        s, o = (records.sums(table) for table in (divergence, outside))
        s = np.minimum(s, scores.ceiling)
        columns = [s, s**2, records.sizes, o, o**2]
    else:
        tables = (divergence, divergence**2, 1 + 0 * outside, outside, outside**2)
        columns = [records.sums(each) for each in tables]
    return np.stack(columns, axis=1).astype(np.float64)


def answers(
    scores: Scores, records: Records, guarantee: Guarantee, rng: np.random.Generator
) -> Integers:
    """Sum all clients' answers in whole steps, shape [5], without noise."""
    counted = records.at_most(scores.most_records, rng)
    exact = numbers(scores, counted) / scores.units(guarantee)
    steps = np.floor(exact + rng.random(exact.shape)).astype(np.int64)
    return np.asarray(steps.sum(axis=0))


def released(
    plan: QueryPlan,
    records: Records,
    event: Release,
    rng: np.random.Generator,
    bits: BitSource,
) -> ClientSums:
    """Noise the sums of a cohort's answers to a plan with scores, as a release does."""
    if plan.scores is None:
        raise ValueError("a plan of counts has no sums over clients")
    (scores,) = plan.scores
    exact = answers(scores, records, event.guarantee, rng)
    steps = exact + sample(event.table, len(exact), bits)
    return ClientSums(steps, records.clients, event, plan, bits.private)
