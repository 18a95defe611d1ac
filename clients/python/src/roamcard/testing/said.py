"""What the fake says of the service, and its failures, as a real one has them."""

from __future__ import annotations

import base64
import json
from functools import cache
from importlib.resources import files
from typing import Any

from .._gen.roamcard.v1.problem_pb import Problem


@cache
def _text() -> str:
    return files(__package__).joinpath("published.json").read_text(encoding="utf-8")


def said_by(origin: str) -> dict[str, Any]:
    """What a service at an origin says, as recorded from a real one."""
    said: dict[str, Any] = json.loads(_text().replace("{origin}", origin))
    return said


@cache
def _problems() -> dict[str, Any]:
    problems: dict[str, Any] = said_by("")["problems"]
    return problems


def problem_of(code: str, detail: str, request_id: str) -> dict[str, Any]:
    """A failure as RFC 9457 has it."""
    kind = _problems()[code]
    return {
        "type": f"/problems/{code}", "title": kind["title"], "status": kind["status"], "detail": detail, "code": code,
        "retryable": kind["retryable"], "safeToPayAgain": kind["safeToPayAgain"], "nextAction": kind["nextAction"],
        "requestId": request_id,
    }  # fmt: skip


def connect_error_of(problem: dict[str, Any]) -> dict[str, Any]:
    """The same as the Connect protocol has it."""
    value = base64.b64encode(Problem.from_json(json.dumps(problem)).to_binary()).decode().rstrip("=")
    # Protobuf's JSON leaves out what is false.
    debug = {name: member for name, member in problem.items() if member is not False}
    detail = {"type": "roamcard.v1.Problem", "value": value, "debug": debug}
    return {"code": _problems()[problem["code"]]["connect"], "message": problem["detail"], "details": [detail]}
