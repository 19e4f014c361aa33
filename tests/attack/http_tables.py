"""Bytes that are no honest HTTP request, and what becomes of them: the same on every HTTP port, which share one floor.

`%POST%` stands for a request line that would need a body, `%GET%` for one that answers 200. A case ends with at most so
many answers as it names: what follows in the bytes is never a request of its own.
"""

from dataclasses import dataclass

HOST = b"Host: 127.0.0.1\r\n"
#: a whole request hidden behind the first one; whoever answers it has been smuggled past
HIDDEN = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EVIL = b"Host: evil.example\r\n"
CLOSE = b"Connection: close\r\n"
BAD = (400,)


@dataclass(frozen=True)
class Case:
    """`answers`: the statuses that come, in order; `()` = the connection is closed without a word."""

    name: str
    data: bytes
    answers: tuple[int, ...] = BAD


def _post(head: bytes, body: bytes = b"", host: bytes = HOST) -> bytes:
    return b"%POST% HTTP/1.1\r\n" + host + head + b"\r\n" + body


def _get(head: bytes = b"", host: bytes = HOST, line: bytes = b"%GET% HTTP/1.1\r\n") -> bytes:
    return line + host + head + b"\r\n"


#: two readers could disagree where these end: 400, one answer, the connection is closed
FRAMING = [
    Case("CL.TE", _post(b"Content-Length: 4\r\n" + CHUNKED, b"0\r\n\r\n" + HIDDEN)),
    Case("TE.CL", _post(CHUNKED + b"Content-Length: 4\r\n", b"0\r\n\r\n" + HIDDEN)),
    *[
        Case(f"TE obfuscated: {header!r}", _post(header + b"\r\n", b"0\r\n\r\n" + HIDDEN))
        for header in (
            b"Transfer-Encoding: xchunked",
            b"Transfer-Encoding: chunked, chunked",
            b"Transfer-Encoding: chunked\r\nTransfer-Encoding: x",
            b"Transfer-Encoding: x\r\nTransfer-Encoding: chunked",
            b"Transfer-Encoding: chunked, identity",
            b"Transfer-Encoding: identity, chunked, gzip",
            b"Transfer-Encoding : chunked",
            b"Transfer-Encoding\t: chunked",
            b"Transfer-Encoding: chunked\x0b",
            b"Transfer-Encoding: \x00chunked",
            b"Transfer-Encoding: \"chunked\"",
            b"Transfer-Encoding: 'chunked'",
            b"Transfer-Encoding:\r\n chunked",
            b" Transfer-Encoding: chunked",
            b"X: y\nTransfer-Encoding: chunked",
            b"X: y\rTransfer-Encoding: chunked",
        )
    ],
    *[
        Case(f"CL {value!r}", _post(b"Content-Length: " + value + b"\r\n", HIDDEN))
        for value in (
            b"-1", b"+5", b"5 5", b"5, 5", b"5,6", b"0x10", b"1e3", b"5.0", b"\xb2", b"1_0", b"5;", b"0 ,0",
            b"99999999999999999999999999", b"5\x00", b"",
        )
    ],
    Case("CL twice, the same", _post(b"Content-Length: 0\r\nContent-Length: 0\r\n", HIDDEN)),
    Case("CL twice, different", _post(b"Content-Length: 0\r\nContent-Length: 7\r\n", HIDDEN)),
    *[
        Case(f"chunk {chunk!r}", _post(CHUNKED, chunk + b"\r\n\r\n" + HIDDEN))
        for chunk in (
            b"-1\r\nx", b"+1\r\nx", b"0x1\r\nx", b"zz\r\nx", b"\r\nx", b" 1\r\nx", b"fffffffffffffffff\r\nx",
            b"1\r\nxyz", b"1\nx", b"1\r\nx\r\n0\nX: y", b"1;\nx",
        )
    ],
    Case("bare CR in the request line", b"%GET%\r HTTP/1.1\r\n" + HOST + b"\r\n"),
    Case("bare LF between headers", b"%GET% HTTP/1.1\nHost: 127.0.0.1\n\n"),
    Case("obs-fold", _get(b"X: a\r\n b\r\n")),
    Case("NUL in a name", _get(b"X\x00Y: a\r\n")),
    Case("NUL in a value", _get(b"X: a\x00b\r\n")),
    Case("a name with a space", _get(b"X Y: a\r\n")),
    Case("a name with a control character", _get(b"X\x01: a\r\n")),
    Case("a name beyond ASCII", _get("Ä: a\r\n".encode())),
    Case("no name", _get(b": a\r\n")),
    Case("no colon", _get(b"X\r\n")),
    Case("trailing blank in a name", _get(b"Host : a\r\n")),
]  # fmt: skip

