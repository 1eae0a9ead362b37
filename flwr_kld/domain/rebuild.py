"""From the JSON form of a domain back to the domain."""

from typing import Any

from flwr_kld.domain.base import Domain
from flwr_kld.domain.binned import Binned
from flwr_kld.domain.block_patterns import BlockPatterns
from flwr_kld.domain.categories import Categories
from flwr_kld.domain.labels import Labels
from flwr_kld.errors import DomainError

_KINDS: dict[str, type[Labels | Binned | BlockPatterns | Categories]] = {
    domain.kind: domain for domain in (Labels, Binned, BlockPatterns, Categories)
}


def domain_from_spec(spec: Any) -> Domain:
    """Rebuild a domain from what its ``spec()`` returned.

    Parameters
    ----------
    spec : mapping
        Possibly after a trip through JSON.

    Returns
    -------
    Domain
        With the same fingerprint as the domain that wrote the spec.

    Raises
    ------
    DomainError
        If the spec is malformed, or of a kind or version this release does not know.
    """
    if not isinstance(spec, dict) or not isinstance(spec.get("kind"), str):
        raise DomainError("a domain spec is a mapping with a 'kind'")
    kind = _KINDS.get(spec["kind"])
    if kind is not None and spec.get("version") == 1:
        raise DomainError(
            "the domain spec has version 1, whose domains had no symbol for records that do not "
            "fit: build the domain and its reference anew with this release of flwr-kld, and "
            "install the same release on server and clients"
        )
    if kind is None or spec.get("version") != kind.version:
        raise DomainError(
            "the domain spec has a kind or version this release of flwr-kld does not know; "
            "install the same release on server and clients"
        )
    fields = {key: value for key, value in spec.items() if key not in ("kind", "version")}
    try:
        if kind is Categories:
            fields = {
                "features": {name: domain_from_spec(inner) for name, inner in fields["features"]}
            }
        domain = kind(**fields)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, DomainError):
            raise
        raise DomainError("the domain spec has missing, unknown or malformed fields") from None
    if domain.spec() != spec:
        raise DomainError("the domain spec is not in the form that spec() writes")
    return domain
