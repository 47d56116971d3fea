// Python's two ways to format: "%s" % x and "{}".format(x).
#pragma once
#include "text/jinja/heap.h"
#include "text/jinja/value.h"

namespace monograph::jinja {

class Interpreter;

/// format % arguments, where a tuple holds several arguments and a dictionary named ones.
TextPtr printf_style(Heap& heap, const Text& format, const Value& arguments);
/// format.format(*positional, **named)
TextPtr brace_style(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace monograph::jinja
