# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Both ends of the wire as plain sockets: a backend that plays any bytes with any timing,
and a client that sends any bytes and sees exactly what comes back."""
import select
import socket
import struct
import threading
import time

from harness import SLOW, ports, wait_until

METRICS = (b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
           b"vllm:prompt_tokens_total 1\n")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


LAST_CHUNK = b"0\r\n\r\n"


def head(status="200 OK", **fields):
    lines = ["HTTP/1.1 " + status] + ["%s: %s" % (k.replace("_", "-"), v) for k, v in fields.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def json_answer(body=b'{"id":"x","object":"chat.completion","choices":[]}', status="200 OK"):
    return head(status, Content_Type="application/json", Content_Length=len(body)) + body


SSE_HEAD = head(Content_Type="text/event-stream; charset=utf-8", Transfer_Encoding="chunked")


def sse_event(text):
    return ('data: {"id":"x","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"%s"}}]}\n\n'
            % text).encode()


SSE_DONE = b"data: [DONE]\n\n"


def sse_answer(words=("a", "b", "c")):
    return SSE_HEAD + b"".join(chunk(sse_event(w)) for w in words) + chunk(SSE_DONE) + LAST_CHUNK


def set_rst(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class Closed(Exception):
    """The other side closed (`how`: "fin" or "rst") before what was waited for had come."""

    def __init__(self, how, got=b""):
        super().__init__("closed by %s after %r" % (how, got[-200:]))
        self.how, self.got = how, got


class Wire:
    """A socket with a buffer, deadlines, and a record of what came in."""

    def __init__(self, sock):
        self.sock = sock
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buf = b""
        self.received = 0

    def send(self, data):
        self.sock.settimeout(20 * SLOW)
        self.sock.sendall(data)

    def send_each(self, data, size=1, delay=0):
        """In writes of `size` bytes."""
        for i in range(0, len(data), size):
            self.send(data[i:i + size])
            if delay:
                time.sleep(delay)

    def fill(self, timeout=10):
        """Waits for more bytes. Raises Closed at the end of the stream."""
        self.sock.settimeout(timeout * SLOW)
        try:
            data = self.sock.recv(65536)
        except (ConnectionResetError, BrokenPipeError):
            raise Closed("rst", self.buf) from None
        except TimeoutError:
            raise AssertionError("no bytes within %.1f s; have %r" % (timeout * SLOW, self.buf[-300:])) from None
        if not data:
            raise Closed("fin", self.buf)
        self.received += len(data)
        self.buf += data

    def until(self, mark, timeout=10):
        while mark not in self.buf:
            self.fill(timeout)
        at = self.buf.index(mark) + len(mark)
        out, self.buf = self.buf[:at], self.buf[at:]
        return out

    def exactly(self, n, timeout=10):
        parts, have = [self.buf], len(self.buf)
        while have < n:
            self.buf = b""
            try:
                self.fill(timeout)
            except Closed as c:
                raise Closed(c.how, b"".join(parts)) from None
            parts.append(self.buf)
            have += len(self.buf)
        data = b"".join(parts)
        self.buf = data[n:]
        return data[:n]

    def to_end(self, timeout=10):
        """Everything until the other side closes: (bytes, "fin" or "rst")."""
        try:
            while True:
                self.fill(timeout)
        except Closed as c:
            out, self.buf = self.buf, b""
            return out, c.how

    def wait_closed(self, timeout=10):
        """When and how the other side closed: (time, how). Bytes before it are kept aside."""
        _, how = self.to_end(timeout)
        return time.monotonic(), how

    def silent(self, seconds):
        """True if nothing comes, not even an end, for so long."""
        return not self.buf and not select.select([self.sock], [], [], seconds)[0]

    def fin(self):
        self.sock.shutdown(socket.SHUT_WR)

    def rst(self):
        set_rst(self.sock)
        self.sock.close()

    def close(self):
        try:
            self.sock.close()
        except OSError:
            pass


class Message:
    """A head and what its framing holds."""

    def __init__(self, raw_head):
        self.raw_head = raw_head
        lines = raw_head[:-4].split(b"\r\n")
        self.start = lines[0].decode("latin-1")
        self.fields = []
        for line in lines[1:]:
            name, _, value = line.partition(b":")
            self.fields.append((name.decode("latin-1").lower(), value.strip().decode("latin-1")))
        self.body = b""
        self.chunks = []      # payload of each chunk, where chunked
        self.cut = None       # "fin" or "rst": the stream ended before the message did
        self.time_head = time.monotonic()
        self.time_end = None

    def all(self, name):
        return [v for n, v in self.fields if n == name]

    def get(self, name):
        values = self.all(name)
        assert len(values) <= 1, "%d fields %s" % (len(values), name)
        return values[0] if values else None

    @property
    def chunked(self):
        return (self.get("transfer-encoding") or "").lower() == "chunked"

    def read_body(self, wire, no_body=False, until_close=False, timeout=10):
        length = self.get("content-length")
        try:
            if no_body:
                pass
            elif self.chunked:
                assert length is None, "both framings"
                while True:
                    size = int(wire.until(b"\r\n", timeout)[:-2], 16)
                    if not size:
                        break
                    self.chunks.append(wire.exactly(size, timeout))
                    assert wire.exactly(2, timeout) == b"\r\n"
                assert wire.exactly(2, timeout) == b"\r\n", "trailers"
                self.body = b"".join(self.chunks)
            elif length is not None:
                self.body = wire.exactly(int(length), timeout)
            elif until_close:
                self.body, how = wire.to_end(timeout)
                self.cut = None if how == "fin" else how
        except Closed as c:
            self.cut = c.how
            self.body = b"".join(self.chunks) + (c.got if not self.chunked else b"")
        self.time_end = time.monotonic()


class Request(Message):
    def __init__(self, raw_head, peer):
        super().__init__(raw_head)
        self.peer = peer
        self.method, self.target, self.version = self.start.split(" ")


class Response(Message):
    def __init__(self, raw_head):
        super().__init__(raw_head)
        self.version, status = self.start.split(" ")[:2]
        self.status = int(status)
        self.interims = []


class Client(Wire):
    """A client connection to `port`, from the address `source` if one is given."""

    def __init__(self, port, rcvbuf=None, source=None):
        sock = socket.socket()
        if source:
            sock.bind((source, 0))
        if rcvbuf:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, rcvbuf)
        sock.settimeout(5 * SLOW)
        sock.connect(("127.0.0.1", port))
        super().__init__(sock)

    def post(self, body, path="/v1/chat/completions", fields=()):
        self.send(post_bytes(body, path, fields))

    def response_head(self, timeout=10):
        interims = []
        while True:
            r = Response(self.until(b"\r\n\r\n", timeout))
            if r.status >= 200 or r.status == 101:
                r.interims = interims
                return r
            interims.append(r)

    def response(self, method="POST", timeout=10):
        r = self.response_head(timeout)
        no_body = method == "HEAD" or r.status in (204, 304)
        r.read_body(self, no_body, until_close=True, timeout=timeout)
        return r


def post_bytes(body, path="/v1/chat/completions", fields=()):
    lines = ["POST %s HTTP/1.1" % path, "Host: kvsteer.test", "Content-Type: application/json",
             "Content-Length: %d" % len(body)] + list(fields)
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


class Peer(Wire):
    """A connection from the router, as the backend sees it."""

    def __init__(self, sock, backend):
        super().__init__(sock)
        self.backend = backend
        self.accepted = time.monotonic()

    def read_request(self, timeout=60):
        """The next inference request, or None when the router closed. Reads of the
        metrics page are answered on the way."""
        while True:
            try:
                raw = self.until(b"\r\n\r\n", timeout)
            except Closed as c:
                self.backend.count(len(c.got))
                return None
            if raw.startswith(b"GET " + self.backend.metrics_path):
                self.send(head(Content_Type="text/plain", Content_Length=len(METRICS)) + METRICS)
                continue
            self.backend.count(len(raw))
            r = Request(raw, self)
            with self.backend.changed:
                self.backend.begun.append(r)
                self.backend.changed.notify_all()
            if self.backend.on_head:
                self.backend.on_head(self, r)
            before = self.received - len(self.buf)
            r.read_body(self)
            self.backend.count(self.received - len(self.buf) - before)
            with self.backend.changed:
                self.backend.requests.append(r)
                self.backend.changed.notify_all()
            return r


class Backend:
    """Listens on a port of its own; every connection has a thread. `on_request(peer,
    request)` plays the answer; by default a short JSON answer. `on_accept(peer)` returns
    False to keep the connection to itself; `on_head(peer, request)` runs before the body is read."""

    metrics_path = b"/metrics"

    def __init__(self, on_request=None, on_accept=None, on_head=None, port=None):
        self.on_request = on_request or (lambda peer, request: peer.send(json_answer()))
        self.on_accept, self.on_head = on_accept, on_head
        self.changed = threading.Condition()
        self.begun = []     # requests whose head has come
        self.requests = []  # requests that have come whole
        self.peers = []
        self.bytes_in = 0   # of inference requests
        self.port = port or ports.get()
        self.url = "http://127.0.0.1:%d" % self.port
        self.name = "127.0.0.1:%d" % self.port
        self.sock = socket.socket()
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.sock.bind(("127.0.0.1", self.port))
        self.sock.listen(256)
        self.closing = False
        threading.Thread(target=self._accept, daemon=True).start()

    def count(self, n):
        with self.changed:
            self.bytes_in += n

    def _accept(self):
        while True:
            try:
                sock, _ = self.sock.accept()
            except OSError:
                return
            peer = Peer(sock, self)
            with self.changed:
                self.peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer):
        try:
            if self.on_accept and self.on_accept(peer) is False:
                return
            while True:
                request = peer.read_request()
                if request is None or request.cut:
                    break
                if self.on_request(peer, request) == "close":
                    break
        except (OSError, AssertionError, Closed, ValueError):
            pass # the router closed under the script, or the test is over
        peer.close()

    def _wait(self, what, n, timeout):
        with self.changed:
            ok = self.changed.wait_for(lambda: len(what) >= n, timeout * SLOW)
            assert ok, "%s has %d requests, not %d" % (self.name, len(what), n)
            return what[n - 1]

    def wait_request(self, n=1, timeout=5):
        """The n-th request, whole."""
        return self._wait(self.requests, n, timeout)

    def wait_begun(self, n=1, timeout=5):
        """The n-th request, its head at least."""
        return self._wait(self.begun, n, timeout)

    def close(self):
        """Stops listening and resets every connection."""
        self.closing = True
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()
        for peer in self.peers:
            try:
                set_rst(peer.sock)
            except OSError:
                pass
            try:
                peer.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            peer.close()


class Gate:
    """A point that a script waits at until the test opens it."""

    def __init__(self):
        self.event = threading.Event()

    def open(self):
        self.event.set()

    def wait(self, timeout=30):
        assert self.event.wait(timeout * SLOW), "nobody opened the gate"


__all__ = ["Backend", "Client", "Closed", "Gate", "LAST_CHUNK", "SSE_DONE", "SSE_HEAD", "chunk", "head", "json_answer",
           "post_bytes", "sse_answer", "sse_event", "wait_until"]
