#include "text/pretokenize.h"

#include <cstdint>

#include "text/unicode_classes.h"
#include "text/unicode_utf8.h"

// The patterns, in the notation of their authors (an alternative counts only if those before it fail):
//   GPT-2      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   digits     every \p{N} stands alone, GPT-2 on the stretches between
//   Llama 3    (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
//              |\s*[\r\n]+|\s+(?!\S)|\s+
//   Qwen 2     Llama 3 with \p{N} instead of \p{N}{1,3}
//   Qwen 3.5   Qwen 2 with [\p{L}\p{M}]+ for \p{L}+, and marks no longer among the punctuation
namespace monograph {
namespace {

struct Named {
  std::string_view name;
  PreTokenizer what;
};
constexpr PreTokenizer kGpt2{SplitStyle::kGpt2};
constexpr PreTokenizer kGpt2Nfc{SplitStyle::kGpt2, true};
constexpr PreTokenizer kDigits{SplitStyle::kDigitsGpt2};
constexpr PreTokenizer kLlama3{SplitStyle::kLlama3, false, true, true};
constexpr PreTokenizer kQwen2{SplitStyle::kQwen2, true};
constexpr Named kFamilies[] = {
    {"gpt-2", kGpt2},
    {"phi-2", kGpt2},
    {"jais", kGpt2},
    {"exaone4", kGpt2},
    {"mpt", kGpt2Nfc},
    {"olmo", kGpt2Nfc},
    {"smollm", kDigits},
    {"starcoder", kDigits},
    {"refact", kDigits},
    {"codeshell", kDigits},
    {"command-r", {SplitStyle::kDigitsGpt2, true}},
    {"llama-bpe", kLlama3},
    {"llama3", kLlama3},
    {"llama-v3", kLlama3},
    {"falcon3", kLlama3},
    {"lfm2", kLlama3},
    {"smaug-bpe", {SplitStyle::kLlama3}},
    {"dbrx", {SplitStyle::kLlama3}},
    {"qwen2", kQwen2},
    {"deepseek-r1-qwen", kQwen2},
    {"megrez", kQwen2},
    {"stablelm2", {SplitStyle::kQwen2}},
    {"qwen35", {SplitStyle::kQwen35}},  // its published cases keep decomposed characters
};

// The text's characters: their classes, and where each starts.
class Chars {
 public:
  explicit Chars(std::string_view text) : text_(text) {
    classes_.reserve(text.size());
    offsets_.reserve(text.size() + 1);
    for (std::size_t at = 0; at < text.size();) {
      const Utf8Char c = utf8_char_at(text, at);
      offsets_.push_back(static_cast<std::uint32_t>(at));
      classes_.push_back(c.well_formed ? class_of(c.code) : CharClass::kOther);
      at += c.length;
    }
    offsets_.push_back(static_cast<std::uint32_t>(text.size()));
  }
  int size() const { return static_cast<int>(classes_.size()); }
  bool is(int i, CharClass what) const { return i < size() && classes_[i] == what; }
  char byte(int i) const { return i < size() ? text_[offsets_[i]] : '\0'; }
  std::string_view slice(int begin, int end) const {
    return text_.substr(offsets_[begin], offsets_[end] - offsets_[begin]);
  }

 private:
  std::string_view text_;
  std::vector<CharClass> classes_;
  std::vector<std::uint32_t> offsets_;
};

// Finds where the piece that starts at `i` ends, in the stretch that ends at `end`.
class Splitter {
 public:
  Splitter(const Chars& chars, SplitStyle style)
      : chars_(chars), style_(style), marks_are_letters_(style == SplitStyle::kQwen35) {}

  int gpt2_end(int i, int end) const {
    if (const int n = contraction(i, end, /*any_case=*/false)) return i + n;
    const int word = i + (chars_.byte(i) == ' ' && i + 1 < end ? 1 : 0);
    if (is_letter(word)) return run(word, end, [&](int j) { return is_letter(j); });
    if (is_number(word)) return run(word, end, [&](int j) { return is_number(j); });
    if (is_punctuation(word)) return run(word, end, [&](int j) { return is_punctuation(j); });
    return space_end(i, end);
  }

  int llama3_end(int i, int end) const {
    if (const int n = contraction(i, end, /*any_case=*/true)) return i + n;
    if (const int word = word_start(i, end); word >= 0) return run(word, end, [&](int j) { return is_letter(j); });
    if (is_number(i)) return run(i, std::min(end, i + max_digits()), [&](int j) { return is_number(j); });
    const int mark = i + (chars_.byte(i) == ' ' && i + 1 < end ? 1 : 0);
    if (is_punctuation(mark)) {
      const int after = run(mark, end, [&](int j) { return is_punctuation(j); });
      return run(after, end, [&](int j) { return is_newline(j); });
    }
    return newlines_or_space_end(i, end);
  }

