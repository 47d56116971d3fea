"""Small templates that pin down one thing each; make_template_golden.py renders them with jinja2."""

VARIABLES = {
    "s": "Hello World", "e": "", "u": "Grüße, 世界 🎉", "n": 7, "z": 0, "neg": -3, "f": 2.5, "t": True, "no": False,
    "none_": None, "l": [3, 1, 2], "names": ["bob", "Alice", "carol", "alice"], "d": {"b": 1, "a": 2, "C": 3},
    "items": [{"name": "x", "v": 2, "sub": {"k": "p"}}, {"name": "y", "v": 1, "sub": {"k": "q"}}, {"name": "X", "v": None}],
    "nested": {"x": {"y": [10, {"z": "deep"}]}}, "big": 18446744073709551615, "html": "<b>&'\"", "multi": "a\nb\n\nc",
    "ws": " \t\n\u00a0\u2003 x \u3000", "crlf": "a\r\nb\rc\u2028d", "small": 1e-7, "large": 1e16, "key": "name",
}

OUTPUT = r"""
{{ 1 }}
{{ 1.0 }} {{ 1e16 }} {{ 1e15 }} {{ 0.1 }} {{ 1e-5 }} {{ 0.0001 }} {{ 123456789.123 }} {{ small }} {{ large }} {{ 1.5e300 }}
{{ true }} {{ True }} {{ false }} {{ none }} {{ None }} {{ t }} {{ no }} {{ none_ }} {{ missing }}
{{ 'a' "b" 'c' }}
{{ '\n\t\\\'\"\x41\u00e9\101\q\U0001F600' }}
{{ "a\
b" }}
{{ '\é' }}
{{ [1, 'a', "it's", '"', none, true, 1.5, [], {}, (), (1,), (1, 2)] }}
{{ {'a': 1, "b": [none], 3: 'x', none: 1.5, true: false} }}
{{ ['\n\t\r\\\x00\x7f\u200b\u00e9\u4e2d\U0001F600\u00a0\u00ad'] }}
{{ d }} {{ items[0] }} {{ l }} {{ u }} {{ [u] }} {{ big }}
{{ d.items() }} {{ d.keys() }} {{ d.values() }} {{ range(3) }} {{ range(1, 10, 2) }}
{{ namespace(a=1, b='x') }}
{{ (1, 2) }} {{ 1, 2 }} {{ (1) }} {{ () }} {{ 1, }}
{{ 0x1F }} {{ 0b101 }} {{ 0o17 }} {{ 1_000 }} {{ 1_0.5_0 }} {{ 00 }} {{ 1.e }}
{{ 5 // 2 }} {{ -5 // 2 }} {{ 5 % 3 }} {{ -5 % 3 }} {{ 5 % -3 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 10 }} {{ 2 ** -1 }} {{ 2 ** 3 ** 2 }}
{{ 5.5 // 2 }} {{ -5.5 // 2 }} {{ 5.5 % 2 }} {{ -5.5 % 2 }} {{ 2.0 ** 0.5 }} {{ 1 / 3 }} {{ 10 // 3.0 }}
{{ -2 ** 2 }} {{ -(2) }} {{ +3 }} {{ --3 }} {{ -n }} {{ not n }} {{ not not n }}
{{ 1 + 2 * 3 - 4 / 2 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 ~ none ~ missing ~ 2.0 }} {{ 1 ~ 2 + 3 }} {{ 'x' * 3 }} {{ 3 * 'ab' }} {{ [1] * 2 }} {{ 'x' * -1 }}
{{ [1] + [2, 3] }} {{ (1,) + (2,) }} {{ 'a' + 'b' }} {{ true + true }} {{ t * 3 }}
{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ (1,) < (1, 2) }} {{ 'a' == 'a' != 'b' }}
{{ 1 in [1, 2] }} {{ 'a' in 'abc' }} {{ 'b' in d }} {{ 'z' not in d }} {{ not 'z' in d }} {{ 1.0 in l }} {{ '' in 'abc' }} {{ 5 in range(10) }} {{ 'x' in missing }}
{{ [1] == [1] }} {{ [1] == (1,) }} {{ {'a': 1} == {'a': 1.0} }} {{ none == none }} {{ missing == missing2 }} {{ missing == none }} {{ '1' == 1 }}
{{ 1 and 2 }} {{ 0 and 2 }} {{ 0 or 'x' }} {{ '' or none or 3 }} {{ [] or {} }} {{ 1 or missing.foo }} {{ not missing }}
{{ 'a' if t else 'b' }} {{ 'a' if no else 'b' }} {{ 'a' if no }} {{ 'a' if t if no else 'c' }} {{ 1 if no else 2 if no else 3 }}
{{ s[0] }} {{ s[-1] }} {{ s[1:4] }} {{ s[:-3] }} {{ s[::2] }} {{ s[::-1] }} {{ s[5:2] }} {{ s[100:] }} {{ u[7:9] }} {{ u[::-1] }} {{ u[-1] }}
{{ l[0] }} {{ l[-1] }} {{ l[1:] }} {{ l[::-1] }} {{ l[10] }} {{ l['x'] }} {{ l[1.0] }} {{ l[true] }} {{ range(10)[2:8:3] }} {{ (1, 2, 3)[1:] }}
{{ d.a }} {{ d['a'] }} {{ d.zzz }} {{ d['zzz'] }} {{ nested.x.y[1].z }} {{ nested['x']['y'].0 }} {{ items.1.name }} {{ items[0][key] }}
{{ n.foo }} {{ none.foo }} {{ s.foo }} {{ s['upper']() }} {{ d['get']('a') }} {{ t.x }} {{ f['y'] }}
{{ missing.foo }}
{{ none.foo.bar }}
{{ missing['a'] }}
{{ missing[1:2] }}
{{ missing() }}
{{ n() }}
{{ none_() }}
{{ missing + 1 }}
{{ 'a' + missing }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + (2,) }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ missing < 1 }}
{{ 1 in 5 }}
{{ 1 in 'abc' }}
{{ missing in 'abc' }}
{{ missing in [1] }}
{{ [] in {} }}
{{ -'a' }}
{{ -missing }}
{{ 1 / 0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 1.0 / 0 }}
{{ 0 ** -1 }}
{{ {[]: 1} }}
{{ {}[[]] }}x
{{ none[0] }}x{{ 5[0] }}x
{{ d[1:] }}
{{ l['a':] }}
{{ l[::0] }}
{{ 'a' * 'b' }}
{{ l.append(4) }}
{{ d.update({}) }}
{{ d.pop('a') }}
{{ l.pop }}x{{ l.append is defined }}
{{ d.__class__ }}x
{{ d.__class__.__name__ }}
{{ ''.__class__ is defined }}
{{ namespace(_a=1) }}
{{ range(100001) }}
{{ range(0) }}{{ range(3, 0) }}{{ range(3, 0, -1)|list }}
{{ range(1.5) }}
{{ range() }}
{{ dict(a=1, b=2) }} {{ dict([('a', 1), ['b', 2]]) }} {{ dict({'x': 1}, y=2) }} {{ dict() }}
{{ dict([1]) }}
{{ dict(1, 2) }}
{{ raise_exception('stop: ' ~ n) }}
{{ raise_exception(none) }}
{{ raise_exception() }}
{{ strftime_now('%Y-%m-%d %H:%M:%S|%d %b %Y|%A %B %j|%%|%-d|%y') }}
{{ strftime_now('') }}|{{ strftime_now('é %p %I') }}
{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}
{% set j = joiner('; ') %}{{ j() }}a{{ j() }}b{{ j() }}c
{{ foo(1) }}
{{ s is callable }} {{ range is callable }} {{ missing is callable }} {{ s.upper is callable }}
"""

