#include "base/options.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>

#include "base/check.h"
#include "base/option_values.h"
#include "monograph/error.h"

namespace monograph {
namespace {

constexpr std::string_view kPrefix = "MONOGRAPH_";
const std::string kConfig = "config";
constexpr std::int64_t kMaxConfigBytes = 1 << 20;

[[noreturn]] void refuse(const std::string& message, const std::string& field) {
  throw Error(ErrorCode::kInvalidArgument, message, field);
}

bool contains(std::span<const std::string_view> groups, std::string_view group) {
  return std::find(groups.begin(), groups.end(), group) != groups.end();
}

bool is_bool_word(const std::string& text) {
  constexpr std::string_view kWords[] = {"true", "false", "1", "0", "on", "off"};
  return std::find(std::begin(kWords), std::end(kWords), text) != std::end(kWords);
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

/// A value of the file: quoted text as it is, a bracketed list without its brackets and spaces, else the bare text up
/// to a comment.
std::string file_value(std::string value, const std::string& where) {
  if (!value.empty() && (value[0] == '"' || value[0] == '\'')) {
    const auto end = value.find(value[0], 1);
    const std::string rest = end == std::string::npos ? "" : trimmed(value.substr(end + 1));
    if (end == std::string::npos || (!rest.empty() && rest[0] != '#' && rest[0] != ';'))
      refuse(where + ": a quoted value does not end", where);
    return value.substr(1, end - 1);
  }
  for (std::size_t at = 1; at < value.size(); ++at)
    if ((value[at] == '#' || value[at] == ';') && (value[at - 1] == ' ' || value[at - 1] == '\t')) value.resize(at);
  value = trimmed(value);
  if (value.size() >= 2 && value.front() == '[' && value.back() == ']') {
    value = value.substr(1, value.size() - 2);
    std::erase_if(value, [](char c) { return c == ' ' || c == '\t'; });
  }
  return value;
}

std::vector<std::string> flags_of(std::span<const Knob> knobs, std::span<const std::string_view> groups) {
  std::vector<std::string> flags;
  for (const auto& knob : knobs)
    if (contains(groups, knob.group)) flags.push_back("--" + knob.name);
  return flags;
}

std::string hint(const std::string& word, const std::vector<std::string>& candidates) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

}  // namespace

std::string environment_name(std::string_view knob) {
  if (knob == "port") return "MONOGRAPH_ARG_PORT";
  std::string name(kPrefix);
  for (char c : knob) name.push_back(c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c))));
  return name;
}

std::map<std::string, std::string> process_environment() {
  std::map<std::string, std::string> all;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (const auto at = text.find('='); at != std::string_view::npos)
      all.emplace(text.substr(0, at), text.substr(at + 1));
  }
  return all;
}

Options::Options() {
  add({kConfig, "FILE", "settings, one `key = value` per line; keys are the options' names", "Settings",
       [](std::span<const std::string>, const std::string&) {}, true});
}

void Options::add(Knob knob) {
  CHECK(find(knob.name) == nullptr);
  knobs_.push_back(std::move(knob));
}

const Knob* Options::find(std::string_view name) const {
  const auto found = std::find_if(knobs_.begin(), knobs_.end(), [&](const Knob& knob) { return knob.name == name; });
  return found == knobs_.end() ? nullptr : &*found;
}

std::vector<std::string> Options::names() const {
  std::vector<std::string> all;
  for (const auto& knob : knobs_) all.push_back(knob.name);
  return all;
}

const std::string& Options::origin(const std::string& name) const {
  static const std::string kNone;
  const auto found = origins_.find(name);
  return found == origins_.end() ? kNone : found->second;
}

Options::Result Options::parse(std::span<const std::string> args, const std::map<std::string, std::string>& environment,
                               std::span<const std::string_view> groups) {
  Result result;
  const Values on_line = read_arguments(args, groups, result);
  if (result.help || result.help_all) return result;
  const Values in_environment = read_environment(environment, result);
  if (const auto given = on_line.find(kConfig); given != on_line.end())
    apply_file(given->second.back(), "--config");
  else if (const auto twin = in_environment.find(kConfig); twin != in_environment.end())
    apply_file(twin->second.back(), environment_name(kConfig));
  apply(in_environment, [](const std::string& name) { return environment_name(name); });
  apply(on_line, [](const std::string& name) { return "--" + name; });
  return result;
}

