"""Runs the program of a recipe as its page prints it, with a scripted model: run.py FRAMEWORK PAGE KEY."""

import asyncio
import inspect
import json
import pathlib
import re
import sys
import types

import scripted


def program(page: pathlib.Path) -> types.ModuleType:
    """The page's program, as a module."""
    code = re.search(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    if code is None:
        raise SystemExit(f"{page} has no program")
    module = types.ModuleType("recipe")
    exec(compile(code[1], str(page), "exec"), module.__dict__)  # noqa: S102 - it is ours
    return module


async def agree(_context: object, question: object, *_: object) -> object:
    """Answers the server's question; what it asks has to name the price."""
    from mcp.types import ElicitResult

    if "USD" not in str(getattr(question, "message", "")):
        raise SystemExit(f"the question names no price: {question}")
    return ElicitResult(action="accept", content={"approve": True})


def main() -> None:
    framework, page, key = sys.argv[1:]
    recipe = program(pathlib.Path(page))
    script = scripted.Script(key)
    model = getattr(scripted, framework)(script)
    task = f"Buy me the cheapest eSIM for Japan. Its purchaseKey is {key}."
    arguments = {"langchain": (agree,), "adk": (agree,), "openai_agents": (lambda tool, _: tool == "buy_esim",),
                 "crewai": ()}
    said = recipe.run(model, task, *arguments[framework])
    if inspect.iscoroutine(said):
        said = asyncio.run(said)
    if said != scripted.DONE:
        raise SystemExit(f"it ended with {said!r}; the last answer was {json.dumps(script.answers[-1:])}")
    print(json.dumps(script.paid()))


main()
