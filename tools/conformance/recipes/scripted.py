"""The scripted model: the same calls in the same order for every framework.

Each function makes a framework's own kind of model. It looks for plans, buys the cheapest under the task's key, and
asks for the order until it is paid. Nothing here reaches a network.
"""

import json
import time
from typing import Any


class Script:
    """Chooses the next call from what the tools answered so far, oldest first."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.answers: list[dict[str, Any]] = []

    def next(self, answers: list[str]) -> tuple[str, dict[str, Any]] | None:
        """The next tool and its arguments; None when the purchase is done, or refused."""
        self.answers = [json.loads(a) for a in answers]
        if not answers:
            return "list_esim_plans", {"countryCode": "JP"}
        last = self.answers[-1]
        if "plans" in last:
            return "buy_esim", {"purchaseKey": self.key, "planId": last["plans"][0]["planId"]}
        # The second is the answer of a tool that takes long: on a busy machine any may.
        unclear = last.get("status") == "processing" or last.get("nextAction") == "wait_and_call_again"
        if unclear and len(answers) < 60:
            time.sleep(0.5)
            return "get_order", {"purchaseKey": self.key}
        if len(answers) == 2:
            return "get_order", {"purchaseKey": self.key}
        return None

    def paid(self) -> dict[str, Any]:
        """The order that was paid, as the last answer tells it."""
        last = self.answers[-1] if self.answers else {}
        if last.get("status") != "paid" or last.get("order", {}).get("kind") != "esim":
            raise SystemExit(f"no eSIM was paid: {json.dumps(last)}")
        return dict(last["order"])


DONE = "The eSIM is paid."


def langchain(script: Script) -> Any:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.outputs import ChatGeneration, ChatResult

    class Scripted(BaseChatModel):
        @property
        def _llm_type(self) -> str:
            return "scripted"

        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

        def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
            answers = [m.text for m in messages if isinstance(m, ToolMessage)]
            call = script.next(answers)
            message = AIMessage(DONE)
            if call:
                message = AIMessage("", tool_calls=[{"name": call[0], "args": call[1], "id": f"call-{len(answers)}"}])
            return ChatResult(generations=[ChatGeneration(message=message)])

    return Scripted()


def openai_agents(script: Script) -> Any:
    from agents import Model, ModelResponse, Usage, set_tracing_disabled
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    set_tracing_disabled(True)

    class Scripted(Model):
        async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
            said, answers = given["input"], []
            for item in said if isinstance(said, list) else []:
                if item.get("type") == "function_call_output":
                    output = item["output"]
                    answers.append(output if isinstance(output, str) else output[0]["text"])
            answers = [json.loads(a).get("text", a) for a in answers]
            call = script.next(answers)
            if call:
                made: Any = ResponseFunctionToolCall(
                    type="function_call", name=call[0], arguments=json.dumps(call[1]), call_id=f"call-{len(answers)}"
                )
            else:
                text = ResponseOutputText(type="output_text", text=DONE, annotations=[])
                made = ResponseOutputMessage(
                    id="done", type="message", role="assistant", status="completed", content=[text])
            return ModelResponse(output=[made], usage=Usage(), response_id=None)

        def stream_response(self, *_: Any, **__: Any) -> Any:
            raise NotImplementedError

    return Scripted()


def adk(script: Script) -> Any:
    from google.adk.models.base_llm import BaseLlm
    from google.adk.models.llm_response import LlmResponse
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            answers = [
                p.function_response.response["content"][0]["text"]
                for c in llm_request.contents
                for p in c.parts or []
                if p.function_response
            ]
            call = script.next(answers)
            part = types.Part(text=DONE)
            if call:
                part = types.Part(function_call=types.FunctionCall(name=call[0], args=call[1]))
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    return Scripted(model="scripted")


def crewai(script: Script) -> Any:
    from crewai import BaseLLM

    class Scripted(BaseLLM):
        def call(self, messages: Any, *_: Any, **__: Any) -> str:
            said = [m["content"] for m in messages if m["role"] == "assistant" and "\nObservation:" in m["content"]]
            # Behind some observations the framework repeats how to answer.
            observed = [s.split("\nObservation:", 1)[1].strip() for s in said]
            answers = [o[: json.JSONDecoder().raw_decode(o)[1]] for o in observed]
            call = script.next(answers)
            if call is None:
                return f"Thought: I now know the final answer\nFinal Answer: {DONE}"
            return f"Thought: go on\nAction: {call[0]}\nAction Input: {json.dumps(call[1])}"

        def supports_function_calling(self) -> bool:
            return False

    return Scripted(model="scripted", provider="scripted")