METHODS = r"""
{{ s.upper() }} {{ s.lower() }} {{ s.title() }} {{ 'hELLO wORLD'.capitalize() }} {{ "they're bill's".title() }} {{ u.upper() }} {{ u.lower() }} {{ 'ßeta ŉ ﬁ ǆ'.upper() }} {{ 'İΣ ΑΣ'.lower() }} {{ 'ǆabc ßx'.title() }} {{ 'ﬁx'.capitalize() }}
{{ '[' ~ ws.strip() ~ ']' }} {{ ('[' ~ ws.lstrip() ~ ']')|length }} {{ ('[' ~ ws.rstrip() ~ ']')|length }} {{ 'xxhixx'.strip('x') }} {{ 'xyhiyx'.lstrip('xy') }} {{ 'éàhié'.strip('éà') }} {{ 'a'.strip(none) }}
{{ s.split() }} {{ s.split('o') }} {{ s.split('o', 1) }} {{ s.split('l', maxsplit=1) }} {{ ' a  b '.split() }} {{ ' a  b '.split(' ') }} {{ 'a,b,c'.split(sep=',') }} {{ ''.split() }} {{ ''.split(',') }} {{ ' a b c '.split(none, 1) }} {{ 'a</think>b'.split('</think>')[-1] }}
{{ s.rsplit('o', 1) }} {{ 'a b  c '.rsplit() }} {{ 'a b  c '.rsplit(none, 1) }} {{ 'a,b,c'.rsplit(',') }} {{ 'aXXbXX'.rsplit('XX', 1) }}
{{ 'a'.split('') }}
{{ crlf.splitlines() }} {{ multi.splitlines(true) }} {{ ''.splitlines() }} {{ 'a\n'.splitlines() }} {{ '\n'.splitlines(keepends=True) }}
{{ s.replace('o', '0') }} {{ s.replace('o', '0', 1) }} {{ 'abc'.replace('', '-') }} {{ 'abc'.replace('', '-', 2) }} {{ ''.replace('', 'x') }} {{ 'aaa'.replace('aa', 'b') }} {{ 'é'.replace('', '-') }}
{{ s.replace('o') }}
{{ s.replace(1, 'a') }}
{{ s.startswith('He') }} {{ s.endswith('ld') }} {{ s.startswith(('x', 'He')) }} {{ s.startswith('lo', 3) }} {{ s.endswith('lo', 0, 5) }} {{ s.startswith('') }} {{ ''.startswith('', 1) }} {{ s.startswith('W', -5) }}
{{ s.startswith(1) }}
{{ s.startswith(['a']) }}
{{ s.find('o') }} {{ s.find('o', 5) }} {{ s.find('zz') }} {{ s.rfind('o') }} {{ s.index('W') }} {{ s.count('l') }} {{ s.count('') }} {{ u.find('世') }} {{ 'aaaa'.count('aa') }} {{ s.rindex('l') }} {{ s.count('l', 4) }} {{ s.find('') }} {{ s.rfind('') }} {{ s.find('', 20) }}
{{ s.index('zz') }}
{{ ','.join(['a', 'b']) }} {{ ''.join('abc') }} {{ '-'.join(d) }} {{ ','.join([]) }}
{{ ','.join([1, 2]) }}
{{ ','.join(none) }}
{{ 'ab'.center(7, '*') }} {{ 'abc'.center(6, '*') }} {{ 'ab'.center(5) }}| {{ 'a'.ljust(4) }}| {{ 'a'.rjust(4, '.') }} {{ '42'.zfill(5) }} {{ '-42'.zfill(6) }} {{ 'é'.center(4, 'ü') }}
{{ 'a'.center(3, 'xy') }}
{{ 'TestHook'.removeprefix('Test') }} {{ 'TestHook'.removesuffix('Hook') }} {{ 'a'.removeprefix('b') }} {{ 'a=b=c'.partition('=') }} {{ 'a=b=c'.rpartition('=') }} {{ 'a'.partition('=') }} {{ 'a'.rpartition('=') }}
{{ 'abc'.isalpha() }} {{ '123'.isdigit() }} {{ 'a1'.isalnum() }} {{ ' '.isspace() }} {{ 'ABC'.isupper() }} {{ 'abc'.islower() }} {{ ''.isalpha() }} {{ '½'.isnumeric() }} {{ '½'.isdigit() }} {{ '²'.isdigit() }} {{ '٣'.isdecimal() }} {{ 'é世'.isalpha() }} {{ 'a\n'.isprintable() }} {{ 'é'.isascii() }} {{ 'A1'.isupper() }} {{ 'Éa'.islower() }}
{{ '{} {}'.format(1, 'a') }} {{ '{1} {0}'.format(1, 2) }} {{ '{a}'.format(a=5) }} {{ '{{}}'.format() }} {{ '{:>5}|{:<5}|{:^5}|{:*^5}'.format(1, 'a', 'b', 'c') }} {{ '{:05d} {:+d} {:x} {:#X} {:b} {:,}'.format(42, 42, 255, 255, 5, 1234567) }}
{{ '{:.2f} {:8.3f}| {:e} {:g} {:%} {:.1%}'.format(3.14159, 2.5, 12345.678, 0.00001, 0.25, 0.256) }} {{ '{!r} {!s}'.format('a', 'b') }} {{ '{0.name} {0[name]} {1[0]}'.format(items[0], l) }} {{ '{:.2}'.format('abcdef') }} {{ '{:{w}}|'.format('a', w=4) }} {{ '{}'.format(none) }} {{ '{:5}|{:5}|'.format(true, 1.5) }} {{ '{:d}'.format(true) }}
{{ '{}'.format() }}
{{ '{a}'.format(b=1) }}
{{ '{0} {}'.format(1, 2) }}
{{ '{'.format() }}
{{ '}'.format() }}
{{ '{:d}'.format('a') }}
{{ '{:z9}'.format(1) }}
{{ '{:5}'.format([1]) }}
{{ '%s %d %r' % ('a', 5, 'b') }} {{ '%s' % 5 }} {{ '%5d|%-5d|%05d|%+d' % (1, 2, 3, 4) }} {{ '%.2f' % 3.14159 }} {{ '%x %X %o %#x' % (255, 255, 8, 255) }} {{ '%(a)s' % {'a': 1} }} {{ '%%' % () }} {{ '%5s|%-5s|%.2s' % ('a', 'b', 'cde') }} {{ '%c%c' % (65, 'b') }} {{ '%e %g' % (1234.5, 0.0001) }} {{ '%s' % ([1],) }} {{ '%s' % [1] }} {{ '%d' % 3.7 }} {{ '%*d' % (5, 3) }} {{ '%i' % true }}
{{ '%s' % () }}
{{ '%s' % (1, 2) }}
{{ 'a' % 1 }}
{{ '%d' % 'a' }}
{{ '%q' % 1 }}
{{ '%' % 1 }}
{{ '%(a)s' % 1 }}
{{ d.get('a') }} {{ d.get('z') }} {{ d.get('z', 5) }} {{ d.items()|list }} {{ d.keys()|list }} {{ d.values()|list }} {{ d.copy() }} {{ d.get(missing) }}
{{ d.get() }}
{{ d.get([]) }}
{{ l.index(2) }} {{ l.count(3) }} {{ l.copy() }} {{ (1, 2, 1).count(1) }} {{ (1, 2).index(2) }} {{ l.index(3, 0, 2) }}
{{ l.index(9) }}
{{ l.sort() }}
{{ s.upper(1) }}
{{ s.strip(chars='x') }}
"""

