"""An MCP server on the Python SDK with a tool, a prompt and a resource that ask.

Its first line of input is {"export": …, "name": …}: the ring as foil exports it
for Python, and the server's name, which is its audience. It prints its URL and
ends when its input does.
"""

import asyncio
import json
import socket
import sys

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequest, ElicitRequestFormParams, InputRequiredResult

ISSUER = "https://as.test"


class Verifier:
    """Takes the bearer token for the user's name, up to a '#'."""

    async def verify_token(self, token):
        user = token.partition("#")[0]
        return AccessToken(token=token, client_id="app", scopes=[], subject=user, claims={"iss": ISSUER})


def ask_or_act(ctx, what):
    if ctx.request_state is None:
        form = ElicitRequestFormParams(message=f"{what}?", requested_schema={"type": "object", "properties": {}})
        return InputRequiredResult(input_requests={"confirm": ElicitRequest(params=form)}, request_state=f"python plans {what}")
    return f"python acts on: {ctx.request_state}"


def build(config):
    security = eval(config["export"], {"RequestStateSecurity": RequestStateSecurity, "__builtins__": {"bytes": bytes}})
    auth = AuthSettings(issuer_url=ISSUER, resource_server_url=None)
    mcp = MCPServer(config["name"], request_state_security=security, token_verifier=Verifier(), auth=auth, log_level="ERROR")

    @mcp.tool()
    async def purge(prefix: str, ctx: Context) -> str | InputRequiredResult:
        return ask_or_act(ctx, prefix)

    @mcp.prompt()
    async def brief(topic: str, ctx: Context) -> str | InputRequiredResult:
        return ask_or_act(ctx, topic)

    @mcp.resource("shop://{name}")
    async def shop(name: str, ctx: Context) -> str | InputRequiredResult:
        return ask_or_act(ctx, name)

    return mcp.streamable_http_app(stateless_http=True, json_response=True)


async def main():
    loop = asyncio.get_running_loop()
    config = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(build(config), log_level="error", lifespan="on"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
        await loop.run_in_executor(None, sys.stdin.read)
        server.should_exit = True
        await serving


if __name__ == "__main__":
    asyncio.run(main())
