"""An unmodified client in another language against the fleet: Node's openai@4, installed by `make deps-test`."""
import json
import os
import shutil
import subprocess

from harness import Skip, eq, main
from simfleet import fleet

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.environ.get("PERIGEE_CACHE") or os.path.join(os.path.expanduser("~"), ".cache", "perigee")


def client(f, name):
    modules = os.path.join(CACHE, "openai", "node_modules")
    if not shutil.which("node"):
        raise Skip("there is no node")
    if not os.path.exists(os.path.join(modules, "openai", "package.json")):
        raise Skip("openai@4 is not there (`make deps-test` fetches it where the npm registry is)")
    done = subprocess.run(["node", "--no-deprecation", os.path.join(HERE, "openai_client.js"), f.url, name],
                          env=dict(os.environ, NODE_PATH=modules), capture_output=True, timeout=120, check=False)
    eq(done.returncode, 0, done.stderr.decode()[-1500:])
    return json.loads(done.stdout)


def test_models(work):
    with fleet(work, "--profile", "instant") as f:
        eq(client(f, "models"), ["sim-model"])


def test_chat(work):
    with fleet(work, "--profile", "instant") as f:
        said = client(f, "chat")
        assert said["whole"] and said["id"].startswith("chatcmpl-"), said
        eq((said["text"], said["helper"], said["roles"]), (said["whole"], said["whole"], 1))
        eq((said["finish"], said["first"]["completion_tokens"]), ("length", 20))
        n = said["first"]["prompt_tokens"]
        eq(said["first"]["prompt_tokens_details"], None)
        eq(said["second"]["prompt_tokens_details"], {"cached_tokens": (n - 1) // 16 * 16, "created_cache_tokens": n // 16 * 16 - (n - 1) // 16 * 16})


def test_tools(work):
    with fleet(work, "--profile", "instant") as f:
        said = client(f, "tools")
        eq((said["whole"]["name"], said["finish"]), ("weather", "tool_calls"))
        eq(list(json.loads(said["whole"]["arguments"])), ["city"])
        eq(said["streamed"]["arguments"], said["whole"]["arguments"])
        # The message that the client sent back is the one that was sampled: its blocks are hit.
        eq(said["after"]["prompt_tokens_details"]["cached_tokens"], (said["before"]["total_tokens"] - 1) // 16 * 16)


def test_completions(work):
    with fleet(work, "--profile", "instant") as f:
        said = client(f, "completions")
        eq((said["texts"], len(set(said["whole"]))), (said["whole"], 4))
        eq(said["echo"], "Hi")


def test_background(work):
    with fleet(work, "--profile", "instant") as f:
        said = client(f, "background")
        eq((said["first"], said["status"], said["text"]), ("queued", "incomplete", said["whole"]))
        eq(said["numbers"], list(range(2, said["numbers"][-1] + 1)))
        assert said["numbers"][-1] > 20, said
        eq((said["late"]["status"], said["late"]["type"]), (400, "invalid_request_error"))


def test_responses(work):
    with fleet(work, "--profile", "instant") as f:
        said = client(f, "responses")
        assert said["first"] and said["text"] and said["previous"], said
        eq((said["stored"], said["call"]), (said["text"], "weather"))
        eq(said["usage"]["input_tokens_details"]["cached_tokens"], (said["total"] - 1) // 16 * 16)
        eq((said["unknown"]["kind"], said["unknown"]["status"]), ("NotFoundError", 404))


def test_tool_loops(work):
    with fleet(work, "--profile", "instant", "--set", "tool_call_p=1", "--set", "tool_rounds=3", "--set", "tool_latency=1ms") as f:
        said = client(f, "toolLoop")
        eq([s["finish"] for s in said["seen"][:3]], ["tool_calls"] * 3)
        assert said["seen"][3]["finish"] in ("stop", "length") and said["text"], said
        eq([(s["name"], s["keys"]) for s in said["seen"][:3]], [("weather", ["city"])] * 3)
        assert all(s["pieces"] > 2 for s in said["seen"][:3]), said
        said = client(f, "responsesLoop")
        eq((said["rounds"], said["text"] != ""), (3, True))
        eq(said["types"], [f"response.web_search_call.{s}" for s in ("in_progress", "searching", "completed")] * 3)
        eq((said["output"], len(said["turns"])), (["web_search_call"] * 3 + ["message"], 4))


def test_errors(work):
    with fleet(work, "--profile", "instant") as f:
        eq([(e["kind"], e["status"], e["type"], e["param"]) for e in client(f, "errors")],
           [("NotFoundError", 404, "NotFoundError", "model"), ("BadRequestError", 400, "BadRequestError", "max_tokens"),
            ("BadRequestError", 400, "BadRequestError", "logprobs")])


def test_retries(work):
    for fault in ("429 count=2 retry_after=1s", "503 count=2", "reset count=2"):
        with fleet(work, "--profile", "instant", "--fault", fault) as f:
            eq(client(f, "retry"), 3, fault)


def test_an_error_in_the_stream(work):
    with fleet(work, "--profile", "instant", "--fault", "error after=3") as f:
        eq(client(f, "broken")["type"], "InternalServerError")


main(globals())
