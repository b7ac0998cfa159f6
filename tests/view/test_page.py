"""The page: what it serves, to whom, and how names that are markup come out."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest

import braided as bd
from braided.view import page as page_module
from braided.view import serve
from braided.view.page import Page
from tests.view.batches import EVIL, record


@pytest.fixture
def page() -> Iterator[Page]:
    with serve([record(0, EVIL)], 0) as served:
        yield served


def get(page: Page, path: str, **headers: str) -> tuple[int, Any, str]:
    request = urllib.request.Request(page.url.rstrip("/") + path, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.headers, refused.read().decode()


def test_the_page_is_whole_and_loads_nothing(page: Page) -> None:
    status, headers, text = get(page, "/?anything")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert "*" not in policy
    assert not re.search(r"""(src|href)=["'](?!data:,)|@import|url\(|innerHTML""", text)
    assert "/*script*/" not in text


def test_records_are_data_and_names_stay_as_they_are(page: Page) -> None:
    page.show([record(0, EVIL), record(1, EVIL)], "said <b>so</b>")
    status, headers, text = get(page, "/records.json")
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert headers["X-Content-Type-Options"] == "nosniff"
    told = json.loads(text)
    assert [r["batch"] for r in told["records"]] == [0, 1]
    assert EVIL in told["records"][0]["streams"]
    assert told["why"] == "said <b>so</b>"
    assert EVIL not in get(page, "/")[2]


def test_before_the_first_batch() -> None:
    with serve([], 0) as page:
        assert json.loads(get(page, "/records.json")[2])["records"] == []
        assert "braided_batches_total 0" in get(page, "/metrics")[2]


@pytest.mark.parametrize(
    "path", ["/favicon.ico", "/records", "/metrics/", "/../page.py", "/%2e%2e/x", "/assets/page.js"]
)
def test_other_paths_are_not_found(page: Page, path: str) -> None:
    status, headers, _ = get(page, path)
    assert (status, headers["Content-Type"]) == (404, "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example:{port}", ""]
)
def test_another_host_is_refused(page: Page, host: str) -> None:
    """A site's own name may resolve to 127.0.0.1 (DNS rebinding)."""
    status, _, text = get(page, "/records.json", Host=host.format(port=page.server_port))
    assert status == 403
    assert "records" not in text


def test_localhost_is_us_and_head_has_no_body(page: Page) -> None:
    assert get(page, "/metrics", Host=f"localhost:{page.server_port}")[0] == 200
    connection = http.client.HTTPConnection("127.0.0.1", page.server_port, timeout=10)
    connection.request("HEAD", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (200, b"")
    connection.request("POST", "/")
    assert connection.getresponse().status == 501
    connection.close()


def trickling(page: Page) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", page.server_port), timeout=10)
    connection.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
    return connection


def seconds_until_closed(connection: socket.socket) -> float:
    """How long a request may trickle, a byte every tenth of a second."""
    began = time.monotonic()
    connection.settimeout(0.1)
    while time.monotonic() - began < 8:
        try:
            connection.sendall(b"x")
            if connection.recv(100) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


def test_a_request_that_trickles_is_closed(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit was for each byte: a request with a byte every nine seconds held its thread for ever."""
    monkeypatch.setattr(page_module._Handler, "timeout", 1)
    with trickling(page) as slow:
        assert get(page, "/metrics")[0] == 200
        assert 0.5 < seconds_until_closed(slow) < 4


def test_connections_are_few_and_come_free_again(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection that was held open had a thread of its own, without end."""
    monkeypatch.setattr(page_module._Handler, "timeout", 1)
    before = threading.active_count()
    with ExitStack() as stack:
        held = [stack.enter_context(trickling(page)) for _ in range(50)]
        time.sleep(0.3)
        assert threading.active_count() - before <= 32
        seconds_until_closed(held[0])
        time.sleep(0.5)
        assert get(page, "/metrics")[0] == 200


def test_a_request_without_end_is_closed(page: Page) -> None:
    """A hundred headers of 64 kB each were read."""
    with socket.create_connection(("127.0.0.1", page.server_port), timeout=10) as connection:
        with suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 60_000 + b"\r\nZ: 1")
        with suppress(ConnectionError):
            assert b"200 OK" not in connection.recv(100)


def test_it_listens_on_this_machine_alone(page: Page) -> None:
    assert page.url == f"http://127.0.0.1:{page.server_port}/"


def test_a_port_in_use_is_refused_with_the_remedy(page: Page) -> None:
    with (
        pytest.raises(bd.BraidedError, match=rf"port {page.server_port} .*in use.*give another"),
        serve([], page.server_port),
    ):
        pass
    with pytest.raises(bd.BraidedError, match="got 70000"), serve([], 70_000):
        pass


def test_the_port_is_free_afterwards() -> None:
    with serve([], 0) as page:
        port = page.server_port
    with serve([], port):
        pass


def test_views_do_not_import_pyspark() -> None:
    code = "import sys, braided.view, braided.view.terminal; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
