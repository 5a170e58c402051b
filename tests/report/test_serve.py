"""The server of a growing study's page: what it answers, and whom it refuses."""

import http.client
import threading

from mdfl_jax.report import serve as serving
from mdfl_jax.report.serve import LivePage

OWN, OTHERS = "127.0.0.1:{port}", ("evil.example", "127.0.0.1:1", "evil.example:{port}", "localhost", "")
ASKED = [
    ("/", "GET", OWN, 200),
    *((path, "GET", OWN, 404) for path in ("/config.json", "/../config.json", "//etc/passwd")),
    *(("/", method, OWN, 501) for method in ("POST", "PUT", "DELETE", "OPTIONS")),  # it only reads
    *((path, "GET", host, 403) for path in ("/", "/version") for host in OTHERS),
]


def ask(server, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, body


def test_it_has_no_other_files_only_reads_and_answers_its_own_names_only():
    page = LivePage(lambda: "<!doctype html><html><body><main>one</main></body></html>", lambda: [])
    page.make()
    with serving._Server(page, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            assert server.server_address[0] == "127.0.0.1"  # the loopback address only
            for asked, method, host, status in ASKED:
                found, body = ask(server, asked, method, Host=host.format(port=server.server_port))
                assert (found, b"one" in body) == (status, status == 200), (asked, method, host)
        finally:
            server.shutdown()
            thread.join()
