"""The operator's file: what it takes, and what it says about the rest."""

from fractions import Fraction

import pytest
from guard.files import FILE, example, guard_file

from flwr_kld.guard.limits import GuardFileError, read_limits
from flwr_kld.guard.secure_sum_policy import ClientPolicy
from flwr_kld.ledger.budget import exact, shown, written

DAY = 86400


def test_the_operators_page_shows_a_file_that_loads(tmp_path):
    path = tmp_path / "guard.toml"
    path.write_text(example())
    limits = read_limits(path)
    assert str(limits.receipts) == "/var/lib/flwr-kld/receipts.db"
    assert str(limits.key) == "/var/lib/flwr-kld/node.key"
    assert limits.allow.trust == {"distributed", "trusted-aggregator", "two-aggregators"}
    assert limits.allow.domains is not None
    assert limits.allow.plans is not None
    check, period = limits.check, limits.period
    assert (check.max_epsilon, check.max_delta, check.min_asked) == (1, Fraction("1e-6"), 20)
    assert (period.seconds, period.max_epsilon) == (30 * 86400, 8)
    assert period.max_delta == Fraction("1e-5")
    assert limits.secure_sum == ClientPolicy(min_asked=20, min_clients=15)


def test_a_file_without_secure_sums_has_their_defaults(tmp_path):
    limits = read_limits(guard_file(tmp_path))
    assert limits.secure_sum == ClientPolicy()
    assert (limits.allow.domains, limits.allow.plans) == (None, None)
    assert limits.receipts == tmp_path / "receipts.db"


IN_SUMS = "[secure_sum]\n{}\n[check]"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("max_epsilon = 1.0", "max_epsilom = 1.0", "unknown key check.max_epsilom"),
        ("min_asked = 5", "min_asked = 5\nmax_cohort = 9", "unknown key check.max_cohort"),
        ('key = "node.key"', 'key = "k"\nsecret = 1', "unknown key secret"),
        ("[check]", "[chek]", "unknown key chek"),
        ("[check]", "[check", "is not a valid TOML file"),
        ("[check]", IN_SUMS.format("min_asked = 1"), "secure_sum: min_asked must be"),
        ("[check]", IN_SUMS.format("min_threshold = 0.3"), "secure_sum: min_threshold"),
        ("[check]", IN_SUMS.format("corrupted = 1"), "secure_sum.corrupted is out of range"),
        ("[check]", IN_SUMS.format('collusion = "no"'), "secure_sum.collusion is out of range"),
        ("[check]", IN_SUMS.format("neighbours = 9"), "unknown key secure_sum.neighbours"),
    ],
)
def test_a_bad_file_says_which_key_is_wrong(tmp_path, old, new, message):
    with pytest.raises(GuardFileError, match=message):
        read_limits(guard_file(tmp_path, (old, new)))


BAD_VALUES = {
    'key = "node.key"': ("key is .*the path of a file|key is .*string", ['""', "7"]),
    "days = 30": ("period.days is .*a number of days", ["0", "-1", "nan", "true"]),
    "max_epsilon = 1.0": (
        "check.max_epsilon is .*a positive number",
        ["inf", "nan", "0", "-1", "1e-12", '"1"', "false"],
    ),
    "max_delta = 1e-6": ("check.max_delta is .*at least 0, up to 1", ["-1e-6", "2"]),
    "min_asked = 5": ("check.min_asked is (out of range|not of its type)", ["0", "5.0"]),
    'trust = ["trusted", "distributed"]': (
        "allow.trust is .*a list of some of",
        ["[]", '["everything"]', '"trusted"'],
    ),
    'domains = "any"': (
        "allow.domains is .*a list of fingerprints",
        ["[]", '["abc"]', '"all"', "[7]"],
    ),
}


@pytest.mark.parametrize(
    ("line", "value"), [(line, value) for line, (_, bad) in BAD_VALUES.items() for value in bad]
)
def test_a_bad_value_is_named_with_what_it_should_be(tmp_path, line, value):
    name, (message, _) = line.split(" = ")[0], BAD_VALUES[line]
    with pytest.raises(GuardFileError, match=message):
        read_limits(guard_file(tmp_path, (line, f"{name} = {value}")))


