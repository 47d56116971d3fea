// Two things that the interpreter sets aside for a while and puts back.
#pragma once
#include "text/jinja/scope.h"
#include "text/jinja/text.h"

namespace monograph::jinja {

/// Output goes into a string of its own while it lives.
class Capture {
 public:
  explicit Capture(TextBuilder*& out) : out_(out), outer_(out) { out_ = &builder_; }
  ~Capture() { out_ = outer_; }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;
  TextPtr finish() { return builder_.finish(); }

 private:
  TextBuilder*& out_;
  TextBuilder* outer_;
  TextBuilder builder_;
};

/// A scope is the current one while it lives.
class InScope {
 public:
  InScope(Scope*& current, Scope* scope) : current_(current), outer_(current) { current_ = scope; }
  ~InScope() { current_ = outer_; }
  InScope(const InScope&) = delete;
  InScope& operator=(const InScope&) = delete;

 private:
  Scope*& current_;
  Scope* outer_;
};

}  // namespace monograph::jinja
