"""A study that is stopped, killed or disturbed ends with the results of one that was not."""

import json
import os
import signal
import time

import numpy as np
import pytest
from forks import forked, joined

from flwr_kld.simulations.studies.resumable import Kept, complete, key_of, seed_of

TASKS = [{"study": "sums", "size": n} for n in (3, 5, 8)]


def work(shared, task):
    rng = np.random.default_rng(seed_of(task, "draws"))
    return {"sum": shared + rng.normal(size=task["size"])}


def run(folder, tasks=TASKS, work=work):
    kept = Kept(folder)
    complete(work, 1.0, tasks, kept, workers=0)
    return {key_of(task): kept.load(task)["sum"].tolist() for task in tasks}


def refusing(shared, task):
    raise AssertionError(task)


def test_what_is_kept_is_not_done_again(tmp_path):
    first = run(tmp_path)
    assert run(tmp_path, work=refusing) == first


def test_neither_order_nor_numpys_seed_changes_a_result(tmp_path):
    np.random.seed(1)
    first = run(tmp_path / "a")
    np.random.seed(2)
    assert run(tmp_path / "b", TASKS[::-1]) == first


@pytest.mark.parametrize("left", [0, 1, 100, -1])
def test_half_a_file_is_done_again(tmp_path, left):
    first = run(tmp_path)
    for file in tmp_path.glob("*.npz"):
        file.write_bytes(file.read_bytes()[:left])
    assert Kept(tmp_path).load(TASKS[0]) is None
    assert run(tmp_path) == first


def test_a_flipped_bit_is_done_again(tmp_path):
    first = run(tmp_path)
    file = tmp_path / f"{key_of(TASKS[2])}.npz"
    spoilt = bytearray(file.read_bytes())
    at = spoilt.find(np.array(first[key_of(TASKS[2])]).tobytes())
    spoilt[at + 3] ^= 1
    file.write_bytes(spoilt)
    assert run(tmp_path) == first


def test_a_changed_configuration_reads_no_old_result(tmp_path):
    run(tmp_path)
    other = {**TASKS[0], "study": "other"}
    assert Kept(tmp_path).load(other) is None
    (tmp_path / f"{key_of(TASKS[0])}.npz").rename(tmp_path / f"{key_of(other)}.npz")
    assert Kept(tmp_path).load(other) is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_result_that_is_not_finite_is_refused_and_named(tmp_path, bad):
    def broken(shared, task):
        return {"sum": np.full(2, bad)} if task["size"] == 5 else work(shared, task)

    with pytest.raises(ValueError, match="finite"):
        run(tmp_path, work=broken)
    assert Kept(tmp_path).load(TASKS[0]) is not None
    assert Kept(tmp_path).load(TASKS[1]) is None


def test_a_kept_nan_is_done_again(tmp_path):
    first = run(tmp_path)
    path = tmp_path / f"{key_of(TASKS[0])}.npz"
    np.savez(path, configuration=np.array(json.dumps(TASKS[0], sort_keys=True)), sum=[np.nan])
    assert Kept(tmp_path).load(TASKS[0]) is None
    assert run(tmp_path) == first


def test_one_run_at_a_time_in_a_folder(tmp_path):
    with (
        Kept(tmp_path).held(),
        pytest.raises(ValueError, match="--out"),
        Kept(tmp_path).held(),
    ):
        pass
    with Kept(tmp_path).held():
        pass


def test_a_stop_keeps_what_is_done(tmp_path):
    def stopped(shared, task):
        if task["size"] == 5:
            raise KeyboardInterrupt
        return work(shared, task)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, work=stopped)
    assert Kept(tmp_path).load(TASKS[0]) is not None
    assert run(tmp_path) == run(tmp_path / "whole")


def slow(folder):
    def waiting(shared, task):
        time.sleep(0.01)
        return work(shared, task)

    with Kept(folder).held():
        run(folder, [{"study": "sums", "size": n} for n in range(1, 40)], waiting)


def test_a_run_that_is_killed_ten_times_ends_as_one_that_is_not(tmp_path):
    """With SIGKILL, after 1 to 19 further results: in the lock, while it computes or writes."""
    tasks = [{"study": "sums", "size": n} for n in range(1, 40)]
    rng = np.random.default_rng(0)
    for _ in range(10):
        process = forked(lambda: slow(tmp_path / "killed"))
        time.sleep(float(rng.uniform(0.005, 0.1)))
        os.kill(process, signal.SIGKILL)
        joined(process)
    with Kept(tmp_path / "killed").held():  # the lock died with its holder
        assert run(tmp_path / "killed", tasks) == run(tmp_path / "whole", tasks)