ABSURD = ["3e9999999999999999999", "-3e9999999999999999999", "1e-9999999999999999999999",
          "3e999999999", "1e-99999", "1e999999", "-0.0", f"0x{'f' * 5000}"]  # fmt: skip


@pytest.mark.parametrize("value", ABSURD)
@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("max_epsilon = 1.0", "check.max_epsilon"),
        ("max_epsilon = 3.0", "period.max_epsilon"),
        ("max_delta = 1e-6", "check.max_delta"),
        ("days = 30", "period.days"),
        ("min_asked = 5", "check.min_asked"),
        ("[check]", "secure_sum.corrupted"),
    ],
)
def test_an_absurd_number_is_read_or_its_key_is_named(tmp_path, line, key, value):
    name = key.split(".")[1]
    change = f"{name} = {value}" if "=" in line else f"[secure_sum]\n{name} = {value}\n[check]"
    path = guard_file(tmp_path, (line, change))
    try:
        limits = read_limits(path)
    except GuardFileError as error:
        assert key in str(error)  # noqa: PT017  # which values pass differs from key to key
    else:
        assert limits.check.max_epsilon <= 10**6
        assert limits.period.seconds >= 1


@pytest.mark.parametrize("value", ABSURD[:3])
def test_a_number_beyond_any_exponent_is_not_taken(tmp_path, value):
    with pytest.raises(GuardFileError, match="max_epsilon"):
        read_limits(guard_file(tmp_path, ("max_epsilon = 3.0", f"max_epsilon = {value}")))


@pytest.mark.parametrize(
    ("days", "seconds"),
    [("1.5", 129_600), ("0.0000001", 1), ("10.00001", 864_001), ("1.000005", DAY + 1), ("1", DAY)],
)
def test_a_period_is_in_whole_seconds_and_never_shorter_than_it_says(tmp_path, days, seconds):
    assert (
        read_limits(guard_file(tmp_path, ("days = 30", f"days = {days}"))).period.seconds == seconds
    )


def test_by_default_a_file_protects_records(tmp_path):
    assert read_limits(guard_file(tmp_path)).protects == "record"


@pytest.mark.parametrize("value", ['"records"', '["record"]', "1", '""'])
def test_what_protects_nobody_we_know_is_refused(tmp_path, value):
    change = ('key = "node.key"', f'key = "node.key"\nprotects = {value}')
    with pytest.raises(GuardFileError, match="protects"):
        read_limits(guard_file(tmp_path, change))


def test_a_file_that_is_not_there_or_not_text(tmp_path):
    with pytest.raises(GuardFileError, match="FileNotFoundError"):
        read_limits(tmp_path / "no.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(GuardFileError, match="TOML"):
        read_limits(tmp_path / "bytes.toml")


def test_every_required_key_is_required(tmp_path):
    for line in FILE.strip().splitlines():
        if "=" in line:
            with pytest.raises(GuardFileError, match="missing"):
                read_limits(guard_file(tmp_path, (line + "\n", "")))


@pytest.mark.parametrize("value", [0.1, 1.0, 1 / 3, 1e-9, 1.5e-9, 1e-300, 5e-324, 20.0, 1e16])
def test_an_amount_is_kept_as_it_was(value):
    assert float(exact(value)) == value
    assert written(str(exact(value))) == exact(value)


def test_a_tenth_is_a_tenth_and_a_third_a_third(tmp_path):
    limits = read_limits(guard_file(tmp_path, ("max_epsilon = 1.0", "max_epsilon = 0.1")))
    assert limits.check.max_epsilon == exact(0.1) == Fraction(1, 10)
    assert 3 * exact(1 / 3) == 1
    assert shown(Fraction(3, 2)) == "1.5"


@pytest.mark.parametrize("text", ["", "1.0", "-1", "1e9", "1/", "/3", "9" * 401, 7, None, b"1"])
def test_what_is_no_amount_is_not_read(text):
    with pytest.raises(ValueError, match="amount"):
        written(text)