 private:
  bool is_letter(int i) const {
    return chars_.is(i, CharClass::kLetter) || (marks_are_letters_ && chars_.is(i, CharClass::kMark));
  }
  bool is_number(int i) const { return chars_.is(i, CharClass::kNumber); }
  bool is_space(int i) const { return chars_.is(i, CharClass::kSpace); }
  bool is_newline(int i) const { return chars_.byte(i) == '\n' || chars_.byte(i) == '\r'; }
  bool is_punctuation(int i) const { return i < chars_.size() && !is_letter(i) && !is_number(i) && !is_space(i); }
  int max_digits() const { return style_ == SplitStyle::kLlama3 ? 3 : 1; }

  template <typename Test>
  int run(int i, int end, Test test) const {
    while (i < end && test(i)) ++i;
    return i;
  }

  // Number of characters of 's, 't, 're, ... at i; 0 if there is none. Case folding makes U+017F an s.
  int contraction(int i, int end, bool any_case) const {
    if (chars_.byte(i) != '\'' || i + 1 >= end) return 0;
    const auto letter = [&](int j) {
      const std::string_view c = j < end ? chars_.slice(j, j + 1) : std::string_view();
      if (any_case && c == "\u017F") return 's';
      if (c.size() != 1) return '\0';
      return any_case && c[0] >= 'A' && c[0] <= 'Z' ? static_cast<char>(c[0] + 32) : c[0];
    };
    const char first = letter(i + 1), second = letter(i + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    const bool two =
        (first == 'r' && second == 'e') || (first == 'v' && second == 'e') || (first == 'l' && second == 'l');
    return two ? 3 : 0;
  }

  // [^\r\n\p{L}\p{N}]?\p{L}+ : where its letters start, -1 if it does not match at i.
  int word_start(int i, int end) const {
    const bool may_lead = !is_newline(i) && !chars_.is(i, CharClass::kLetter) && !is_number(i);
    if (may_lead && i + 1 < end && is_letter(i + 1)) return i + 1;
    return is_letter(i) ? i : -1;
  }

  // \s*[\r\n]+|\s+(?!\S)|\s+
  int newlines_or_space_end(int i, int end) const {
    const int space = run(i, end, [&](int j) { return is_space(j); });
    for (int last = space; last > i; --last)
      if (is_newline(last - 1)) return last;
    return space_end(i, end);
  }

  // \s+(?!\S)|\s+ : the run, without its last character if text follows.
  int space_end(int i, int end) const {
    const int space = run(i, end, [&](int j) { return is_space(j); });
    return space < end && space - i > 1 ? space - 1 : std::max(space, i + 1);
  }

  const Chars& chars_;
  SplitStyle style_;
  bool marks_are_letters_;
};

void split_gpt2(const Chars& chars, const Splitter& splitter, int begin, int end,
                std::vector<std::string_view>& pieces) {
  while (begin < end) {
    const int next = splitter.gpt2_end(begin, end);
    pieces.push_back(chars.slice(begin, next));
    begin = next;
  }
}

void split_digits_gpt2(const Chars& chars, const Splitter& splitter, std::vector<std::string_view>& pieces) {
  int begin = 0;
  for (int i = 0; i < chars.size(); ++i) {
    if (!chars.is(i, CharClass::kNumber)) continue;
    split_gpt2(chars, splitter, begin, i, pieces);
    pieces.push_back(chars.slice(i, i + 1));
    begin = i + 1;
  }
  split_gpt2(chars, splitter, begin, chars.size(), pieces);
}

}  // namespace

std::optional<PreTokenizer> find_pre_tokenizer(std::string_view name) {
  for (const Named& family : kFamilies)
    if (family.name == name) return family.what;
  return std::nullopt;
}

void split_pieces(SplitStyle style, std::string_view text, std::vector<std::string_view>& pieces) {
  const Chars chars(text);
  const Splitter splitter(chars, style);
  if (style == SplitStyle::kGpt2) return split_gpt2(chars, splitter, 0, chars.size(), pieces);
  if (style == SplitStyle::kDigitsGpt2) return split_digits_gpt2(chars, splitter, pieces);
  for (int i = 0; i < chars.size();) {
    const int next = splitter.llama3_end(i, chars.size());
    pieces.push_back(chars.slice(i, next));
    i = next;
  }
}

}  // namespace monograph
