// What may stand behind `is`.
#include <algorithm>

#include "text/jinja/arithmetic.h"
#include "text/jinja/builtins.h"
#include "text/jinja/filter_tables.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/signature.h"
#include "text/jinja/text_functions.h"

namespace monograph::jinja {
namespace {

using In = Interpreter&;
using Self = const Value&;
using Args = const Arguments&;

void no_arguments(Args args) { bind("this test", args, {}); }
const Value& other(Args args) { return *bind_places("this test", args, 1, 1)[0]; }

template <bool (*Property)(Self)>
Value has(In, Self self, Args args) {
  no_arguments(args);
  return Value(Property(self));
}

bool defined(Self v) { return !v.is_undefined(); }
bool undefined(Self v) { return v.is_undefined(); }
bool none(Self v) { return v.is_none(); }
bool boolean(Self v) { return v.is<bool>(); }
bool is_true(Self v) { return v.is<bool>() && *v.get<bool>(); }
bool is_false(Self v) { return v.is<bool>() && !*v.get<bool>(); }
bool integer(Self v) { return v.is<Int>(); }
bool real(Self v) { return v.is<double>(); }
bool string(Self v) { return v.text() != nullptr; }
bool mapping(Self v) { return v.object<Dict>() != nullptr; }
bool escaped(Self v) { return v.text() && v.text()->markup; }
bool callable(Self v) { return v.object<Callable>() || v.object<Loop>() || v.is_undefined(); }
bool sequence(Self v) {
  const auto* s = v.object<Sequence>();
  const bool indexed =
      s && s->type != SequenceType::kKeys && s->type != SequenceType::kValues && s->type != SequenceType::kItems;
  return indexed || v.text() || v.object<Dict>() || v.is_undefined();
}

Value remainder_is(In in, Self self, Int divisor, Int wanted) {
  return Value(equal(in.heap(), modulo(in.heap(), self, Value::integer(divisor)), Value::integer(wanted)));
}
Value odd(In in, Self self, Args args) { return no_arguments(args), remainder_is(in, self, 2, 1); }
Value even(In in, Self self, Args args) { return no_arguments(args), remainder_is(in, self, 2, 0); }
Value divisibleby(In in, Self self, Args args) {
  const Bound bound = bind("divisibleby", args, {"num"}, 1);
  return Value(equal(in.heap(), modulo(in.heap(), self, *bound[0]), Value::integer(0)));
}

Value lower(In in, Self self, Args args) {
  return no_arguments(args), Value(all_cased(in.heap(), *to_str(in.heap(), self), false));
}
Value upper(In in, Self self, Args args) {
  return no_arguments(args), Value(all_cased(in.heap(), *to_str(in.heap(), self), true));
}

Value eq(In in, Self self, Args args) { return Value(equal(in.heap(), self, other(args))); }
Value ne(In in, Self self, Args args) { return Value(!equal(in.heap(), self, other(args))); }
Value lt(In in, Self self, Args args) { return Value(less(in.heap(), self, other(args))); }
Value gt(In in, Self self, Args args) { return Value(less(in.heap(), other(args), self)); }
Value le(In in, Self self, Args args) { return Value(less_equal(in.heap(), self, other(args))); }
Value ge(In in, Self self, Args args) { return Value(less_equal(in.heap(), other(args), self)); }
Value in(In in, Self self, Args args) {
  const Bound bound = bind("in", args, {"seq"}, 1);
  return Value(contains(in.heap(), *bound[0], self));
}

// Small values have no identity of their own here: the same type and value is the same.
Value sameas(In in, Self self, Args args) {
  const Value wanted = *bind("sameas", args, {"other"}, 1)[0];
  const bool containers = self.object<Sequence>() || self.object<Dict>();
  if (self.storage().index() != wanted.storage().index()) return Value(false);
  if (!containers) return Value(equal(in.heap(), self, wanted));
  return Value(self.object<Sequence>() == wanted.object<Sequence>() && self.object<Dict>() == wanted.object<Dict>());
}

Value filter(In, Self self, Args args) {
  no_arguments(args);
  return Value(self.text() && (find_filter(self.text()->bytes) || is_refused_filter(self.text()->bytes)));
}
Value test(In, Self self, Args args) {
  no_arguments(args);
  return Value(self.text() && find_test(self.text()->bytes) != nullptr);
}

constexpr NamedNative kTests[] = {
    {"defined", has<defined>},
    {"undefined", has<undefined>},
    {"none", has<none>},
    {"boolean", has<boolean>},
    {"true", has<is_true>},
    {"false", has<is_false>},
    {"integer", has<integer>},
    {"float", has<real>},
    {"number", has<is_number>},
    {"string", has<string>},
    {"mapping", has<mapping>},
    {"sequence", has<sequence>},
    {"iterable", has<is_iterable>},
    {"callable", has<callable>},
    {"escaped", has<escaped>},
    {"odd", odd},
    {"even", even},
    {"divisibleby", divisibleby},
    {"lower", lower},
    {"upper", upper},
    {"sameas", sameas},
    {"in", in},
    {"filter", filter},
    {"test", test},
    {"==", eq},
    {"eq", eq},
    {"equalto", eq},
    {"!=", ne},
    {"ne", ne},
    {"<", lt},
    {"lt", lt},
    {"lessthan", lt},
    {">", gt},
    {"gt", gt},
    {"greaterthan", gt},
    {"<=", le},
    {"le", le},
    {">=", ge},
    {"ge", ge},
};

}  // namespace

Native find_test(std::string_view name) {
  for (const auto& [test_name, native] : kTests) {
    if (test_name == name) return native;
  }
  return nullptr;
}

}  // namespace monograph::jinja
