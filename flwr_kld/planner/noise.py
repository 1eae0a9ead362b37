"""The noise of one exchange, as the trust models make it."""

from __future__ import annotations

from flwr_kld.accounting import Cost
from flwr_kld.planner.setting import Setting
from flwr_kld.privacy import PrivacyEvent, calibrated_laplace
from flwr_kld.privacy.share_event import ShareEvent, calibrate_shares


def relied_on(setting: Setting) -> int:
    """Return n_min, the clients whose noise shares must suffice."""
    return max(int(setting.relied_on * setting.answering), 1)


def event_of(setting: Setting) -> PrivacyEvent:
    """Return the release of one exchange: its law is what all who answer add up to.

    Raises
    ------
    ValueError
        If no noise serves the setting's numbers.
    """
    if setting.trust != "distributed":
        return calibrated_laplace(setting.guarantee)
    share = _shares(setting)
    return PrivacyEvent(
        f"distributed {share.mechanism}",
        share.noise(setting.answering),
        setting.adjacency.count_shifts,
        setting.guarantee,
    )


def cost_of(setting: Setting) -> Cost:
    """Return what the exchange costs whom it touches, with no more noise than is relied on."""
    if setting.trust != "distributed":
        return Cost.of(event_of(setting))
    return Cost.of_shares(_shares(setting), relied_on(setting))


def _shares(setting: Setting) -> ShareEvent:
    return calibrate_shares(setting.guarantee, n_min=relied_on(setting))