FILTERS = r"""
{{ s|upper }} {{ s|lower }} {{ s|title }} {{ s|capitalize }} {{ 'foo-bar (baz) x.y'|title }} {{ 5|upper }} {{ none|upper }} {{ missing|upper }}x {{ "it's"|title }}
{{ ws|trim }} {{ 'xxaxx'|trim('x') }} {{ 5|trim }} {{ 'xax'|trim(chars='x') }}
{{ s|replace('o', '0') }} {{ s|replace('o', '0', 1) }} {{ 123|replace(2, 'x') }} {{ s|replace('l', none) }} {{ s|replace(old='H', new='J', count=1) }} {{ missing|replace('a', 'b') }}x
{{ l|join }} {{ l|join(', ') }} {{ items|join(',', attribute='name') }} {{ 'abc'|join('-') }} {{ d|join }} {{ missing|join }}x {{ [1, none, missing]|join(',') }} {{ l|join(d=1) }} {{ [[1], 'a']|join(',') }}
{{ 5|join }}
{{ none|join }}
{{ s|length }} {{ l|length }} {{ d|count }} {{ u|length }} {{ missing|length }} {{ range(5)|length }} {{ d.items()|length }}
{{ 5|length }}
{{ (l|map('string'))|length }}
{{ l|first }} {{ l|last }} {{ s|first }} {{ s|last }} {{ d|first }} {{ d|last }} {{ []|first }}x {{ []|last }}x {{ missing|first }}x {{ missing|last }}x {{ u|last }} {{ range(4)|last }} {{ d.items()|last }}
{{ 5|first }}
{{ (l|map('string'))|last }}
{{ l|sort }} {{ l|sort(reverse=true) }} {{ names|sort }} {{ names|sort(case_sensitive=true) }} {{ names|sort(true) }} {{ items|map(attribute='name')|sort }} {{ items|sort(attribute='name')|map(attribute='name')|list }} {{ [(2, 'a'), (1, 'b')]|sort }} {{ d|sort }} {{ [[2, 'b'], [2, 'a']]|sort(attribute='0,1') }}
{{ [1, 'a']|sort }}
{{ items|sort(attribute='v') }}
{{ [none, 1]|sort }}
{{ l|reverse|list }} {{ s|reverse }} {{ d|reverse|list }} {{ u|reverse }} {{ range(3)|reverse|list }} {{ missing|reverse|list }}
{{ 5|reverse }}
{{ names|unique|list }} {{ names|unique(true)|list }} {{ [1, 1.0, true, 2]|unique|list }} {{ items|unique(attribute='name')|map(attribute='v')|list }}
{{ [[1]]|unique|list }}
{{ l|max }} {{ l|min }} {{ names|max }} {{ names|min }} {{ []|max }}x {{ items|max(attribute='name') }} {{ names|min(case_sensitive=true) }} {{ missing|min }}x
{{ [1, 'a']|max }}
{{ l|sum }} {{ items[:2]|sum(attribute='v') }} {{ l|sum(start=10) }} {{ []|sum }} {{ [1.5, 2]|sum }} {{ [[1], [2]]|sum(start=[]) }} {{ [true, true]|sum }}
{{ ['a']|sum }}
{{ ['a']|sum(start='') }}
{{ l|map('string')|list }} {{ names|map('upper')|join(',') }} {{ items|map(attribute='sub.k')|list }} {{ items|map(attribute='zz', default='D')|list }} {{ l|map('multiply')|list if false }} {{ []|map('upper')|list }} {{ missing|map('upper')|list }} {{ ['a b', 'c d']|map('replace', ' ', '_')|list }} {{ [[1, 2], [3]]|map('first')|list }} {{ [[1, 2], [3]]|map(attribute=0)|list }}
{{ l|map|list }}
{{ l|map('nofilter')|list }}
{{ l|map(foo=1)|list }}
{{ l|select('odd')|list }} {{ l|select|list }} {{ [0, 1, '', none, 'a']|select|list }} {{ l|select('>', 1)|list }} {{ l|select('gt', 1)|list }} {{ l|reject('odd')|list }} {{ [0, 1]|reject|list }} {{ names|select('equalto', 'bob')|list }} {{ l|select('in', [1, 2])|list }} {{ [1, 'a', none]|select('string')|list }} {{ l|select('divisibleby', 3)|list }}
{{ items|selectattr('v')|map(attribute='name')|list }} {{ items|selectattr('name', 'equalto', 'x')|list|length }} {{ items|selectattr('name', '==', 'y')|first }} {{ items|rejectattr('v', 'none')|map(attribute='name')|list }} {{ items|selectattr('sub.k', 'eq', 'q')|list|length if false }} {{ items|selectattr('zz', 'undefined')|list|length }} {{ items|rejectattr('v')|list|length }} {{ items|selectattr('name', 'in', ['x', 'X'])|list|length }}
{{ items|selectattr('sub.k', 'eq', 'q')|list|length }}
{{ items|selectattr()|list }}
{{ l|select('notest')|list }}
{{ missing|default('D') }} {{ none|default('D') }} {{ none|default('D', true) }} {{ ''|default('D', boolean=true) }} {{ 0|d(5, true) }} {{ d.zz|default(l) }} {{ s|default }} {{ missing|default }}x {{ missing|default(default_value=3) }}
{{ missing.foo|default('D') }}
{{ '42'|int }} {{ ' 42 '|int }} {{ '4.7'|int }} {{ 4.7|int }} {{ -4.7|int }} {{ 'x'|int }} {{ 'x'|int(9) }} {{ none|int }} {{ '0x1A'|int(base=16) }} {{ '1A'|int(0, 16) }} {{ '1_000'|int }} {{ true|int }} {{ '1e3'|int }} {{ [1]|int }} {{ '-5'|int }} {{ '+5'|int }} {{ ''|int }} {{ '101'|int(base=2) }} {{ '0b101'|int(base=2) }} {{ '1__0'|int(7) }} {{ 'inf'|int(3) }}
{{ missing|int }}
{{ '4.5'|float }} {{ 4|float }} {{ 'x'|float }} {{ 'x'|float(1.5) }} {{ none|float }} {{ ' 1e3 '|float }} {{ 'inf'|float }} {{ '-inf'|float }} {{ 'nan'|float }} {{ true|float }} {{ '.5'|float }} {{ '5.'|float }} {{ '1_0.0'|float }} {{ 'infinity'|float }} {{ 'e5'|float(9.0) }}
{{ missing|float }}
{{ 'inf'|float|int }}
{{ -5|abs }} {{ (-5)|abs }} {{ (-2.5)|abs }} {{ true|abs }}
{{ 'a'|abs }}
{{ 2.5|round }} {{ 3.5|round }} {{ 2.675|round(2) }} {{ 42.55|round(1, 'floor') }} {{ 42.51|round(1, 'ceil') }} {{ 5|round }} {{ 1234|round(-2) }} {{ 1250|round(-2) }} {{ 1350|round(-2) }} {{ -2.5|round }} {{ (-2.5)|round }} {{ 2.4|round|int }} {{ 5|round(1, 'ceil') }} {{ 1e20|round }} {{ 0.5|round }} {{ 1234.5|round(-2) }} {{ true|round }} {{ 5.0|round(precision=1) }}
{{ 'a'|round }}
{{ 2.5|round(1, 'up') }}
{{ 5|string ~ 'x' }} {{ none|string }} {{ [1]|string }} {{ true|string }} {{ missing|string }}x {{ 1.0|string }}
{{ s|list }} {{ d|list }} {{ range(3)|list }} {{ (1, 2)|list }} {{ missing|list }} {{ d.items()|list }}
{{ 5|list }}
{{ d|items|list }} {{ missing|items|list }} {{ d|dictsort }} {{ d|dictsort(true) }} {{ d|dictsort(false, 'value') }} {{ d|dictsort(by='value', reverse=true) }} {{ d|dictsort(case_sensitive=true) }}
{{ l|items|list }}
{{ l|dictsort }}
{{ d|dictsort(by='x') }}
{{ {'a': 1, 2: 3}|dictsort }}
{{ d|tojson }} {{ l|tojson }} {{ s|tojson }} {{ u|tojson }} {{ none|tojson }} {{ true|tojson }} {{ 1.5|tojson }} {{ 1.0|tojson }} {{ html|tojson }} {{ '\n\t\\"\x00\x1f\x7f\b\f\r/'|tojson }} {{ (1, 2)|tojson }} {{ {1: 2, none: 3, true: 4, 1.5: 5}|tojson }} {{ big|tojson }} {{ []|tojson }}{{ {}|tojson }}
{{ nested|tojson(indent=2) }} {{ []|tojson(indent=2) }} {{ {'a': [], 'b': {}}|tojson(indent=4) }} {{ l|tojson(indent=0) }} {{ l|tojson(indent='--') }} {{ l|tojson(indent=none) }} {{ d|tojson(separators=(',', ':')) }} {{ d|tojson(sort_keys=true) }} {{ d|tojson(indent=1, separators=(', ', ' = ')) }} {{ u|tojson(ensure_ascii=true) }} {{ u|tojson(true) }} {{ nested|tojson(indent=2, sort_keys=true) }} {{ '\x7f'|tojson(ensure_ascii=true) }} {{ l|tojson(indent=true) }}
{{ missing|tojson }}
{{ range|tojson }}
{{ d.items()|tojson }}
{{ {'a': missing}|tojson }}
{{ {(1, 2): 3}|tojson }}
{{ {'a': 1, 2: 3}|tojson(sort_keys=true) }}
{{ namespace(a=1)|tojson }}
{{ (l|map('string'))|tojson }}
{{ 'inf'|float|tojson }} {{ 'nan'|float|tojson }} {{ 1e16|tojson }} {{ 1e-7|tojson }}
{{ html|safe }} {{ html|e }} {{ html|escape }} {{ html|forceescape }} {{ (html|e)|e }} {{ (html|safe) ~ html }} {{ (html|safe) + html }} {{ html + (html|safe) }} {{ 'a'|safe + 1|string }} {{ [html|safe] }} {{ (html|safe)|upper }} {{ (html|safe) is escaped }} {{ html is escaped }} {{ none|safe }} {{ 5|e }} {{ (html|safe)|replace('<', html) }} {{ ('<'|safe).replace('<', '&') }} {{ ('<'|safe).join(['&', '<'|safe]) }} {{ ('%s'|safe) % html }} {{ ('{}'|safe).format(html) }} {{ ('<a>'|safe)[0] + '<' }} {{ ('a b'|safe).split() }} {{ (html|safe) == html }} {{ (html|safe)|string + html }} {{ [(html|safe), html]|join }} {{ ('x'|safe) * 2 + '<' }}
{{ multi|indent }} {{ multi|indent(2) }} {{ multi|indent(2, true) }} {{ multi|indent(2, blank=true) }} {{ multi|indent('> ') }} {{ multi|indent(width=1, first=true, blank=true) }} {{ ''|indent }}x {{ 'a\n'|indent(2) }}x {{ 'a\n\n'|indent(2, blank=true) }}x {{ ''|indent(2, true) }}x {{ crlf|indent(1) }}
{{ 5|indent }}
{{ 'one two, three-four  five_six'|wordcount }} {{ ''|wordcount }} {{ u|wordcount }} {{ 5|wordcount }}
{{ '%s and %s'|format('a', 1) }} {{ '%(x)s'|format(x=1) }} {{ 'a'|format }} {{ '%d%%'|format(5) }}
{{ '%s'|format(1, x=2) }}
{{ 'ab'|center(6) }}| {{ 'ab'|center(width=5) }}| {{ 5|center(3) }}|
{{ 'foo bar baz qux'|truncate(9) }} {{ 'foo bar baz qux'|truncate(9, true) }} {{ 'foo bar baz qux'|truncate(11) }} {{ 'foo bar baz qux'|truncate(11, false, '...', 0) }} {{ 'foobarbazqux'|truncate(6, leeway=0) }} {{ 'ab'|truncate(5) }} {{ u|truncate(5, true, '…', 0) }}
{{ 'foo bar'|truncate(2) }}
{% for r in [1, 2, 3, 4, 5]|batch(2) %}{{ r }}{% endfor %} {% for r in [1, 2, 3]|batch(2, 'x') %}{{ r }}{% endfor %} {% for r in [1, 2, 3, 4, 5]|slice(3) %}{{ r }}{% endfor %} {% for r in [1, 2, 3, 4, 5]|slice(3, 0) %}{{ r }}{% endfor %} {{ []|batch(2)|list }} {{ [1]|slice(3)|list }}
{{ [1]|slice(0)|list }}
{% for g in items|groupby('name') %}{{ g.grouper }}:{{ g.list|length }} {{ g[0] }};{% endfor %}{% for k, v in items|groupby('name', case_sensitive=true) %}{{ k }}{{ v|length }};{% endfor %}{{ [{'a': 1}, {'b': 2}]|groupby('a', default=0) }}
{{ items|groupby('v') }}
{{ d|attr('a') }}x {{ s|attr('upper') is callable }} {{ s|attr('nope') is defined }}
{{ s|attr(1) }}
{{ s|nofilter }}
{{ s|nofilter if false else 'ok' }}
{% if false %}{{ s|nofilter }}{% else %}ok{% endif %}
{% if true %}{{ s|nofilter }}{% endif %}
{{ s|upper|lower|title }} {{ -5|abs|string }} {{ (1, 2)|first + 1 }} {{ s|upper == 'HELLO WORLD' }} {{ not s|length }} {{ l|length > 2 and d|length == 3 }} {{ '5'|int + 3 }} {{ 2 * l|length }} {{ 2 ** l|length }}
{{ s|upper() }} {{ s|upper(1) }}
{{ s|replace('a') }}
{{ s|replace('a', 'b', 'c') }}
{{ s|default('a', b=1) }}
"""

