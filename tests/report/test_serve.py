"""The server of a growing study's page: what it answers, whom it refuses, and when it makes the page anew."""

import http.client
import json
import socket
import subprocess
import sys
import threading
import time

import pytest
from shell import heed_interrupts

from mdfl_jax.core.errors import UserError
from mdfl_jax.report import serve as serving
from mdfl_jax.report.serve import LivePage, serve

PAGE = "<!doctype html><html><body><main>{}</main></body></html>"


class Pages:
    """Counts how often a page is made of a file; a file that says 'broken' cannot be shown."""

    def __init__(self, path):
        self.path, self.made = path, 0

    def make(self):
        self.made += 1
        text = self.path.read_text()
        if text == "broken":
            raise UserError("the last line\nis torn")
        return PAGE.format(text)

    def watched(self):
        return [self.path, self.path.with_name("absent")]


@pytest.fixture
def pages(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text("one")
    return Pages(path)


@pytest.fixture
def at_once(monkeypatch):
    """No rest between two pages."""
    monkeypatch.setattr(serving, "SHARE", 1.0)
    monkeypatch.setattr(serving, "REST", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_page_is_made_again_only_while_it_is_shown_and_after_a_change(pages):
    page = LivePage(pages.make, pages.watched)
    page.make()
    assert (pages.made, page.html.count(b"<main>one"), page.html.count(b"<script data-version=")) == (1, 1, 1)
    pages.path.write_text("another")
    assert not page.make_if_due()  # nobody has asked for it
    first = page.asked()["version"]
    assert page.make_if_due()
    assert b"another" in page.html
    assert page.asked() == {"version": page.version, "error": ""}
    assert page.version > first
    assert not page.make_if_due()
    assert pages.made == 2


def test_making_the_page_takes_a_part_of_the_time_only(pages, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(serving.time, "monotonic", lambda: clock[0])
    page = LivePage(lambda: clock.__setitem__(0, clock[0] + 3) or pages.make(), pages.watched)
    page.make()  # 3 s
    assert 3 / serving.SHARE - 3 > serving.REST
    pages.path.write_text("another")
    page.asked()
    clock[0] += 3 / serving.SHARE - 3 - 0.01
    assert not page.make_if_due()
    clock[0] += 0.02
    page.asked()
    assert page.make_if_due()


@pytest.mark.usefixtures("at_once")
def test_a_page_that_cannot_be_made_now_stays_as_it_was_and_says_so(pages, capsys):
    page = LivePage(pages.make, pages.watched)
    page.make()
    version = page.version
    pages.path.write_text("broken")
    page.asked()
    assert page.make_if_due()
    assert b"one" in page.html
    assert page.asked() == {"version": version, "error": "the last line is torn"}
    assert capsys.readouterr().err == "the page stays as it was: the last line is torn\n"
    pages.path.write_text("whole again")
    assert page.make_if_due()
    assert page.asked()["error"] == ""


def test_the_first_page_must_succeed(pages):
    pages.path.write_text("broken")
    with pytest.raises(UserError, match="torn"):
        serve(pages.make, pages.watched, 0)


# Over a socket.


@pytest.fixture
def server(pages):
    page = LivePage(pages.make, pages.watched)
    page.make()
    with serving._Server(page, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer, body


def test_it_answers_with_the_page_and_its_version(server):
    answer, body = ask(server)
    assert (answer.status, body) == (200, server.page.html)
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("Cache-Control") == "no-store"
    answer, body = ask(server, "/version")
    assert json.loads(body) == {"version": server.page.version, "error": ""}
    answer, body = ask(server, method="HEAD")
    assert (answer.status, body, answer.getheader("Content-Length")) == (200, b"", str(len(server.page.html)))


@pytest.mark.parametrize("path", ["/config.json", "/../config.json", "//etc/passwd", "/version/", "/%2e%2e/"])
def test_it_has_no_other_files(server, path):
    assert ask(server, path)[0].status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_it_only_reads(server, method):
    assert ask(server, method=method)[0].status == 501


OTHERS = ("evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "0.0.0.0:{port}", "")


@pytest.mark.parametrize("host", OTHERS)
@pytest.mark.parametrize("path", ["/", "/version"])
def test_another_host_is_refused(server, host, path):
    answer, body = ask(server, path, Host=host.format(port=server.server_port))
    assert answer.status == 403
    assert b"one" not in body


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST", "127.0.0.1"])
def test_its_own_names_are_answered(server, host):
    assert ask(server, Host=f"{host}:{server.server_port}")[0].status == 200


def test_it_listens_on_the_loopback_address_only(server):
    assert server.server_address[0] == "127.0.0.1"


def test_an_occupied_port_is_one_line_and_nothing_is_made(pages):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        held.listen()
        port = held.getsockname()[1]
        with pytest.raises(UserError, match=rf"^--serve={port}: address already in use; 0 takes any free port$"):
            serve(pages.make, pages.watched, port)
    assert pages.made == 0


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_one_line(pages, port):
    with pytest.raises(UserError, match=rf"^--serve={port}: a port is a number from 0 to 65535; "):
        serve(pages.make, pages.watched, port)


PROGRAM = """
import sys
from pathlib import Path
from mdfl_jax.report.serve import serve
path = Path(sys.argv[1])
serve(lambda: f"<html><body>{path.read_text()}</body></html>", lambda: [path], 0)
print("ended")
"""


def test_it_prints_its_address_follows_the_file_and_ends_with_status_0(pages):
    command = [sys.executable, "-c", PROGRAM, str(pages.path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts
    )
    try:
        address = process.stdout.readline().split()[0]
        port = int(address.removeprefix("http://127.0.0.1:").rstrip("/"))

        def text(path):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            connection.request("GET", path)
            return connection.getresponse().read().decode()

        assert "<body>one<script" in text("/")
        pages.path.write_text("grown")
        deadline = time.monotonic() + 30
        while "grown" not in text("/") and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "<body>grown<script" in text("/")
        process.send_signal(2)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, err) == (0, "ended\n", "")
