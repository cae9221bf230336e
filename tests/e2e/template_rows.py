"""Random templates for the template engine, with what Jinja2 itself makes of them.

`python3 tests/e2e/template_rows.py SEED COUNT > rows.jsonl` writes rows in the form of fixtures/jinja: template, context,
then text or error. The environment is transformers'. Rows whose text has a memory address are left out.
"""
import datetime
import json
import random
import sys
import warnings

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

warnings.simplefilter("ignore")
NOW = datetime.datetime(2026, 8, 22, 12, 34, 56)


class Generation(jinja2.ext.Extension):
    """transformers' {% generation %} tag."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, "jinja2.ext.loopcontrols"])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda f: NOW.strftime(f)
    return env


STRINGS = ["", "a", "abc", "Abc dEf", "it's", 'say "hi"', "<b>&'\"</b>", " x ", "\t a\nb \r\n", "a,b,,c", "é", "你好",
           "😀x", "ß", "ŉ ǅ ﬁ", "ΑΣ", "ΑΣΑ Σ", "İı", "\u00a0x\u2003", "\x1c\x85y", "\u2028z", "1", "-42", " 7 ", "3.5",
           "1e3", "0x1f", "1_000", "x=%s", "{0} {b}", "{:>5}", "%d%%", "</think>", "a</think>b", "user", "hello world foo",
           "the-quick brown--fox", "\u200b", "a\u0301", "٣", "²", "Ⅷ", "http://x.org/a?b=1, (www.y.com) me@z.de", "\\", "a\\nb",
           "line one\nline two\n\nline four", "{% x %}", "{{ y }}", "aXbXc", "A1 b2-c3 (d4)", "o'neil's", "nan", "inf",
           "x" * 90, "word " * 25, "tabs\tand\ttabs"]


class Gen:
    def __init__(self, rng):
        self.r = rng
        self.depth = 0
        self.names = ["s", "t", "n", "f", "l", "d", "m", "e", "none_", "yes", "big", "nest", "messages", "und", "und2"]
        self.macros = []

    def context(self):
        r = self.r

        def scalar():
            return r.choice([r.choice(STRINGS), r.randint(-5, 20), r.choice([0.0, 1.5, -2.25, 1e20, 1e-7, 100.0]), True, False,
                             None])

        def tree(depth):
            k = r.random()
            if depth == 0 or k < 0.5:
                return scalar()
            if k < 0.75:
                return [tree(depth - 1) for _ in range(r.randint(0, 4))]
            return {r.choice(["a", "b", "c", "items", "x y", "role", "content", "é", "_p", "1", "type"]): tree(depth - 1)
                    for _ in range(r.randint(0, 4))}

        return {"s": r.choice(STRINGS), "t": r.choice(STRINGS), "n": r.randint(-3, 12),
                "f": r.choice([0.5, -1.25, 3.0, 1e16, 2.675, -0.0, 123456.789]),
                "l": r.choice([[3, 1, 2], ["b", "A", "a", "B"], [], [1, 1.0, True, "1", None], [[1, 2], [3, 4]], [0.1, 2, -3]]),
                "d": r.choice([{"b": 1, "a": 2, "C": 3}, {}, {"items": [1], "keys": "k", "get": 5}, {"a": {"b": {"c": "deep"}}}]),
                "m": [{"r": r.choice(["x", "y", "X", None]), "v": r.randint(0, 3), "n": {"k": r.choice(STRINGS)}}
                      for _ in range(r.randint(0, 4))],
                "e": "", "none_": None, "yes": True, "big": r.choice([2 ** 70, -(10 ** 30), 2 ** 63, 18446744073709551615]),
                "nest": tree(3),
                "messages": [{"role": r.choice(["user", "assistant", "system", "tool"]),
                              "content": r.choice([r.choice(STRINGS), None, [{"type": "text", "text": r.choice(STRINGS)}]])}
                             for _ in range(r.randint(1, 4))]}

    def lit(self, s):
        r = self.r
        q = r.choice("'\"")
        body = s.replace("\\", "\\\\").replace(q, "\\" + q)
        if r.random() < 0.5:
            body = body.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
        return q + body + q

    def string(self):
        r = self.r
        k = r.random()
        if k < 0.5:
            return self.lit(r.choice(STRINGS))
        if k < 0.8:
            return r.choice(["s", "t", "e"])
        if k < 0.9:
            return f"({self.lit(r.choice(STRINGS))}|safe)"
        return self.lit(r.choice(STRINGS)) + " " + self.lit(r.choice(STRINGS))

    def number(self):
        r = self.r
        return r.choice([str(r.randint(0, 9)), str(r.randint(-20, 200)), "n", "f", "1.5", "0.1", "1e3", "2.675", "true", "0", "big",
                         "1_0", "0x1F", "0b101", "1e16", "(0.1+0.2)", "9007199254740993", "-1"])

    def small(self):
        return str(self.r.choice([0, 1, 2, 3, 5, -1, -2]))

    def seq(self):
        r = self.r
        k = r.random()
        if k < 0.4:
            return r.choice(["l", "m", "messages", "nest", "[]", "(1, 2)", "[1, 'a', none]", "range(4)", "'abc'"])
        if k < 0.6:
            return "[" + ", ".join(self.expr() for _ in range(r.randint(0, 3))) + "]"
        if k < 0.7:
            return "(" + ", ".join(self.expr() for _ in range(r.randint(1, 3))) + ",)"
        if k < 0.8:
            return f"range({self.small()}, {self.r.randint(0, 8)}, {self.r.choice([1, 2, -1])})"
        if k < 0.9:
            return f"{self.seq() if self.depth < 3 else 'l'}[{self.slice()}]"
        return f"d.{r.choice(['keys', 'values', 'items'])}()"

    def slice(self):
        r = self.r
        part = lambda: r.choice(["", "", self.small(), "n"])  # noqa: E731
        return part() + ":" + part() + (":" + r.choice(["", "1", "2", "-1", "-2"]) if r.random() < 0.4 else "")

    def mapping(self):
        r = self.r
        k = r.random()
        if k < 0.5:
            return r.choice(["d", "m[0]", "messages[0]", "nest", "{}", "d.a"])
        if k < 0.6:
            return "dict(" + ", ".join(f"{r.choice('abc')}{i}={self.expr()}" for i in range(r.randint(0, 2))) + ")"
        return "{" + ", ".join(f"{self.key()}: {self.expr()}" for _ in range(r.randint(0, 3))) + "}"

    def key(self):
        return self.r.choice(["'a'", "'b'", "1", "1.0", "true", "none", "'x y'", "(1, 2)", "n", "s", "2.5"])

    STR_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('x ')", "upper()", "lower()", "title()", "capitalize()", "swapcase()",
                   "casefold()", "split()", "split(',')", "split('</think>')", "split(none, 1)", "rsplit(' ', 1)", "rsplit()",
                   "split(sep='a', maxsplit=1)", "splitlines()", "splitlines(true)", "replace('a', 'bb')", "replace('', '-')",
                   "replace('a', '', 1)", "startswith('a')", "startswith(('a', 'x'))", "endswith('c')", "endswith('b', 0, 2)",
                   "find('b')", "rfind('b')", "index('a')", "rindex('a')", "find('', 2)", "count('a')", "count('')", "isdigit()",
                   "isalpha()", "isalnum()", "isspace()", "isupper()", "islower()", "istitle()", "isnumeric()", "isdecimal()",
                   "isidentifier()", "isprintable()", "isascii()", "center(9)", "center(8, '*')", "ljust(6)", "rjust(6, '0')",
                   "zfill(6)", "expandtabs(4)", "partition('b')", "rpartition('b')", "partition('</think>')", "removeprefix('a')",
                   "removesuffix('c')", "join(['a', 'b'])", "join(l)", "join('xyz')", "format(1, b=2)", "format(n, b=s)",
                   "format('a', b=[1])", "encode", "foo()", "foo", "__class__", "translate({97: 'z'})", "strip(1)", "upper(1)"]
    DICT_METHODS = ["items()", "keys()", "values()", "get('a')", "get('zz')", "get('zz', 5)", "get(1)", "copy()", "items()|list",
                    "keys()|list", "update({})", "pop('a')", "a", "b", "items", "zz", "get", "a.b", "fromkeys('ab', 1)"]
    LIST_METHODS = ["index(1)", "count(1)", "copy()", "append(1)", "sort()", "0", "1", "foo"]

    FILTERS = ["abs", "attr('a')", "batch(2)|list", "batch(2, 'x')|list", "capitalize", "center(9)", "default('D')", "default('D', true)",
               "d", "dictsort", "dictsort(by='value')", "dictsort(true, reverse=true)", "escape", "e", "filesizeformat",
               "filesizeformat(true)", "first", "float", "float(7)", "forceescape", "format(1)", "format('a', 'b')", "groupby('r')|list",
               "groupby('v')|map('first')|list", "indent", "indent(2, true)", "indent('> ', blank=true)", "int", "int(9)", "int(0, 16)",
               "join", "join(', ')", "join('-', attribute='r')", "last", "length", "count", "list", "lower", "map('upper')|list",
               "map(attribute='r')|list", "map(attribute='n.k')|join('|')", "map(attribute='q', default='?')|list", "map('length')|list",
               "map('string')|join", "max", "min", "max(attribute='v')", "min(case_sensitive=true)", "pprint", "reject('odd')|list",
               "rejectattr('r')|list", "rejectattr('r', 'eq', 'x')|list", "replace('a', 'b')", "replace('a', '<', 1)", "reverse",
               "reverse|list", "round", "round(1)", "round(2, 'floor')", "round(0, 'ceil')", "round(-1)", "safe", "select|list",
               "select('string')|list", "select('gt', 1)|list", "select('in', [1, 'a'])|list", "selectattr('r')|list",
               "selectattr('r', 'equalto', 'x')|list", "selectattr('v', 'gt', 1)|map(attribute='v')|sum", "slice(2)|list",
               "slice(3, 0)|list", "sort", "sort(reverse=true)", "sort(case_sensitive=true)", "sort(attribute='v')", "sort(attribute='v,r')",
               "string", "striptags", "sum", "sum('v')", "sum(start=10)", "title", "tojson", "tojson(indent=2)", "tojson(true)",
               "tojson(separators=(',', ':'))", "tojson(sort_keys=true)", "tojson(indent='\\t', ensure_ascii=true)", "trim", "trim('ax')",
               "truncate(8)", "truncate(8, true)", "truncate(9, false, '!', 0)", "unique|list", "unique(attribute='r')|list", "upper",
               "urlencode", "urlize", "urlize(10, true)", "wordcount", "wordwrap(10)", "wordwrap(7, false)", "wordwrap(5, wrapstring='|')",
               "xmlattr", "items|list", "items", "length", "list", "first", "last", "string", "tojson", "trim", "default('')"]
    TESTS = ["defined", "undefined", "none", "string", "mapping", "iterable", "sequence", "number", "integer", "float", "boolean", "true",
             "false", "odd", "even", "divisibleby(3)", "divisibleby 2", "eq(1)", "equalto('a')", "ne 1", "gt(2)", "lt 3", "ge(1)", "le(0)",
             "in([1, 'a'])", "in 'abc'", "lower", "upper", "escaped", "callable", "sameas(none)", "sameas true", "filter", "test",
             "not defined", "not none", "not string", "greaterthan(0)", "lessthan 5"]

    def expr(self):
        self.depth += 1
        try:
            return self.expr_()
        finally:
            self.depth -= 1

    def expr_(self):
        r = self.r
        if self.depth > 5 or r.random() < 0.2:
            return r.choice([self.string, self.number, lambda: r.choice(self.names), lambda: r.choice(["none", "true", "false"])])()
        k = r.randint(0, 26)
        if k <= 3:
            return self.string()
        if k == 4:
            return self.number()
        if k == 5:
            return r.choice(self.names)
        if k == 6:
            return self.seq()
        if k == 7:
            return self.mapping()
        if k == 8:
            op = r.choice(["+", "-", "*", "/", "//", "%", "~", "+", "~"])
            a, b = (self.number(), self.number()) if r.random() < 0.6 else (self.expr(), self.expr())
            if op == "*" and ("big" in a + b):
                op = "+"
            return f"{a} {op} {b}"
        if k == 9:
            return f"({self.expr()} + {self.expr()})"
        if k == 10:
            return f"{self.string()} {r.choice(['+', '~', '%', '+'])} {self.expr()}"
        if k == 11:
            return f"{self.expr()} {r.choice(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {self.expr()}"
        if k == 12:
            return f"{self.number()} {r.choice(['<', '==', '>='])} {self.number()} {r.choice(['<', '!='])} {self.number()}"
        if k == 13:
            return f"{self.expr()} {r.choice(['and', 'or'])} {self.expr()}"
        if k == 14:
            return f"not {self.expr()}"
        if k == 15:
            return f"({self.expr()} if {self.expr()}" + (f" else {self.expr()})" if r.random() < 0.85 else ")")
        if k in (16, 17):
            return f"{self.string()}.{r.choice(self.STR_METHODS)}"
        if k == 18:
            return f"{self.mapping()}.{r.choice(self.DICT_METHODS)}"
        if k == 19:
            return f"{self.seq()}.{r.choice(self.LIST_METHODS)}" if r.random() < 0.4 else f"{self.expr()}[{self.slice()}]"
        if k in (20, 21, 22):
            v = r.choice([self.seq, self.string, self.expr, self.mapping, self.number])()
            return f"({v})|{r.choice(self.FILTERS)}"
        if k == 23:
            return f"({self.expr()}) is {r.choice(self.TESTS)}"
        if k == 24:
            return f"({self.expr()})[{r.choice([self.small(), self.key(), 'n', 's'])}]"
        if k == 25 and self.macros:
            return f"{r.choice(self.macros)}({', '.join(self.expr() for _ in range(r.randint(0, 2)))})"
        return r.choice([f"-{self.number()}", f"-{self.number()}|abs", f"2 ** {r.randint(-2, 70)}", f"{self.number()} ** 2",
                         "loop.index", "loop.last", "loop.first", "loop.length", "loop.previtem", "loop.nextitem", "loop",
                         "strftime_now('%d %b %Y')", "namespace(a=1)", "cycler('a', 'b').next()", "caller()", "varargs", "kwargs",
                         f"'{{:{r.choice(['>8', '<6', '^7', '05', '+', ',', '.2f', 'x', '#x', 'b', '08.3f', 'e', 'g', '%', 's', '.3', '_', '*^9', '=+8', '#o', 'c', 'n', '10,.1f', 'z.1f'])}}}'.format({self.number()})",
                         f"'%{r.choice(['s', 'd', '5d', '-5d|', '05d', '+d', 'x', '#x', 'X', '.2f', '8.3f', 'e', 'g', 'r', 'a', 'c', '5s', '-5s|', '.2s', 'i', 'o', 'G', '%', ' d', '.3d'])}' % {r.choice([self.number(), self.string()])}"])

    def ws(self):
        return self.r.choice(["", "", "", "-", "+"])

    def text(self):
        return self.r.choice(["", "x", " ", "\n", "  \n", "\n  ", "a b", " \t", "\n\n", "é\n", "{", "}", "}}", "%}", "<p>", "\r\n", "#}"])

    def tag(self, body):
        return "{%" + self.r.choice(["", "", "-", "+"]) + f" {body} " + self.ws() + "%}"

    def out(self):
        return "{{" + self.r.choice(["", "", "-", "+"]) + f" {self.expr()} " + self.r.choice(["", "", "-"]) + "}}"

    def body(self, n=3):
        return "".join(self.text() + self.stmt() + self.text() for _ in range(self.r.randint(0, n)))

    def target(self):
        return self.r.choice(["x", "y", "s", "n", "l", "acc", "x, y", "ns.v"])

    def stmt(self):
        self.depth += 1
        try:
            return self.stmt_()
        finally:
            self.depth -= 1

    def stmt_(self):
        r = self.r
        if self.depth > 4 or r.random() < 0.45:
            return self.out()
        k = r.randint(0, 15)
        if k <= 2:
            t = self.target()
            v = self.expr() if "," not in t else f"{self.expr()}, {self.expr()}"
            return self.tag(f"set {t} = {v}")
        if k == 3:
            f = r.choice(["", "", " | upper", " | trim", " | length"])
            return self.tag(f"set {r.choice(['x', 'acc', 's'])}{f}") + self.body(2) + self.tag("endset")
        if k in (4, 5):
            s = self.tag(f"if {self.expr()}") + self.body(2)
            if r.random() < 0.3:
                s += self.tag(f"elif {self.expr()}") + self.body(1)
            if r.random() < 0.4:
                s += self.tag("else") + self.body(1)
            return s + self.tag("endif")
        if k in (6, 7, 8):
            t = r.choice(["x", "y", "i", "x, y", "s", "(x, y)"])
            it = self.seq() if "," not in t else r.choice(["d.items()", "[(1, 2), (3, 4)]", "d|dictsort", "d|items", "l"])
            cond = f" if {self.expr()}" if r.random() < 0.25 else ""
            rec = " recursive" if r.random() < 0.05 else ""
            s = self.tag(f"for {t} in {it}{cond}{rec}") + self.body(2)
            if r.random() < 0.2:
                s += self.tag("if " + self.expr()) + self.tag(r.choice(["break", "continue"])) + self.tag("endif") + self.body(1)
            if r.random() < 0.2:
                s += self.tag("else") + self.body(1)
            return s + self.tag("endfor")
        if k in (9, 10):
            name = r.choice(["mac", "fn", "x"])
            args = r.choice(["", "a", "a, b=1", "a, b=a", "x=s", "a, caller=none"])
            s = self.tag(f"macro {name}({args})") + self.body(2) + self.tag("endmacro")
            self.macros.append(name)
            self.names += ["a", "b"]
            return s
        if k == 11 and self.macros:
            return self.tag(f"call{r.choice(['', '(q)'])} {r.choice(self.macros)}({r.choice(['', '1', 's', 'a=2'])})") + \
                self.body(2) + self.tag("endcall")
        if k == 12:
            return self.tag("filter " + r.choice(["upper", "trim", "replace('a', 'b')", "indent(2)", "e", "length"])) + self.body(2) + \
                self.tag("endfilter")
        if k == 13:
            return self.tag(f"with {r.choice(['x', 'n', 'w'])} = {self.expr()}") + self.body(2) + self.tag("endwith")
        if k == 14:
            return r.choice([self.tag("generation") + self.body(2) + self.tag("endgeneration"),
                             self.tag("raw") + self.text() + "{{ x }}" + self.tag("endraw"),
                             "{#" + self.ws() + " c \n" + self.ws() + "#}",
                             self.tag("autoescape true") + self.body(2) + self.tag("endautoescape"),
                             self.tag("set ns = namespace(v=0)"), self.tag("block b" + str(r.randint(0, 99))) + self.body(1) + self.tag("endblock")])
        return self.out()


def row(seed):
    rng = random.Random(seed)
    g = Gen(rng)
    template = ("{% set ns = namespace(v=1) %}" if rng.random() < 0.4 else "") + g.body(4) + g.out()
    if rng.random() < 0.05:  # and some that are broken
        at = rng.randint(0, len(template))
        template = template[:at] + rng.choice(["", "}", "{%", "'", "(", "\\"]) + template[at + rng.randint(0, 2):]
    context = g.context()
    out = {"id": seed, "template": template, "context": context}
    try:
        out["text"] = environment().from_string(template).render(**context)
        out["text"].encode()
    except RecursionError:
        return None
    except Exception as e:  # whatever Jinja2 raises, we must fail too
        out.pop("text", None)
        out["error"] = f"{type(e).__name__}: {e}"
    text = out.get("text", "")
    if " at 0x" in text or len(text) > 100000:
        return None
    return out


def rows(seed, count):
    for i in range(count):
        r = row(seed + i)
        if r:
            yield r


if __name__ == "__main__":
    for each in rows(int(sys.argv[1]), int(sys.argv[2])):
        print(json.dumps(each))