TESTS = r"""
{{ s is defined }} {{ missing is defined }} {{ missing is undefined }} {{ d.zz is defined }} {{ none is defined }} {{ d.a is not defined }} {{ not missing is defined }}
{{ none is none }} {{ 0 is none }} {{ missing is none }} {{ t is true }} {{ 1 is true }} {{ no is false }} {{ 0 is false }} {{ t is boolean }} {{ 1 is boolean }}
{{ 1 is integer }} {{ true is integer }} {{ 1.0 is integer }} {{ 1.0 is float }} {{ 1 is float }} {{ 1 is number }} {{ true is number }} {{ '1' is number }} {{ big is integer }}
{{ s is string }} {{ 1 is string }} {{ (s|safe) is string }} {{ d is mapping }} {{ l is mapping }} {{ none is mapping }} {{ d.items() is mapping }} {{ namespace() is mapping }}
{{ l is sequence }} {{ d is sequence }} {{ s is sequence }} {{ 1 is sequence }} {{ missing is sequence }} {{ none is sequence }} {{ range(3) is sequence }} {{ d.keys() is sequence }} {{ (l|map('string')) is sequence }} {{ (1, 2) is sequence }} {{ namespace() is sequence }}
{{ l is iterable }} {{ s is iterable }} {{ 5 is iterable }} {{ missing is iterable }} {{ none is iterable }} {{ d.items() is iterable }} {{ (l|map('string')) is iterable }} {{ namespace() is iterable }}
{{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby 2 }} {{ 4 is divisibleby(3) }} {{ 4.0 is even }} {{ 4 is divisibleby(num=2) }}
{{ 'a' is odd }}
{{ none is even }}
{{ 4 is divisibleby 0 }}
{{ 'abc' is lower }} {{ 'ABC' is upper }} {{ 'Abc' is lower }} {{ '1' is lower }} {{ 5 is upper }} {{ 'é' is lower }}
{{ 1 is eq 1 }} {{ 1 is equalto(1.0) }} {{ 1 is ne 2 }} {{ 1 is lt 2 }} {{ 1 is gt 2 }} {{ 1 is le 1 }} {{ 1 is ge 2 }} {{ 1 is lessthan 2 }} {{ 1 is greaterthan 0 }}
{{ 1 is in [1, 2] }} {{ 1 is not in [1, 2] }} {{ 'a' is in 'abc' }} {{ 1 is in(l) }} {{ none is sameas none }} {{ true is sameas true }} {{ 1 is sameas true }} {{ l is sameas l }} {{ [] is sameas [] }}
{{ 'upper' is filter }} {{ 'nofilter' is filter }} {{ 'odd' is test }} {{ 'noo' is test }} {{ 'urlize' is filter }}
{{ 1 is odd and 2 is even }} {{ 1 is odd or x }} {{ 5 is odd if true else 0 }} {{ s is string and s is not none }} {{ 1 is not odd }}
{{ 1 is odd is even }}
{{ 1 is notest }}
{{ 1 is divisibleby }}
{{ 1 is defined 5 }}
{{ 1 is string(1) }}
{{ 10 is divisibleby 5 and 1 }} {{ 10 is divisibleby n.foo.real if false else 1 }} {{ 3 is eq n - 4 if false else 2 }}
"""

