"""Signs a report, and verifies one offline: its signatures, and everything that follows from them.

Another processor may round sums otherwise: numbers may differ by `TOLERANCE`, relative, and those
that are estimated, in a report's columns, by `_LEAST` near 0.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from flwr_kld.ask.cohort import AskedClients
from flwr_kld.ask.noisy import noisy
from flwr_kld.ask.partition import Partition
from flwr_kld.ask.plan import QueryPlan
from flwr_kld.common.identity import Identity
from flwr_kld.common.json_text import json_text
from flwr_kld.guard import verify
from flwr_kld.guard.receipts import Receipt
from flwr_kld.kernel.channels import MODULUS, from_field
from flwr_kld.kernel.vector import Released
from flwr_kld.ledger.budget import exact
from flwr_kld.reference import Reference
from flwr_kld.report.cohort_release import CohortRelease
from flwr_kld.report.conclusions import Conclusions
from flwr_kld.report.evidence import Evidence
from flwr_kld.report.parts import compared, epsilon_delivered, protection
from flwr_kld.report.report import Report
from flwr_kld.trust.distributed import Distributed
from flwr_kld.trust.signed_numbers import SignedNumbers, holds
from flwr_kld.trust.standing import Standing
from flwr_kld.trust.terms import NoiseShares, Terms
from flwr_kld.trust.trust_model import Trust
from flwr_kld.trust.trusted import Trusted, TrustedAggregator, TwoAggregators

logger = logging.getLogger("flwr_kld")

TOLERANCE, _LEAST = 1e-6, 1e-9
_WIRE = "wire"
_MODELS = (Trusted, TrustedAggregator, TwoAggregators, Distributed)


class NotVerified(ValueError):
    """A report is not what was signed, or does not follow from it; says what is wrong."""


def serves(trust: Trust) -> bool:
    """Whether reports of a trust model can be verified: one of a user's own is not known here."""
    return type(trust.trust if isinstance(trust, Standing) else trust) in _MODELS


def evidence_of(
    measured: CohortRelease, conclusions: Conclusions, cells: int, seed: int, trust: Trust
) -> Evidence:
    """Return what a report follows from, before it is concluded."""
    terms, released = measured.terms, measured.released
    if terms is None or released is None:
        raise ValueError("there is no evidence of numbers without their question")
    return Evidence(
        version=version("flwr-kld"),
        reference=conclusions.reference.to_dict(),
        terms={n: v.hex() if isinstance(v, bytes) else v for n, v in terms.to_config().items()},
        cells=cells,
        seed=seed,
        values=tuple(released.values.tolist()),
        records=float(released.records or 0.0),
        clients=released.clients,
        sizes=measured.sizes,
        drawn=measured.asked.drawn,
        corrupted=trust.corrupted if isinstance(trust, Distributed) else 0,
        tolerated=conclusions.tolerated,
        alarm=replace(conclusions.alarm, outside=None),
        adds_up=conclusions.adds_up,
        gathered=conclusions.so_far(),
        aggregators=_parts(measured, terms),
    )


def _parts(measured: CohortRelease, terms: Terms) -> tuple[SignedNumbers, ...]:
    """Return what aggregators signed: all of it or, where one of them has no key, nothing."""
    if len(measured.signed) in (0, len(terms.aggregators)):
        return measured.signed
    logger.warning(
        "only one of two aggregators has a drift-identity, so the report holds the signature of "
        "neither: a verifier could not add up their parts"
    )
    return ()


def signed(report: Report, evidence: Evidence, identity: Identity) -> Report:
    """Return a report with its evidence and the server's signature."""
    bare = replace(report, evidence=replace(evidence, public=identity.public.hex(), signature=""))
    return replace(
        bare,
        evidence=replace(bare.evidence or evidence, signature=identity.sign(_text(bare)).hex()),
    )


def _text(report: Report) -> bytes:
    """Return what the server signs: everything but the signature."""
    evidence = None if report.evidence is None else replace(report.evidence, signature="")
    content = json.loads(json_text(replace(report, evidence=evidence).content()))
    return b"flwr-kld report 1\n" + json.dumps(content, sort_keys=True).encode()


def read(text: str) -> Report:
    """Read a signed report, in the one form in which `Report.to_json` writes it.

    Whoever changes a blank, a digit's form or a key's place changes the file: it is refused.
    """
    try:
        report = Report.from_json(text)
    except Exception as error:  # whatever a forged one raises
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise NotVerified(f"it is not the report of a check: {why}") from None
    if text.removesuffix("\n") != report.to_json():
        raise NotVerified("it is not in the one form that flwr-kld writes: something was changed")
    return report


