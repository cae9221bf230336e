"""A fleet of `perigee sim` for tests that look at its wire: asking, events, metrics."""
import contextlib
import json
import re
import urllib.error
import urllib.request

from harness import eq


class Answer:
    def __init__(self, status, headers, data):
        self.status, self.headers, self.data = status, headers, data

    @property
    def json(self):
        return json.loads(self.data)

    @property
    def typed(self):
        """Of Responses: the JSON of each event, whose type is that of its event line and whose numbers have no gap."""
        list_ = []
        for part in self.data.decode().split("\n\n")[:-1]:
            head, data = part.split("\n")
            list_.append(json.loads(data.removeprefix("data: ")))
            eq(head, "event: " + list_[-1]["type"])
        eq([e["sequence_number"] for e in list_], list(range(len(list_))))
        return list_

    @property
    def events(self):
        """Of chat and completions: the JSON of each event; the end marker is checked and left out."""
        parts = self.data.decode().split("\n\n")
        eq(parts[-2:], ["data: [DONE]", ""])
        return [json.loads(p.removeprefix("data: ")) for p in parts[:-2]]


class Fleet:
    def __init__(self, announce):
        self.announce, self.url = announce, announce["replicas"][0]["url"]

    def ask(self, path, body=None, status=200, **headers):
        data = None if body is None else json.dumps(body).encode()
        headers = {k.replace("_", "-"): v for k, v in headers.items()}
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json", **headers})
        try:
            with urllib.request.urlopen(request, timeout=30) as r:
                answer = Answer(r.status, r.headers, r.read())
        except urllib.error.HTTPError as e:
            answer = Answer(e.code, e.headers, e.read())
        eq(answer.status, status, f"{path}: {answer.data[:400]}")
        return answer

    def state(self):
        """The admin API's answer to GET /admin/state."""
        request = urllib.request.Request(self.announce["admin"]["url"] + "/admin/state",
                                         headers={"Authorization": "Bearer " + self.announce["admin"]["token"]})
        with urllib.request.urlopen(request, timeout=30) as r:
            return json.load(r)

    def admin(self, what, body):
        """The admin API's answer to POST /admin/WHAT."""
        request = urllib.request.Request(f"{self.announce['admin']['url']}/admin/{what}", json.dumps(body).encode(),
                                         {"Authorization": "Bearer " + self.announce["admin"]["token"]})
        with urllib.request.urlopen(request, timeout=30) as r:
            return json.load(r)

    def metrics(self):
        return Page(self.ask("/metrics").data.decode())


class Page:
    """A page of metrics: types by family, samples by name as (labels, value)."""

    def __init__(self, text):
        self.types = dict(re.findall(r"(?m)^# TYPE (\S+) (\S+)$", text))
        self.samples = {}
        for name, labels, value in re.findall(r"(?m)^([^#\s{]+)(?:\{(.*)\})? (\S+)$", text):
            pairs = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels))
            self.samples.setdefault(name, []).append((pairs, float(value)))

    def value(self, name, **labels):
        return sum(v for have, v in self.samples[name] if all(have.get(k) == x for k, x in labels.items()))

    def edges(self, family):
        return [float(labels["le"]) for labels, _ in self.samples[family + "_bucket"]]


@contextlib.contextmanager
def fleet(work, *args):
    process = work.start("sim", "--announce", "--replicas", "1", *args)
    try:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        yield Fleet(json.loads(line))
    finally:
        process.terminate()
        process.communicate(timeout=20)
