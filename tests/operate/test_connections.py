"""Connections that ask nothing, slowly or not at all, beside a reader."""

import socket
import threading
import time
from contextlib import suppress

import pytest
import requests
import uvicorn
from patience import HANGS

from flwr_kld.operate.door import Patient


async def hello(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def serving():
    """Start a server that waits so many seconds for a request; return its port."""
    running = []

    def start(seconds):
        listening = socket.create_server(("127.0.0.1", 0))
        settings = uvicorn.Config(
            hello, http=Patient(seconds), ws="none", lifespan="off", log_level="critical"
        )
        server = uvicorn.Server(settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        running.append((server, thread, listening))
        return listening.getsockname()[1]

    yield start
    for server, thread, listening in running:
        server.should_exit = server.force_exit = True
        thread.join(HANGS)
        listening.close()


def half_open(port, text=b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "):
    connection = socket.create_connection(("127.0.0.1", port), timeout=HANGS)
    connection.sendall(text)
    return connection


def closed(connection):
    """Wait until the server closes it."""
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def said(port):
    return requests.get(f"http://127.0.0.1:{port}/", timeout=HANGS).text


@pytest.mark.parametrize("text", [b"", b"G", b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_two_hundred_who_ask_nothing_shut_nobody_out(serving, text):
    port = serving(HANGS)
    waiting = [half_open(port, text) for _ in range(200)]
    assert said(port) == "hello"
    assert all(closed(connection) for connection in waiting[:150])  # the oldest made room
    for connection in waiting:
        connection.close()


def test_who_takes_too_long_is_closed(serving):
    port = serving(0.2)
    connection = half_open(port)
    assert closed(connection)
    connection.close()
    assert said(port) == "hello"


def test_bytes_now_and_then_do_not_buy_time(serving):
    port = serving(0.5)
    connection, sent = half_open(port), 0
    with suppress(OSError):  # reset, or a broken pipe
        while sent < 1000:
            connection.sendall(b"a")
            sent += 1
            time.sleep(0.05)
    assert sent < 1000
    connection.close()


def test_who_has_asked_may_ask_again_later(serving):
    port = serving(0.3)
    with requests.Session() as session:
        for _ in range(3):
            assert session.get(f"http://127.0.0.1:{port}/", timeout=HANGS).text == "hello"
            time.sleep(0.2)