def require_verified(report: Report) -> Terms:
    """Refuse a report whose signatures do not hold, or that does not follow from its evidence.

    Returns
    -------
    Terms
        The question that was asked.

    Raises
    ------
    NotVerified
        What is wrong.
    """
    evidence = report.evidence
    if evidence is None:
        raise NotVerified("it is not signed: set FLWR_KLD_SIGNING_KEY on the server")
    if not holds(evidence.public, evidence.signature, _text(report)):
        raise NotVerified("the server's signature is not of this report")
    if not _in_one_form(report.started):
        raise NotVerified("its date is not in the one form that flwr-kld writes")
    if evidence.version != (ours := version("flwr-kld")):
        raise NotVerified(
            f"flwr-kld {evidence.version} wrote it and this is {ours}: verify it with that version"
        )
    try:
        terms, again = _recomputed(report, evidence)
    except NotVerified:
        raise
    except Exception as error:  # whatever a server signs that lies
        why = str(error) if isinstance(error, ValueError) else type(error).__name__
        raise NotVerified(f"its evidence gives no report: {why}") from None
    told, found = (json.loads(one.to_json()) for one in (report, again))
    del told["sha256"], found["sha256"]
    for place in _differences(told, found):
        raise NotVerified(f"{place} does not follow from the numbers that were released")
    return terms


def _in_one_form(started: str) -> bool:
    try:
        return datetime.fromisoformat(started).astimezone(UTC).isoformat() == started
    except (ValueError, OverflowError):  # no date, or none that UTC has
        return False


def _recomputed(report: Report, evidence: Evidence) -> tuple[Terms, Report]:
    """Return the question, and the report that follows from what was released."""
    config = evidence.terms
    terms = Terms.from_config({**config, _WIRE: bytes.fromhex(str(config[_WIRE]))})
    trust, name = _trust(terms, evidence.corrupted), report.protection.aggregation
    if name not in trust.aggregations:
        raise NotVerified(f"{trust.name} promises nothing for {name}")
    reference = Reference.from_dict(evidence.reference)
    plan = _plan(terms, trust, reference, evidence)
    silent = report.cohort.silent
    released = Released(
        np.array(evidence.values, dtype=np.int64),
        evidence.records,
        evidence.clients,
        trust.event(evidence.clients),
        report.protection.private,
    )
    _require_released(terms, released, evidence, silent)
    if (datetime.fromisoformat(report.started).timestamp() > terms.until) or (
        evidence.adds_up and (evidence.drawn or terms.period is None)
    ):
        raise NotVerified("its date or its evidence of earlier checks is not of its question")
    measured = CohortRelease(
        noisy(released, plan),
        AskedClients([], evidence.drawn),
        evidence.clients,
        {},
        (0.0, 0.0),
        most_records=terms.most_records,
        sizes=evidence.sizes,
        enforces_limits=name != "secure-sum",
        carried=silent,
    )
    concluded = Conclusions(
        reference, evidence.tolerated, evidence.alarm, evidence.adds_up, evidence.gathered
    )
    columns, _ = concluded.conclude(measured, "")
    night = terms.night
    return terms, replace(
        report,
        check=terms.check,
        period=terms.period,
        columns=columns,
        compared=compared(plan),
        guarantee=trust.guarantee,
        one_client=measured.one_client,
        protection=protection(measured.values, trust, name, hides_parts=name != "plain-sum"),
        cohort=replace(report.cohort, asked=terms.asked, survivors=evidence.clients - silent),
        cost=replace(
            report.cost,
            epsilon=epsilon_delivered(released.release),
            night=night.number if night else 1,
            nights=night.nights if night else 1,
        ),
    )


def _trust(terms: Terms, corrupted: int) -> Trust:
    """Return the trust model of a question."""
    promised, noise = terms.guarantee, terms.noise
    about = (promised.epsilon, promised.delta, promised.protects)
    keys = tuple(map(bytes.fromhex, terms.aggregators))
    if isinstance(noise, NoiseShares):
        least = noise.n_min + corrupted
        return Distributed(about[0], least, *about[1:], corrupted, allotment=terms.allotment)
    central: Trusted | TrustedAggregator | TwoAggregators
    if len(keys) == 2:
        central = TwoAggregators(*about, allotment=terms.allotment, aggregators=(keys[0], keys[1]))
    elif keys:
        central = TrustedAggregator(*about, allotment=terms.allotment, aggregator=keys[0])
    else:
        central = Trusted(*about, allotment=terms.allotment)
    return Standing(central).on(terms.night) if terms.night else central


def _plan(terms: Terms, trust: Trust, reference: Reference, evidence: Evidence) -> QueryPlan:
    """Draw the cells again, and require that the question was for them."""
    drawn = Partition(evidence.cells).draw(reference, np.random.default_rng(evidence.seed))
    plan = drawn.allotted(terms.allotment).of(terms.period)
    asked = trust.terms(
        plan,
        check=terms.check,
        asked=terms.asked,
        until=terms.until,
        most_records=terms.most_records,
        model=terms.model,
    )
    # Two versions of zlib deflate the same cells otherwise.
    same = replace(asked, wire=terms.wire) == terms
    if not same or not np.array_equal(terms.cell_of(reference.domain), plan.cell_of):
        raise NotVerified("the question was not for the cells of this reference")
    return plan


