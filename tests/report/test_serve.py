"""The server of a growing study's page: what it answers, whom it refuses, and when it makes the page anew."""

import http.client
import json
import socket
import threading

import pytest

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
    assert server.server_address[0] == "127.0.0.1"  # the loopback address only
    answer, body = ask(server)
    assert (answer.status, body) == (200, server.page.html)
    assert answer.getheader("Content-Type") == "text/html; charset=utf-8"
    assert answer.getheader("Cache-Control") == "no-store"
    answer, body = ask(server, "/version")
    assert json.loads(body) == {"version": server.page.version, "error": ""}
    answer, body = ask(server, method="HEAD")
    assert (answer.status, body, answer.getheader("Content-Length")) == (200, b"", str(len(server.page.html)))


OWN, OTHERS = ("localhost", "LOCALHOST", "127.0.0.1"), ("evil.example", "0.0.0.0", "127.0.0.1:1", "evil.example:1", "")
REFUSED = [
    *(
        (path, "GET", "127.0.0.1:{port}", 404)
        for path in ("/config.json", "/../config.json", "//etc/passwd", "/version/")
    ),
    *(("/", method, "127.0.0.1:{port}", 501) for method in ("POST", "PUT", "DELETE", "OPTIONS")),  # it only reads
    *((path, "GET", host, 403) for path in ("/", "/version") for host in (*OTHERS, *OWN, "evil.example:{port}")),
    *(("/", "GET", f"{host}:{{port}}", 200) for host in OWN),
]


def test_it_has_no_other_files_only_reads_and_answers_its_own_names_only(server):
    for path, method, host, status in REFUSED:
        answer, body = ask(server, path, method, Host=host.format(port=server.server_port))
        assert (answer.status, b"one" in body) == (status, status == 200), (path, method, host)


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


@pytest.mark.usefixtures("at_once")
def test_it_prints_its_address_follows_the_file_and_ends_by_ctrl_c(pages, monkeypatch, capsys):
    """The loop runs here; each time that it rests, the next step of the reader comes."""
    asked = []

    def page_at(address):
        connection = http.client.HTTPConnection(address, timeout=20)
        connection.request("GET", "/")
        return connection.getresponse().read().decode()

    def rest(seconds):
        if not asked:
            address = capsys.readouterr().out.split()[0].removeprefix("http://").rstrip("/")
            asked.extend((address, page_at(address)))
            pages.path.write_text("grown")
        elif len(asked) == 2:
            asked.append(page_at(asked[0]))
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(serving.time, "sleep", rest)
    serve(pages.make, pages.watched, 0)
    assert "<main>one" in asked[1]
    assert "<main>grown" in asked[2]
