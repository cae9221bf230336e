"""The client from outside: proxies, redirects, replies that end badly, connections that are not what they seem."""
import os
import socket
import ssl
import subprocess
import threading

from harness import RELAXED, Server, eq, has, main, one_turn, simple_chat


class Proxy:
    """Forwards plain requests for any name to `port`, tunnels CONNECT there; `log` keeps the request lines and heads."""

    def __init__(self, port):
        self.port, self.log = port, []
        self.sock = socket.socket()
        self.sock.bind(("127.0.0.1", 0))
        self.sock.listen(64)
        self.url = f"127.0.0.1:{self.sock.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sock.close()

    def _accept(self):
        while True:
            try:
                client, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    @staticmethod
    def _pump(a, b):
        try:
            while data := a.recv(65536):
                b.sendall(data)
        except OSError:
            pass
        for s in (a, b):
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def _serve(self, client):
        try:
            data = b""
            while b"\r\n\r\n" not in data:
                data += client.recv(65536)
            self.log.append(data.split(b"\r\n\r\n")[0].decode())
            server = socket.create_connection(("127.0.0.1", self.port))
            if data.startswith(b"CONNECT "):
                client.sendall(b"HTTP/1.1 200 Go\r\n\r\n")
            else:  # the harness's server looks at the path alone
                line, rest = data.split(b"\r\n", 1)
                method, url, version = line.split(b" ")
                server.sendall(b" ".join([method, b"/" + url.split(b"/", 3)[3], version]) + b"\r\n" + rest)
            threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
            self._pump(client, server)
        except OSError:
            pass


def certificate(work):
    cert, key = os.path.join(work.path, "cert.pem"), os.path.join(work.path, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=far.invalid",
                    "-addext", "subjectAltName=DNS:far.invalid", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context, cert


def good(_request, c):
    simple_chat(c)


def run(work, *args, script=None, timeout=60):
    work.write("s.lua", script or one_turn(sessions=3))
    return work.perigee("run", "s.lua", "--workers", "2", *RELAXED, *args, timeout=timeout)


def test_a_proxy_carries_every_request_of_a_plain_fleet(work):
    """The fleet's name resolves nowhere: only the proxy knows the way, for the look before and the run itself."""
    with Server(good) as server, Proxy(server.port) as proxy:
        result = run(work, "--replica", "http://far.invalid", "--proxy", f"http://me:secret@{proxy.url}")
        eq(result.status, 0, result.err)
        eq(result.summary["requests"]["ok"], 3)
        lines = [p.split("\r\n")[0] for p in proxy.log]
        eq(lines[0], "GET http://far.invalid/v1/models HTTP/1.1")
        assert len(lines) >= 2 and set(lines[1:]) == {"POST http://far.invalid/v1/chat/completions HTTP/1.1"}, lines
        has(proxy.log[1], "Proxy-Authorization: Basic bWU6c2VjcmV0")
        eq(result.run["fleet"]["proxy"], proxy.url)
        for name in os.listdir(result.folder):
            path = os.path.join(result.folder, name)
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as f:
                    assert "secret" not in f.read(), name


def test_a_proxy_tunnels_tls(work):
    context, cert = certificate(work)
    with Server(good, tls=context) as server, Proxy(server.port) as proxy:
        result = run(work, "--replica", "https://far.invalid", "--proxy", f"http://{proxy.url}", "--ca-file", cert)
        eq(result.status, 0, result.err)
        eq(result.summary["requests"]["ok"], 3)
        lines = [p.split("\r\n")[0] for p in proxy.log]
        assert len(lines) >= 2 and set(lines) == {"CONNECT far.invalid:443 HTTP/1.1"}, lines
        for request in server.requests:
            eq(request.headers["host"], "far.invalid")


def test_proxies_of_the_environment_are_ignored(work):
    with Server(good) as server, Proxy(1) as proxy:
        env = {name: f"http://{proxy.url}" for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY")}
        work.write("s.lua", one_turn())
        result = work.perigee("run", "s.lua", "--replica", server.url, *RELAXED, env=env)
        eq(result.status, 0, result.err)
        eq(proxy.log, [])


def test_a_bad_proxy_is_refused_by_its_option(work):
    for value, words in (("proxy:3128", "it must begin with http://"), ("http://me:secret@p:x", 'proxy "p:x": the port'),
                         ("socks5h://", "it names no host"), ("http://a b", "no spaces")):
        result = run(work, "--replica", "http://127.0.0.1:1", "--proxy", value)
        eq(result.status, 2, result.err)
        has(result.err, "--proxy: ")
        has(result.err, words)
        assert "secret" not in result.err


if __name__ == "__main__":
    main(globals())
