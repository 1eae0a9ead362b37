"""BLAS has one thread where it is asked to, and its own again after that."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import ThreadpoolController

from flwr_kld.infer.one_thread import one_thread


def threads() -> set[int]:
    return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()}


@pytest.fixture
def two():
    """A process whose BLAS has two threads, whatever the machine has."""
    with ThreadpoolController().limit(limits=2, user_api="blas"):
        yield


@pytest.mark.usefixtures("two")
def test_one_thread_inside_and_as_many_as_before_after_it():
    with one_thread():
        assert threads() == {1}
        with one_thread():
            assert threads() == {1}
        assert threads() == {1}
    assert threads() == {2}


@pytest.mark.usefixtures("two")
def test_an_error_gives_the_threads_back():
    @one_thread()
    def fail():
        raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert threads() == {2}


def test_several_at_once_leave_the_process_as_it_was():
    before = threads()

    @one_thread()
    def inside(_):
        return threads()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(inside, range(20))) == [{1}] * 20
    assert threads() == before