#: who is spoken to: a Host that is missing, twice, odd or foreign
HOSTS = [
    Case(f"Host {host!r}", _get(host=host))
    for host in (
        b"", HOST * 2, b"Host: 127.0.0.1\r\nHost: evil.example\r\n", b"Host: evil.example\r\n", b"Host: \r\n",
        b"Host: /\r\n",
        b"Host: localhost.evil\r\n", b"Host: 127.0.0.1.nip.io\r\n", b"Host: 127.0.0.1.evil.example:80\r\n",
        b"Host: evil@127.0.0.1@evil.example\r\n", b"Host: user@127.0.0.1\r\n", b"Host: 127.0.0.1/evil\r\n",
        b"Host: 127.0.0.1?evil\r\n", b"Host: 127.0.0.1#evil\r\n", b"Host: 127.0.0.1:port\r\n",
        b"Host: 127.0.0.1:99999\r\n", b"Host: 127.0.0.1, evil.example\r\n", b"Host: 127.0.0.1 evil.example\r\n",
        b"Host: [::1\r\n", b"Host: [::1]evil\r\n", b"Host: [2001:db8::1]\r\n", b"Host: 0.0.0.0\r\n",
        b"Host: 10.0.0.1\r\n",
        b"Host: 169.254.169.254\r\n", b"Host: 2130706434.example\r\n", b"Host: \xff\xfe\r\n",
        b"Host: xn--lclhost-6ya\r\n",
        "Host: loc\u0430lhost\r\n".encode(),
    )
] + [
    Case(f"Host {host!r}", _get(b"Connection: close\r\n", host=host), (200,))
    for host in (
        b"Host: localhost\r\n", b"Host: LOCALHOST:8080\r\n", b"host:127.0.0.1\r\n", b"HOST: \t 127.0.0.1 \t\r\n",
        b"Host: localhost.\r\n", b"Host: [::1]:1\r\n", b"Host: 127.1.2.3\r\n",
    )
]  # fmt: skip

