"""A replica that runs the MCP Python SDK, for the tests beside it.

It reads one JSON request a line and answers each with a line. Every token is
sealed and verified by the SDK's own middleware; nothing of the format is written
here. Text that JSON on the way could change travels as base64 of its UTF-8 (lone
surrogates as three bytes).
"""

import asyncio
import base64
import functools
import json
import logging
import sys
import types

from mcp.server import request_state
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.context import ServerRequestContext
from mcp.server.request_state import RequestStateBoundary, RequestStateSecurity
from mcp.shared.exceptions import MCPError


def text(b64):
    return base64.b64decode(b64).decode("utf-8", "surrogatepass")


def b64(value):
    data = value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
    return base64.b64encode(data).decode()


class Clock:
    """The SDK asks time.time(); the tests say what it answers."""

    now = 0.0

    def time(self):
        return self.now


class Reasons(logging.Handler):
    """Keeps the last thing the SDK logged: its reason for a refusal."""

    last = ""

    def emit(self, record):
        self.last = record.getMessage()


CLOCK = Clock()
REASONS = Reasons()
PRINCIPAL = types.SimpleNamespace(text=None)


@functools.lru_cache(maxsize=64)
def security(keys, ttl, named):
    bind = {"bind_principal": lambda ctx: PRINCIPAL.text} if named else {}
    return RequestStateSecurity(keys=[bytes.fromhex(k) for k in keys], ttl=ttl, **bind)


class Peer:
    ring = None

    def start(self, req):
        """Reads the key ring once, as a server does when it starts."""
        self.ring = eval(text(req["export"]), {"RequestStateSecurity": RequestStateSecurity, "__builtins__": {"bytes": bytes}})
        return {}

    def policy(self, req):
        if req.get("keys") is None:
            return self.ring
        return security(tuple(req["keys"]), req["ttl"], req.get("principal") is not None)

    async def through(self, req, handler, state=None):
        """Sends a request through the middleware, with handler behind it."""
        CLOCK.now = req["now"]
        PRINCIPAL.text = None if req.get("principal") is None else text(req["principal"])
        params = json.loads(base64.b64decode(req["params"]))
        if state is not None:
            params["requestState"] = state
        audience = None if req.get("audience") is None else text(req["audience"])
        ctx = ServerRequestContext(
            session=None, lifespan_context={}, protocol_version="2026-07-28", method=req["method"], params=params
        )
        boundary = RequestStateBoundary(self.policy(req), default_audience=audience)
        login = req.get("login")
        user = None
        if login is not None:
            claims = None if login["iss"] is None else {"iss": login["iss"]}
            user = AuthenticatedUser(
                AccessToken(token="t", client_id=login["client_id"], scopes=[], subject=login["sub"], claims=claims)
            )
        reset = auth_context_var.set(user)
        try:
            return await boundary(ctx, handler)
        finally:
            auth_context_var.reset(reset)

    async def seal(self, req):
        async def ask(ctx):
            return {"resultType": "input_required", "inputRequests": {}, "requestState": text(req["state"])}

        token = (await self.through(req, ask))["requestState"]
        return {"token": token, "claims": b64(self.policy(req).codec.unseal(token))}

    async def open(self, req):
        seen = {}

        async def act(ctx):
            seen["state"] = ctx.params["requestState"]
            return {}

        REASONS.last = ""
        try:
            await self.through(req, act, state=text(req["token"]))
        except MCPError as e:
            wire = e.error.model_dump(mode="json", by_alias=True, exclude_none=True)
            return {"refused": REASONS.last.rpartition(": ")[2], "wire": json.dumps(wire, separators=(",", ":"))}
        return {"state": b64(seen["state"])}

    async def answer(self, req):
        match req["op"]:
            case "start":
                return self.start(req)
            case "seal":
                return await self.seal(req)
            case "open":
                return await self.open(req)
        return {"error": "unknown op"}


async def lines():
    request_state.time = CLOCK
    logger = logging.getLogger(request_state.__name__)
    logger.addHandler(REASONS)
    logger.propagate = False
    peer = Peer()
    for line in sys.stdin.buffer:
        try:
            out = await peer.answer(json.loads(line))
        except Exception as e:  # the test fails and shows it
            out = {"error": f"{type(e).__name__}: {e}"}
        sys.stdout.write(json.dumps(out) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(lines())
