"""Random expressions over the variables of template_snippets: mostly sensible, some that must fail."""
import random

TEXTS = ["s", "e", "u", "html", "multi", "ws", "'a'", "'lo'", "' b '", "'10'", "'é'", "d.zz", "s[2:5]", "names[0]"]
NUMBERS = ["n", "z", "neg", "f", "1", "2", "0", "-1", "2.5", "0.1", "t", "no", "big", "1e3"]
LISTS = ["l", "names", "items", "range(4)", "[]", "[1, 'a', none]", "(1, 2)", "[[1, 2], [0]]", "nested.x.y", "s.split()"]
DICTS = ["d", "items[0]", "nested", "{}", "{'a': [1]}", "{1: 'x', none: 2}"]
OTHERS = ["none", "missing", "none_", "namespace(a=1)", "d.items()", "items[2].v"]
METHODS = ["upper()", "lower()", "strip()", "lstrip('aH')", "rstrip()", "split()", "split('l')", "split('o', 1)", "rsplit('l', 1)",
           "title()", "capitalize()", "replace('l', 'L')", "replace('', '.')", "startswith('H')", "endswith('d')", "find('o')",
           "count('l')", "index('e')", "splitlines()", "isdigit()", "isupper()", "center(7)", "zfill(4)", "partition('o')", "join('ab')",
           "format(1, 2)", "removeprefix('He')", "isalpha()", "rfind('l')", "ljust(8, '.')"]
FILTERS = ["upper", "lower", "trim", "length", "first", "last", "list", "sort", "reverse|list", "join(',')", "string", "int", "float",
           "abs", "round", "round(1)", "tojson", "tojson(indent=1)", "default('D')", "default('D', true)", "title", "capitalize", "replace('a', 'b')",
           "unique|list", "min", "max", "sum", "map('string')|list", "map('upper')|list", "select|list", "reject('none')|list",
           "select('string')|list", "map(attribute='name')|list", "selectattr('v')|list", "indent(2)", "e", "safe", "wordcount",
           "dictsort", "items|list", "batch(2)|list", "map('length')|list", "sort(reverse=true)", "sort(attribute='name')", "format(1)", "truncate(5, true, '.', 0)",
           "select('odd')|list", "map('int')|list", "join", "count", "groupby('name')", "slice(2)|list", "center(5)", "attr('a')", "select('in', l)|list"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "sequence", "iterable", "boolean", "true", "odd", "even",
         "divisibleby 2", "eq 1", "in l", "lower", "upper", "callable", "sameas none", "gt 1", "ne 'a'"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]
ATTRIBUTES = [".a", ".name", ".x.y", ".foo", "['b']", "[0]", "[-1]", "[1:]", "[::-1]", "[:2]", "[n]", ".0", ".get('a')", ".get('q', 3)", ".keys()|list",
              ".items()|list", "['name']", ".values()|list", "[-2:]", "[5]", "[1.5]", "[none]", "[::2]"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, options):
        return self.random.choice(options)

    def atom(self):
        return self.pick(self.pick([TEXTS, TEXTS, NUMBERS, NUMBERS, LISTS, LISTS, DICTS, OTHERS]))

    def expression(self, depth):
        if depth == 0:
            return self.atom()
        below = lambda: self.expression(self.random.randrange(depth))
        kind = self.random.randrange(14)
        if kind < 3:
            return f"{self.wrapped(below())}|{self.pick(FILTERS)}"
        if kind < 5:
            return f"{below()} {self.pick(BINARY)} {below()}"
        if kind == 5:
            return f"({below()} {self.pick(BINARY)} {below()})"
        if kind == 6:
            return f"{self.wrapped(self.pick(TEXTS))}.{self.pick(METHODS)}"
        if kind == 7:
            return f"{self.wrapped(below())}{self.pick(ATTRIBUTES)}"
        if kind == 8:
            return f"{self.wrapped(below())} is {self.pick(['', 'not '])}{self.pick(TESTS)}"
        if kind == 9:
            return f"{below()} if {below()} else {below()}" if self.random.random() < 0.8 else f"({below()} if {below()})"
        if kind == 10:
            return f"[{below()}, {below()}]"
        if kind == 11:
            return f"{{{self.pick(TEXTS + NUMBERS)}: {below()}}}"
        if kind == 12:
            return self.pick(["not ", "-", "+"]) + self.wrapped(below())
        return f"{self.pick(LISTS)}|{self.pick(FILTERS)}|{self.pick(FILTERS)}"

    def wrapped(self, text):
        return text if text.isalnum() else f"({text})"


def expressions(n, seed):
    generator = Generator(seed)
    seen = set()
    while len(seen) < n:
        text = generator.expression(generator.random.randrange(1, 4))
        if len(text) <= 100 and text not in seen:
            seen.add(text)
            yield text