#: requests that a page of another origin can make a browser send
ORIGINS = [
    Case(f"Origin {origin!r}", _get(b"Origin: " + origin + b"\r\n" + CLOSE))
    for origin in (
        b"https://evil.example", b"null", b"", b"http://localhost.evil.example", b"http://127.0.0.1.nip.io",
        b"http://evil@",
        b"http://127.0.0.1@evil.example", b"http://localhost:80@evil", b"file://", b"http://[::1].evil", b"http://10.0.0.1",
        b"http://localhost, https://evil.example", b"http://localhost\r\nOrigin: https://evil.example",
        b"localhost", b"\xff",
    )
] + [
    Case(f"a simple request: {kind!r}", _post(b"Origin: https://evil.example\r\nSec-Fetch-Site: cross-site\r\n"
                                              b"Content-Type: " + kind + b"\r\nContent-Length: 2\r\n" + CLOSE, b"{}"))
    for kind in (b"text/plain", b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x")
] + [
    Case("a preflight", _get(b"Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n" + CLOSE,
                             line=b"OPTIONS /healthz HTTP/1.1\r\n")),
    Case("an own preflight", _get(b"Origin: http://localhost:3000\r\nAccess-Control-Request-Method: POST\r\n" + CLOSE,
                                  line=b"OPTIONS /healthz HTTP/1.1\r\n"), (405,)),
]  # fmt: skip

#: keys and tokens that are none: told so, wherever one is asked for (the Control Plane has nothing to guard: 405)
KEYS = [
    Case(f"Authorization {value!r}", _post(b"Authorization: " + value + b"\r\nContent-Type: application/json\r\n"
                                           b"Connection: close\r\nContent-Length: 2\r\n", b"{}"), (400, 401, 405))
    for value in (
        b"", b"Bearer", b"Bearer ", b"Bearer \xff\xfe", "Bearer tökén".encode(), b"Bearer " + b"a" * 60_000,
        b"Basic OmE=",
        b"Bearer a, Bearer b", b"bearer\ta", b"Bearer null", b"Bearer *", b"Negotiate abc",
    )
] + [
    Case("two Authorization headers", _post(b"Authorization: Bearer a\r\nauthorization: Bearer b\r\n" + CLOSE +
                                            b"Content-Length: 0\r\n"), (400, 405)),
]  # fmt: skip

#: forms of the request line, old and new protocols
LINES = [
    Case("absolute-form of our own", _get(CLOSE, line=b"GET http://127.0.0.1/healthz HTTP/1.1\r\n"), (200,)),
    Case("absolute-form of others", _get(CLOSE, line=b"GET http://evil.example/healthz HTTP/1.1\r\n"), (200,)),
    Case("absolute-form, foreign Host", _get(line=b"GET http://127.0.0.1/healthz HTTP/1.1\r\n", host=EVIL)),
    Case("CONNECT", _get(line=b"CONNECT evil.example:80 HTTP/1.1\r\n"), (404,)),
    Case("TRACE", _get(b"Connection: close\r\nCookie: secret\r\n", line=b"TRACE /healthz HTTP/1.1\r\n"), (405,)),
    Case("a method nobody knows", _get(line=b"GETS /healthz HTTP/1.1\r\n")),
    Case("a lower-case method", _get(line=b"get /healthz HTTP/1.1\r\n")),
    Case("HTTP/0.9", b"GET /healthz\r\n\r\n"),
    Case("HTTP/1.0", b"GET /healthz HTTP/1.0\r\n" + HOST + b"\r\n", (200,)),
    Case("HTTP/1.2", _get(line=b"GET /healthz HTTP/1.2\r\n")),
    Case("HTTP/2 by itself", _get(line=b"GET /healthz HTTP/2.0\r\n")),
    Case("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("upgrade to h2c", _get(b"Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\n"
                                 b"HTTP2-Settings: AAMAAABk\r\n"), (200, 426)),
    Case("two blanks", _get(line=b"GET  /healthz HTTP/1.1\r\n"), (200, 400)),
    Case("a tab", _get(line=b"GET\t/healthz HTTP/1.1\r\n")),
    Case("no path", _get(line=b"GET HTTP/1.1\r\n")),
    Case("a TLS hello", bytes.fromhex("1603010200010001fc0303") + bytes(200)),
    Case("a frame of the link", b"\x00\x00\x00\x02\x00{}" + b"\r\n\r\n"),
    Case("noise", bytes(range(128, 256)) * 3 + b"\r\n\r\n"),
    Case("Expect of something else", _post(b"Expect: 200-maybe\r\nContent-Length: 2\r\n", b"{}")),
    Case("a line of 70 KiB", _get(line=b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n")),
    Case("a header of 70 KiB", _get(b"X: " + b"a" * 70_000 + b"\r\n")),
    Case("ten thousand headers", _get(b"".join(b"X-%d: y\r\n" % number for number in range(10_000)))),
    Case("one header ten thousand times", _get(b"X: y\r\n" * 10_000)),
]  # fmt: skip

#: paths that want out, or that two readers spell in two ways
PATHS = [
    Case(f"path {path!r}", _get(b"Connection: close\r\n", line=b"GET " + path + b" HTTP/1.1\r\n"), (400, 404))
    for path in (
        b"/../../etc/passwd", b"/v1/../../etc/passwd", b"/%2e%2e/%2e%2e/etc/passwd", b"/..%2f..%2fetc%2fpasswd",
        b"/..%5c..%5cwindows", b"/\\..\\..", b"/%c0%ae%c0%ae/etc/passwd", b"/%00", b"/a%00b", b"/%ff%fe", b"/%",
        b"/%zz",
        b"/%u002e", b"/\xff\xfe", b"/;/", b"/..;/status", b"//evil.example/%2f..", b"/nodes/..%2f..%2fconfig/refresh",
        b"/edges/%00/status", b"/edges/..%2f..%2f/status", b"/edges/%ff/status", b"/v1/models/%00", b"/v1/models/%ff",
        b"/v1/models/..%2f..", b"/openapi.json/../../../etc/passwd", b"/x?" + b"a=b&" * 5000, b"/x#frag",
        b"/" + b"a/" * 20_000,
        b"/%e2%80%ae", b"/<script>alert(1)</script>",
    )
]  # fmt: skip