def _require_released(terms: Terms, released: Released, evidence: Evidence, silent: int) -> None:
    """Require that numbers are of the question, and are those that aggregators signed."""
    known, sizes = released.records, evidence.sizes
    fits = released.values.shape == (terms.numbers,) and 0 <= silent < released.clients
    fits = fits and released.clients - silent <= terms.asked
    if fits and not terms.layout.total_is_public(terms.guarantee):
        fits = known == terms.layout.records(released.values)
    if sizes is not None:
        fits = fits and known == sizes.records
    if not fits:
        raise NotVerified("the numbers that were released are not of this question")
    parts, columns = evidence.aggregators, []
    if not parts:
        return
    for part in parts:
        numbers = np.frombuffer(bytes.fromhex(part.values), dtype="<u8")
        columns.append(numbers)
        if not part.holds:
            raise NotVerified("the signature of an aggregator is not of its numbers")
        told = (part.terms, part.clients, part.carried, part.private, part.sizes)
        if told != (terms.fingerprint, released.clients, silent, released.private, sizes) or (
            part.records not in (0, known)
        ):
            raise NotVerified("an aggregator signed numbers of another question or sum")
    if len(parts) == 1 and len(terms.aggregators) == 1:
        total = columns[0].view(np.int64)
    elif len(terms.aggregators) == len({part.public for part in parts}) == len(parts) == 2:
        if parts[0].transcript != parts[1].transcript:
            raise NotVerified("the aggregators added up different clients")
        added = [(int(a) + int(b)) % MODULUS for a, b in zip(*columns, strict=True)]
        total = from_field(np.array(added, dtype=np.uint64))
    else:
        raise NotVerified("another number of aggregators signed than added the noise")
    if not np.array_equal(total, released.values):
        raise NotVerified("the numbers that were released are not those of the aggregators")


def _differences(told: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield where two JSON forms differ by more than `TOLERANCE`."""
    if isinstance(told, dict) and isinstance(found, dict) and told.keys() == found.keys():
        for name in told:
            yield from _differences(told[name], found[name], f"{place}.{name}".lstrip("."))
    elif isinstance(told, list) and isinstance(found, list) and len(told) == len(found):
        for number, (one, other) in enumerate(zip(told, found, strict=True)):
            yield from _differences(one, other, f"{place}.{number}")
    elif type(told) is float and type(found) is float:
        least = _LEAST if place.startswith(("columns", "verdict")) else 0.0
        if not math.isclose(told, found, rel_tol=TOLERANCE, abs_tol=least):
            yield place
    elif type(told) is not type(found) or told != found:
        yield place


def receipts_of(terms: Terms, folder: Path) -> list[tuple[bytes, Receipt]]:
    """Return nodes' keys and receipts of a check, each verified and held against its question.

    Raises
    ------
    NotVerified
        If a file in the folder is not a node's whole chain of receipts, has none of this check, or
        has one of another question, epsilon or moment.
    """
    files = sorted(folder.glob("*.db"))
    if not files:
        raise NotVerified(f"{folder} has no receipts: copies of nodes' files, *.db")
    found = []
    for file in files:
        try:
            audit = verify(file)
        except Exception as error:  # SQLite has errors of its own
            raise NotVerified(f"{file}: {error}") from None
        own = [receipt for receipt in audit.receipts if receipt.check == terms.check]
        if not own:
            raise NotVerified(f"{file} has no receipt of this check")
        for receipt in own:
            _require_of(terms, receipt, file)
            found.append((audit.public, receipt))
    if len({(public, receipt.account) for public, receipt in found}) > terms.asked:
        raise NotVerified("more clients have receipts than were asked")
    return found


def _require_of(terms: Terms, receipt: Receipt, file: Path) -> None:
    promised, night = terms.guarantee, terms.night
    told = (
        receipt.terms, receipt.plan, receipt.model, receipt.trust, receipt.epsilon, receipt.delta,
        receipt.protects, receipt.most_records, receipt.until, receipt.session, receipt.night,
    )  # fmt: skip
    expected = (
        terms.fingerprint, terms.plan, terms.model, terms.trust, exact(promised.epsilon),
        exact(promised.delta), promised.protected, terms.most_records, terms.last_release,
        terms.session, night.number if night else 0,
    )  # fmt: skip
    if told != expected or receipt.time > terms.last_release:
        raise NotVerified(f"{file}: receipt {receipt.number} is of another question or epsilon")