STATEMENTS = r"""
{% if t %}a{% elif no %}b{% else %}c{% endif %}|{% if no %}a{% elif t %}b{% else %}c{% endif %}|{% if no %}a{% elif no %}b{% else %}c{% endif %}|{% if no %}a{% endif %}
{% for x in l %}{{ x }}{{ ',' if not loop.last }}{% endfor %}|{% for x in [] %}a{% else %}empty{% endfor %}|{% for x in missing %}a{% else %}none{% endfor %}
{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.depth }}{{ loop.depth0 }} {% endfor %}
{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}
{% for x in l %}{{ loop.previtem.foo }}{% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}{% for x in l %}{{ loop.cycle('a', 'b') }}{% endfor %}
{% for x in l %}{{ loop.foo }}x{% endfor %}
{% for x in l %}{{ loop.cycle() }}{% endfor %}
{% for x in range(6) if x is odd %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% endfor %}|{% for x in l if x > 5 %}a{% else %}nope{% endfor %}
{% set ns = namespace(stop=false) %}{% for x in range(6) if not ns.stop %}{{ x }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% set ns = namespace(stop=false) %}{% for x in range(6) if not ns.stop %}{{ x }}{{ loop.last }}{% if x == 2 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'aé' %}<{{ c }}>{% endfor %}
{% for a, (b, c) in [(1, (2, 3)), (4, [5, 6])] %}{{ a }}{{ b }}{{ c }};{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in none %}{% endfor %}
{% for x in l %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}|{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in [1] %}{% break %}{% else %}else-after-break{% endfor %}|{% for x in [1] %}{% continue %}{% else %}else-after-continue{% endfor %}|{% for x in [1, 2] %}{% if x == 1 %}{% continue %}{% endif %}{% else %}no{% endfor %}
{% for x in [1, 2] %}{% for y in [1, 2] %}{% if y == 2 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}
{% for x in [1, 2] %}{% for y in 'ab' %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}
{% for x in [[1, [2]], [3]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}@{{ loop.depth }}{% endif %}{% endfor %}
{% for x in l %}{{ loop(l) }}{% endfor %}
{% for x in l %}{{ loop }}{% endfor %}
{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }} {% endfor %}{{ x }}
{% set x = 1 %}{% if t %}{% set x = 2 %}{% endif %}{{ x }}
{% for i in l %}{% set y = i %}{% endfor %}{{ y }}x
{% for i in l %}{{ i }}{% endfor %}{{ i }}x{{ loop }}x
{% set ns = namespace(n=0, l=[]) %}{% for i in l %}{% set ns.n = ns.n + i %}{% set ns.l = ns.l + [i] %}{% endfor %}{{ ns.n }} {{ ns.l }} {{ ns.zz }}x {{ ns['n'] }} {{ ns['zz'] is defined }}
{% set ns.x = 1 %}
{% set d.x = 1 %}
{% set ns = namespace() %}{% set ns._x = 1 %}
{% set ns = namespace() %}{% set ns.items = 5 %}{{ ns.items }}{% set ns.a, ns.b = 1, 2 %}{{ ns.a }}{{ ns.b }}
{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns }}
{% set ns = namespace() %}{% set ns.me = ns %}{{ ns.me.me is defined }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set a, b = 1 %}
{% set a = 1, %}{{ a }}{% set b = () %}{{ b }}
{% set x %}a{{ n }}b{% endset %}[{{ x }}]{% set y|upper|trim %} abc {% endset %}[{{ y }}]{% set z|replace('a', 'x') %}banana{% endset %}{{ z }}
{% set x %}{% set inner = 5 %}{% endset %}{{ inner }}x
{% set ns = namespace() %}{% set ns.x %}block{% endset %}{{ ns.x }}
{% with a = 1, b = 2 %}{{ a + b }}{% set c = 3 %}{% endwith %}{{ a }}{{ c }}x{% with %}{% set q = 1 %}{{ q }}{% endwith %}{% set a = 5 %}{% with a = a + 1, b = a %}{{ a }}{{ b }}{% endwith %}
{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, 3) }} {{ m(1, c='y') }} {{ m(b=1, a=2) }} {{ m() }} {{ m(*[1, 2]) }} {{ m(**{'a': 5}) }} {{ m(1, *[2], **{'c': 3}) }}
{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{% endmacro %}{{ m(z=2) }}
{% macro m(a) %}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a) %}{{ a.b }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ varargs }}{{ kwargs }}{{ a }}{% endmacro %}{{ m(1, 2, 3, x=4) }} {{ m.name }} {{ m.arguments }} {{ m.catch_kwargs }} {{ m.catch_varargs }} {{ m.caller }} {{ m }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{{ n }}{% endcall %}
{% macro m() %}{% for x in l %}{{ caller(x, y=1) }}{% endfor %}{% endmacro %}{% call(a, y=0) m() %}<{{ a }}{{ y }}>{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}
{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}
{% call n() %}{% endcall %}
{% macro m(x, caller=none) %}{{ caller }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}
{% macro fact(n) %}{{ 1 if n < 2 else n * fact(n - 1)|int }}{% endmacro %}{{ fact(6) }}
{% macro m() %}{{ y }}{% endmacro %}{% set y = 5 %}{{ m() }}{% set y = 6 %}{{ m() }}
{% macro m() %}{% set y = 1 %}{{ y }}{% endmacro %}{{ m() }}{{ y }}x{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{% endmacro %}{{ outer() }}{{ inner }}x
{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}
{% macro m(a=n, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m() }}{{ m(1) }}
{% macro m() %} x {% endmacro %}{{ m()|trim }}|{{ m() is string }}|{{ m() + 'a' }}|{{ m()|length }}
{{ m() }}{% macro m() %}late{% endmacro %}
{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}
{% filter upper %}abc{{ s }}{% endfilter %}|{% filter replace('a', 'b')|title %}banana{% endfilter %}|{% filter indent(2) %}{% set hidden = 1 %}a
b{% endfilter %}{{ hidden }}x
{% generation %}x{% set g = 1 %}{{ s }}{% endgeneration %}{{ g }}x
{% print 1, 'a' %}
{% raw %}{{ not }} {% if %}{# c #}{% endraw %}|{%- raw -%}  x  {%- endraw -%}  y
{# comment {{ x }} {% if %} #}a{#- c -#} b
{% do l.append(1) %}
{% foo %}
{% if t %}
{% for x in l %}
{% endif %}
{% if %}{% endif %}
{% for x l %}{% endfor %}
{% for in l %}{% endfor %}
{% set %}
{% set x = %}
{% set 1 = 2 %}
{% set x.y.z = 1 %}
{% set x + 1 = 1 %}
{% set none = 1 %}
{% set loop = 1 %}{{ loop }}
{% for x in l %}{% set loop = 1 %}{% endfor %}
{% for loop in l %}{% endfor %}
{% macro m %}{% endmacro %}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, a) %}{% endmacro %}
{% macro 1() %}{% endmacro %}
{% call 5 %}{% endcall %}
{% break %}
{% continue %}
{% for x in l %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}
{% if t %}a{% else %}b{% elif t %}c{% endif %}
{{ }}
{{ 1 2 }}
{{ 1 + }}
{{ (1 }}
{{ [1, }}
{{ {1} }}
{{ {'a' 1} }}
{{ 'abc }}
{{ a.b. }}
{{ a| }}
{{ a is }}
{{ a[1 }}
{{ a ! b }}
{{ a $ b }}
{{ f(a=1, 2) }}
{{ f(**a, b=1) }}
{{ f(a=1, a=2) }}
{{ 'a' if }}
{{ "\x4" }}
{{ 1
{% if t
{# never closed
{% raw %} never closed
{{ ) }}
{{ (1] }}
{{ 1.2.3 }}
{{ 1a }}
{{ a b }}
{{ items.0.name }}
{{ é }}{% set naïve = 1 %}{{ naïve }}
{{ {'a': {'b': 1}} }}{{ {'a': {'b': 1}}['a'] }}{{ {'x':'}}'}['x'] }}
{{ '%}' }}{% set x = '}}' %}{{ x }}{{ "{{" }}
{{ [1, 2, ] }}{{ {'a': 1, } }}{{ (1, 2, ) }}{{ dict(a=1, ) }}
{% if 1 in [1] and not 2 in [1] %}y{% endif %}{% if n > 5 %}y{% endif %}{% if l %}y{% endif %}{% if e %}n{% endif %}
{% if (t) %}a{% endif %}{% if t: %}b{% endif %}{% for x in l: %}{{ x }}{% endfor %}
{% for x in 1, 2 %}{{ x }}{% endfor %}{% for x in (1, 2) if x > 1 %}{{ x }}{% endfor %}{% for x in (l if t else []) %}{{ x }}{% endfor %}
{%if t%}a{%endif%}{{n}}{{-n}}{{- n -}}{{+n}}
{{ loop is defined }}{{ caller is defined }}{{ varargs is defined }}
"""