Options::Values Options::read_arguments(std::span<const std::string> args, std::span<const std::string_view> groups,
                                        Result& result) {
  Values values;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const std::string& arg = args[i];
    if (arg == "-h" || arg == "--help") result.help = true;
    if (arg == "--help-all") result.help_all = true;
    if (arg == "-h" || arg == "--help" || arg == "--help-all") continue;
    if (!arg.starts_with('-') || arg == "-") {
      result.positionals.push_back(arg);
      continue;
    }
    const auto equals = arg.find('=');
    const std::string flag = arg.substr(0, equals);
    const Knob* knob = flag.starts_with("--") ? find(flag.substr(2)) : nullptr;
    if (knob == nullptr) refuse("unknown option " + flag + hint(flag, flags_of(knobs_, groups)), flag);
    if (!contains(groups, knob->group)) refuse(flag + " is not an option of this command", flag);
    std::string value = "true";
    if (equals != std::string::npos)
      value = arg.substr(equals + 1);
    else if (knob->argument.empty())
      value = i + 1 < args.size() && is_bool_word(args[i + 1]) ? args[++i] : value;
    else if (i + 1 < args.size())
      value = args[++i];  // whatever it starts with: a prompt may begin with a dash
    else
      refuse(flag + ": a value is missing, expected " + flag + " " + knob->argument, flag);
    values[knob->name].push_back(value);
  }
  return values;
}

Options::Values Options::read_environment(const std::map<std::string, std::string>& environment, Result& result) const {
  Values values;
  std::vector<std::string> names;
  for (const auto& knob : knobs_) {
    names.push_back(environment_name(knob.name));
    if (const auto found = environment.find(names.back()); found != environment.end())
      values[knob.name].push_back(found->second);
  }
  for (const auto& [name, value] : environment) {
    // Kubernetes describes a service called monograph in these; they are not ours.
    const bool foreign = !name.starts_with(kPrefix) || name == "MONOGRAPH_PORT" ||
                         name.starts_with("MONOGRAPH_PORT_") || name.starts_with("MONOGRAPH_SERVICE_");
    if (foreign || std::find(names.begin(), names.end(), name) != names.end()) continue;
    result.warnings.push_back(name + " in the environment is no setting" + hint(name, names));
  }
  return values;
}

void Options::apply_file(const std::string& path, const std::string& knob) {
  const std::string text = read_text_file(path, knob, kMaxConfigBytes);
  Values values;
  int number = 0;
  for (std::size_t start = 0; start <= text.size();) {
    const auto end = std::min(text.find('\n', start), text.size());
    const std::string line = trimmed(std::string_view(text).substr(start, end - start));
    start = end + 1;
    const std::string where = path + ":" + std::to_string(++number);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line.front() == '[' && line.back() == ']') continue;
    const auto equals = line.find('=');
    if (equals == std::string::npos) refuse(where + ": expected key = value", where);
    std::string key = trimmed(line.substr(0, equals));
    std::replace(key.begin(), key.end(), '_', '-');
    if (key == kConfig) refuse(where + ": a settings file cannot name another", key);
    if (find(key) == nullptr) refuse(where + ": unknown key " + key + hint(key, names()), key);
    const std::string value = file_value(trimmed(line.substr(equals + 1)), where + ": " + key);
    values[key].push_back(value);
  }
  apply(values, [&](const std::string& name) { return path + ": " + name; });
}

void Options::apply(const Values& values, const std::function<std::string(const std::string&)>& spell) {
  for (const auto& [name, given] : values) {
    const std::string spelled = spell(name);
    find(name)->set(given, spelled);
    origins_[name] = spelled;
  }
}

std::string Options::help(std::span<const std::string_view> groups, bool all) const {
  constexpr std::size_t kColumn = 34;
  std::string text;
  for (const auto group : groups) {
    std::string lines;
    for (const auto& knob : knobs_) {
      if (knob.group != group || !(all || knob.common)) continue;
      std::string left = "  --" + knob.name + (knob.argument.empty() ? "" : " " + knob.argument);
      left.resize(std::max(left.size() + 2, kColumn), ' ');
      lines += left + knob.help + "\n";
    }
    if (!lines.empty()) text.append("\n").append(group).append(":\n").append(lines);
  }
  return text;
}

}  // namespace monograph
