// Settings from three places: a config file, the environment, the command line; the later wins. What is wrong in any of
// them is an error, also where a later one overrides it.
#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monograph {

/// One setting: --max-seqs on the command line, MONOGRAPH_MAX_SEQS in the environment, max-seqs in the file.
struct Knob {
  /// Takes the values that one place gives (several only if the knob was repeated there) and the knob's spelling in
  /// that place. Throws Error(kInvalidArgument).
  using Set = std::function<void(std::span<const std::string> values, const std::string& spelled)>;

  std::string name;      ///< "max-seqs"
  std::string argument;  ///< Its name in the help, "N"; empty: a boolean, which may stand bare.
  std::string help;      ///< One line, default included.
  std::string group;     ///< Heading in the help; a command takes whole groups.
  Set set;
  bool common = false;  ///< Shown by --help; the others only by --help-all.
};

/// A setter that stores parse(value, spelled) in `target`; of a repeated knob every value is checked, the last stays.
template <typename T, typename Parse>
Knob::Set store(T& target, Parse parse) {
  return [&target, parse](std::span<const std::string> values, const std::string& spelled) {
    for (const auto& value : values) target = parse(value, spelled);
  };
}

class Options {
 public:
  /// Knows --config, in the group "Settings".
  Options();
  void add(Knob knob);

  struct Result {
    std::vector<std::string> positionals;
    std::vector<std::string> warnings;  ///< MONOGRAPH_ variables that are no setting: perhaps slips.
    bool help = false, help_all = false;
  };
  /// Sets the knobs. `args` may use knobs of `groups` only; file and environment may set any. The file is named by
  /// --config or MONOGRAPH_CONFIG: lines `key = value`, # and ; start comments, [sections] only structure it.
  Result parse(std::span<const std::string> args, const std::map<std::string, std::string>& environment,
               std::span<const std::string_view> groups);

  /// How the knob was spelled where its value came from; empty if it has its default.
  const std::string& origin(const std::string& name) const;

  /// The options of `groups`, one or two lines each.
  std::string help(std::span<const std::string_view> groups, bool all) const;

 private:
  using Values = std::map<std::string, std::vector<std::string>>;  // knob → values
  const Knob* find(std::string_view name) const;
  std::vector<std::string> names() const;
  Values read_arguments(std::span<const std::string> args, std::span<const std::string_view> groups, Result& result);
  Values read_environment(const std::map<std::string, std::string>& environment, Result& result) const;
  void apply_file(const std::string& path, const std::string& knob);
  void apply(const Values& values, const std::function<std::string(const std::string&)>& spell);

  std::vector<Knob> knobs_;
  std::map<std::string, std::string> origins_;
};

/// MONOGRAPH_ + the name in upper case with underscores. The port's is MONOGRAPH_ARG_PORT: Kubernetes sets
/// MONOGRAPH_PORT to a URL for a service that is named like the program.
std::string environment_name(std::string_view knob);

/// The environment of this process.
std::map<std::string, std::string> process_environment();

}  // namespace monograph
