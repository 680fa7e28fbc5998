"""The page of a review, served on this computer only.

The address has a random token; requests without it, of another host or from pages of another origin
are refused. The page loads nothing from elsewhere.
"""

from __future__ import annotations

import json
import secrets
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any

from .review import Contradiction, Review

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
ASSETS = {
    "": ("review.html", "text/html"),
    "review.js": ("review.js", "text/javascript"),
    "style.css": ("style.css", "text/css"),
    "review.css": ("review.css", "text/css"),
}
LONGEST = 100_000  # bytes of a request
SAYS = {"yes": "yes", "no": "no", "skip": ""}


class ReviewServer(ThreadingHTTPServer):
    """Serves a review at a free port of 127.0.0.1; the page shows `command`, which goes on."""

    daemon_threads = True

    def __init__(self, review: Review, command: str = ""):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.review, self.command = review, command
        self.token = secrets.token_urlsafe(24)

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"

    @property
    def hosts(self) -> tuple[str, str]:
        """Names under which a browser may ask."""
        return f"127.0.0.1:{self.server_port}", f"localhost:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: ReviewServer
    timeout = 60

    def do_GET(self) -> None:
        """The page, its style and script."""
        name = self._allowed()
        if name is None:
            return
        if name not in ASSETS:
            self._send(HTTPStatus.NOT_FOUND, b"There is nothing here.\n")
            return
        file, kind = ASSETS[name]
        self._send(HTTPStatus.OK, (files(__package__) / file).read_bytes(), kind)

    def do_POST(self) -> None:
        """What the script asks: the question of a tab, after an answer or an undo if any."""
        name = self._allowed()
        if name is None:
            return
        try:
            request = self._request()
            if name not in ("state", "answer", "undo"):
                raise ValueError(f"there is no {name!r}")
            ask = self.server.review
            words = {key: request[key] for key in NEEDED[name]}
            if not all(isinstance(word, str) for word in words.values()):
                raise ValueError("expected text")
            says = SAYS[words.get("says", "skip")]
        except (ValueError, KeyError, TypeError) as error:
            self._send(HTTPStatus.BAD_REQUEST, f"Not understood: {error}\n".encode())
            return
        message = ""
        try:
            if name == "answer":
                ask.answer(words["left"], words["right"], says)
            elif name == "undo":
                ask.undo(**words)
        except (Contradiction, OSError) as error:
            message = str(error)
        try:
            found = {**ask.state(words["tab"]), "message": message, "command": self.server.command}
        except (ValueError, OSError) as error:  # such as a file that somebody else has spoilt
            self._send(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error}\n".encode())
            return
        self._send(HTTPStatus.OK, json.dumps(found).encode(), "application/json")

    def _request(self) -> dict[str, Any]:
        length = int(self.headers.get("Content-Length", ""))
        if not 0 <= length <= LONGEST:
            raise ValueError(f"expected at most {LONGEST} bytes, got {length}")
        found = json.loads(self.rfile.read(length))
        if not isinstance(found, dict):
            raise ValueError("expected an object")
        return found

    def _allowed(self) -> str | None:
        """The name that is asked for, after the token; None if the request was refused."""
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        _, _, rest = self.path.partition("/")
        token, slash, name = rest.partition("/")
        ours = secrets.compare_digest(token.encode(), self.server.token.encode())
        at_home = host in self.server.hosts and origin in (None, f"http://{host}")
        if ours and slash and at_home:
            return name
        self._send(HTTPStatus.FORBIDDEN, b"Use the address that the terminal shows.\n")
        return None

    def _send(self, status: HTTPStatus, content: bytes, kind: str = "text/plain") -> None:
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def version_string(self) -> str:
        """Nothing about this computer."""
        return "mlestruct"

    def log_message(self, *_: Any) -> None:
        """The terminal shows no requests."""


NEEDED = {"state": ("tab",), "answer": ("tab", "left", "right", "says"),
          "undo": ("tab", "left", "right")}  # fmt: skip