# What this engine refuses by name, whatever jinja2 makes of it.
REFUSED = r"""
{{ d.items }}
{{ range }}
{{ (l|map('string')) }}
{{ lipsum }}
{{ self }}
{{ 'a'|filesizeformat }}
{{ s|pprint }}
{{ l|random }}
{{ html|striptags }}
{{ s|urlencode }}
{{ s|urlize }}
{{ s|wordwrap }}
{{ d|xmlattr }}
{% include 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% extends 'x' %}
{% block x %}{% endblock %}
{% autoescape true %}{% endautoescape %}
{{ "\ud83d\ude00" }}
{{ "\N{DASH}" }}
{{ n.real }}
{{ s.casefold() }}
{{ s.encode() }}
{{ s.swapcase() }}
{{ 2 ** 200 }}
{{ 170141183460469231731687303715884105728 }}
{{ (-8) ** 0.5 }}
{{ '%a' % 'é' }}
{{ '{!a}'.format('é') }}
{{ s[1:2, 3] }}
"""

# Whitespace control needs line ends, so these are written out one by one.
WHITESPACE = [
    "a\n{% if t %}\nb\n{% endif %}\nc\n", "a\n  {% if t %}\n  b\n  {% endif %}\n  c\n\n", "a {% if t %} b {% endif %} c",
    "  {% if t %}x{% endif %}", "a  {%- if t -%}  b  {%- endif -%}  c", "a\n  {%- if t %}\n  b\n  {% endif -%}\n  c",
    "a\n  {%+ if t %}\n  b\n  {%+ endif %}\n  c", "a\n{% if t +%}\nb{% endif +%}\nc", "  {{ n }}  \n  {{- n }}\n {{ n -}} \n x",
    "a\n  {# c #}\n  b", "a\n  {#- c -#}\n  b", "a\n  {#+ c +#}\n  b", "{# c #}\na", "{% set x = 1 %}\n\n{{ x }}\n", "a\r\nb\rc\n",
    "{{ 'a\r\nb' }}", "\n", "", "\n\n", "a\n", "a\n\n", "  \n  {% if t %}\n", "{% for x in l %}\n  {{ x }}\n{% endfor %}\nz",
    "{% for x in l -%}\n  {{ x }}\n{%- endfor %}\nz", "{{ n }}\n{{ n }}\n\n", "\t{% if t %}\tx\t{% endif %}\t\n", "a{% raw %}\n  b\n  {% endraw %}\nc",
    "  {% raw %}  {{ x }}  {% endraw %}  ", "a\n  {%- raw -%}\n b \n  {%- endraw -%}\n c", "a\u00a0\u3000{%- if t %}x{% endif -%}\u2003y",
    "{{ n }}{# c #}\n{{ n }}", "a\n \u00a0{% if t %}b{% endif %}", "{%- if t %}\n\n\nb{% endif %}", "{% if t %}{# c #}\n  {% endif %}x",
    "x {{ n }} {% if t %}\n  {{ n }} {% endif %} y\n  ", "{% if t -%} \n a \n {%- endif %}", "{{'a'}}{{-'b'-}} {{+'c'}}", "{#-#}a{#--#}b", "{%-+ if t %}{% endif %}",
    "{%\nset x\n=\n1\n%}\n{{\nx\n}}\n", "line1\n{{ missing.foo }}", "\n\n{{ n }}\n\n\n", "{{ '\n' }}\n", "{% macro m() %}\n  x\n{% endmacro %}\n[{{ m() }}]",
    "\ufeffa", "a\x0b\x0c{%- if t %}b{% endif %}", "\x1c{%- if t %}b{% endif %}", "{{ n }} \n {%- set a = 1 %}\n b", "a{{ n }}\n", "a\n{%- if t %}\n{%- endif %}\n",
]


def lines(block):
    rest = iter(block.strip("\n").split("\n"))
    for line in rest:
        # A line that breaks off inside a string or block goes on in the next.
        while line.endswith("\\") or line.endswith("%}a"):
            line += "\n" + next(rest)
        yield line


def snippets():
    for block in (OUTPUT, METHODS, FILTERS, TESTS, STATEMENTS):
        yield from lines(block)
    yield from WHITESPACE


def refused():
    yield from lines(REFUSED)
