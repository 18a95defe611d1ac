"""The official Python MCP client buys through `roamcard mcp serve`, by handshake and in the newest version."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

READY = json.loads(Path(os.environ["ROAMCARD_READY"]).read_text())


def server(folder: Path) -> StdioServerParameters:
    """Writes the settings of an agent that asks before each payment."""
    settings = folder / "agent.json"
    settings.touch(mode=0o600)
    settings.write_text(
        json.dumps(
            {
                "origin": READY["baseUrl"],
                "payTo": READY["payTo"],
                "asset": READY["usdc"],
                "maxPerPaymentUsdCents": 2500,
                "maxPerDayUsdCents": 5000,
                "journal": str(folder / "journal"),
            }
        )
    )
    return StdioServerParameters(
        command=os.environ["ROAMCARD_BIN"],
        args=["mcp", "serve", "--config", str(settings)],
        env={"HOME": str(folder), "ROAMCARD_READY_FILE": os.environ["ROAMCARD_READY"]},
    )


async def buys(mode: str) -> None:
    """Buys one eSIM with approval, repeats it, and is refused another."""
    questions: list[str] = []
    answers: list[types.ElicitResult] = [
        types.ElicitResult(action="accept", content={"approve": True}),
        types.ElicitResult(action="decline"),
    ]

    async def ask(_: Any, params: Any) -> types.ElicitResult:
        questions.append(params.message)
        return answers.pop(0)

    with tempfile.TemporaryDirectory() as folder, open(os.devnull, "w") as log:
        transport = stdio_client(server(Path(folder)), errlog=log)
        async with Client(transport, mode=mode, elicitation_callback=ask) as client:

            async def call(tool: str, **arguments: Any) -> dict[str, Any]:
                # The client holds the structured content to the output schema.
                result = await client.call_tool(tool, arguments)
                told: dict[str, Any] = dict(result.structured_content or {})
                text = result.content[0]
                assert isinstance(text, types.TextContent) and json.loads(text.text) == told
                assert ("code" in told) == bool(result.is_error), told
                return told

            assert {"quote", "buy_esim", "get_order"} <= {tool.name for tool in (await client.list_tools()).tools}
            assert (await call("get_wallet"))["mayPay"]
            plan = (await call("list_esim_plans"))["plans"][0]
            bought = await call("buy_esim", purchaseKey="one", planId=plan["planId"])
            while bought["status"] != "paid":
                bought = await call("get_order", purchaseKey="one")
            again = await call("buy_esim", purchaseKey="one", planId=plan["planId"])
            assert again["replayed"] and again["order"]["orderId"] == bought["order"]["orderId"], again
            assert len(questions) == 1 and "USDC" in questions[0], questions
            declined = await call("buy_esim", purchaseKey="two", planId=plan["planId"])
            assert declined["code"] == "approval_declined", declined
            assert (await call("get_wallet"))["spentTodayUsdCents"] == plan["priceUsdCents"]
    print(f"{mode}: ok")


for each in ("legacy", "auto", "2026-07-28"):
    anyio.run(buys, each)
