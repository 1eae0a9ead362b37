"""A population of handwriters whose data drift at a chosen check, and the truth about it.

Both sides of a simulation build the same scenario from the run config: clients for their records,
the server for the public reference and, beside the protocol, for the exact divergence.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from flwr_kld.clients.handwriting import Handwriting
from flwr_kld.infer.divergence import skewed_divergence
from flwr_kld.infer.estimators.score import THETA
from flwr_kld.reference import Reference
from flwr_kld.simulations.handwriting.resample import WriterResampler
from flwr_kld.simulations.handwriting.source import load_source, split_writers
from flwr_kld.simulations.handwriting.style import OTHER_HAND
from flwr_kld.table.block_patterns import BlockPatterns

if TYPE_CHECKING:
    from flwr_kld.ask.cohort import Participant

Drift = Literal["none", "digits", "writers"]

_REFERENCE_WRITERS, _POPULATION = 1_000_000, 100_000_000
"""Virtual writers from these numbers on make the reference, and stand for everybody whom cohorts
are drawn from; clients are numbered from 0."""


@dataclass(frozen=True)
class Scenario:
    """Who the clients are and how their data drift."""

    # ``"digits"`` (scikit-learn's, offline), ``"femnist"`` (needs a network), or the path of an
    # ``.npz`` file
    source: str = "digits"
    # Number of virtual writers resampled from the source, each a client with a hand of its own; 0
    # for the source's real writers, one half as clients and the other half as reference
    writers: int = 400
    records: int = 100  # Images of each virtual writer
    reference_writers: int = 1000  # Virtual writers that make the reference
    # From check `drift_from` on, clients write mostly 1 and 7 ("digits"), or are writers with
    # another hand, slanted and thick ("writers"; virtual writers only)
    drift: Drift = "digits"
    drift_from: int = 5  # Number of the first check with drift; checks count from 1
    # Whether virtual writers write new records for each check; if not, they keep their records (and
    # their memory is kept, for speed)
    fresh: bool = True
    seed: int = 1  # Simulation randomness

    def __post_init__(self) -> None:
        if self.drift not in get_args(Drift):
            raise ValueError(f"drift must be one of {get_args(Drift)}, got {self.drift!r}")
        if self.writers < 0 or self.records < 1 or self.reference_writers < 1:
            raise ValueError("writers must be at least 0, records and reference-writers at least 1")
        if self.writers == 0 and self.drift == "writers":
            raise ValueError("real writers cannot change their hand: choose drift = 'digits'")

    @classmethod
    def from_run_config(cls, config: Mapping[str, Any]) -> Scenario:
        """Read Flower's run config, in which names have hyphens; other keys are left alone."""
        known = {field.name: field.name.replace("_", "-") for field in fields(cls)}
        return _shared(**{name: config[key] for name, key in known.items() if key in config})

    @cached_property
    def domain(self) -> BlockPatterns:
        """4×4 block patterns that fit the source's images."""
        return self._source.patterns()

    @cached_property
    def members(self) -> Sequence[int]:
        """Numbers of all clients; of virtual writers a range, which a node need not hold."""
        if self.writers:
            return range(self.writers)
        return [int(w) for w in self._halves[1].writers]

    def require(self, cohort: int) -> None:
        """Refuse a cohort that the clients cannot fill."""
        if cohort > len(self.members):
            kind = "writers" if self.writers else "real writers (the other half is the reference)"
            raise ValueError(
                f"a cohort of {cohort} cannot be drawn from {len(self.members)} {kind}: "
                f"set cohort to at most {len(self.members)}"
            )

    @cached_property
    def reference(self) -> Reference:
        """The public Π, of writers who are not clients."""
        if not self.writers:
            return Reference.from_samples(self.domain, self._halves[0].images)
        ids = range(_REFERENCE_WRITERS, _REFERENCE_WRITERS + self.reference_writers)
        counts = sum(self._counts(self._usual.writer(i, self.records)) for i in ids)
        return Reference.from_counts(self.domain, np.asarray(counts))

    def write(self, member: int, check: int) -> Handwriting:
        """Return what a client holds at a check."""
        drifted = self._drifted(check)
        if not self.writers:
            own = self._halves[1].of_writer(member)
            return own.with_labels((1, 7)) if drifted else own
        if self.fresh:  # the writer's number carries the check
            return self._virtual(member + check * self.writers, drifted)
        if (member, drifted) not in self._kept:
            self._kept[member, drifted] = self._virtual(member, drifted)
        return self._kept[member, drifted]

    def _virtual(self, writer: int, drifted: bool) -> Handwriting:
        resampler = self._other if drifted and self.drift == "writers" else self._usual
        mix = resampler.mostly(1, 7) if drifted and self.drift == "digits" else None
        return resampler.writer(writer, self.records, mix)

    def truth(self, members: Iterable[int], check: int) -> float:
        """Exact D_θ of a cohort at a check, in nats."""
        counts = sum(self._counts(self.write(member, check)) for member in members)
        return self._divergence(np.asarray(counts))

    def truths(self, counted: Iterable[Participant], check: int) -> dict[str, float]:
        """D_θ, in nats, of the population and, exact, of the clients that were counted."""
        members = (participant.member for participant in counted)
        return {
            "population_truth": self.population_truth(check),
            "cohort_truth": self.truth(members, check),
        }

    def population_truth(self, check: int) -> float:
        """D_θ, in nats, of the clients that cohorts are drawn from.

        Exact where clients keep their records. The law of writers who write anew for each check is
        known from twice as many others as make the reference, less the jackknife's estimate of what
        a histogram of finitely many adds to a divergence: within .003 nats for 1000.
        """
        groups = self._population(check)
        pooled = self._divergence(sum(groups[1:], groups[0]))
        if len(groups) == 1:
            return pooled
        return 2 * pooled - sum(self._divergence(one) for one in groups) / len(groups)

    def _population(self, check: int) -> list[NDArray[np.int64]]:
        """Count the records of all clients, or of two groups of writers as good as they."""
        drifted, each = self._drifted(check), self.reference_writers
        if drifted not in self._counted:
            if self.writers and self.fresh:
                ids = [range(_POPULATION + k * each, _POPULATION + (k + 1) * each) for k in (0, 1)]
                groups = [[self._virtual(i, drifted) for i in group] for group in ids]
            else:
                groups = [[self.write(member, check) for member in self.members]]
            self._counted[drifted] = [np.asarray(sum(map(self._counts, group))) for group in groups]
        return self._counted[drifted]

    def _divergence(self, counts: NDArray[np.int64]) -> float:
        return skewed_divergence(self.reference.probabilities, counts, THETA)

    @cached_property
    def _counted(self) -> dict[bool, list[NDArray[np.int64]]]:
        return {}

    def _drifted(self, check: int) -> bool:
        return self.drift != "none" and check >= self.drift_from

    @cached_property
    def _kept(self) -> dict[tuple[int, bool], Handwriting]:
        return {}

    def _counts(self, data: Handwriting) -> NDArray[np.int64]:
        return np.bincount(self.domain.encode(data.images), minlength=self.domain.size)

    @cached_property
    def _source(self) -> Handwriting:
        return load_source(self.source)

    @cached_property
    def _halves(self) -> tuple[Handwriting, Handwriting]:
        return split_writers(self._source, self.seed)

    @cached_property
    def _usual(self) -> WriterResampler:
        return WriterResampler(self._source, self.seed)

    @cached_property
    def _other(self) -> WriterResampler:
        return WriterResampler(self._source, self.seed, OTHER_HAND)


@lru_cache(maxsize=4)
def _shared(**parameters: Any) -> Scenario:
    """One scenario a process: its data are loaded once, not for every message."""
    return Scenario(**parameters)
