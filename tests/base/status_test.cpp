#include "monograph/status.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace monograph {
namespace {

TEST(PrefillStatus, EveryValueHasItsOwnNameAndComesBack) {  // S-84
  std::set<std::string_view> names;
  for (int i = 0; i < kPrefillStatusCount; ++i) {
    const auto status = static_cast<PrefillStatus>(i);
    const std::string_view name = to_string(status);
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(prefill_status_from_string(name), status);
  }
  EXPECT_EQ(to_string(PrefillStatus::kLoraNotSupported), "lora_not_supported")
      << "the last value; new ones go behind it";
  EXPECT_EQ(to_string(PrefillStatus::kReplayed), "replayed");
}

TEST(PrefillStatus, OldPeersAndUnknownValues) {
  EXPECT_EQ(prefill_status_from_string(""), PrefillStatus::kNotRequested);
  EXPECT_EQ(prefill_status_from_string("a_value_of_tomorrow"), std::nullopt);
}

TEST(PrefillRecord, FoldsByTheRule) {  // S-85, S-92: one row per pair of forwards
  for (int first = 0; first < kPrefillStatusCount; ++first) {
    for (int second = 0; second < kPrefillStatusCount; ++second) {
      PrefillRecord record;
      EXPECT_EQ(record.status(), PrefillStatus::kNotRequested);
      record.add(static_cast<PrefillStatus>(first));
      EXPECT_EQ(record.status(), static_cast<PrefillStatus>(first));
      record.add(static_cast<PrefillStatus>(second));
      const auto expected = static_cast<PrefillStatus>(first) == PrefillStatus::kReplayed ? second : first;
      EXPECT_EQ(record.status(), static_cast<PrefillStatus>(expected));
      EXPECT_EQ(record.n_prefill_steps(), 2);
      EXPECT_EQ(record.n_prefill_replays(), (first == 1) + (second == 1));
    }
  }
}

TEST(PrefillRecord, ReplayedOnlyIfEveryForwardReplayed) {
  PrefillRecord record;
  for (int chunk = 0; chunk < 5; ++chunk) record.add(PrefillStatus::kReplayed);
  EXPECT_EQ(record.status(), PrefillStatus::kReplayed);
  record.add(PrefillStatus::kEagerMeasuredFaster);
  record.add(PrefillStatus::kReplayed);
  EXPECT_EQ(record.status(), PrefillStatus::kEagerMeasuredFaster);
  EXPECT_EQ(record.n_prefill_replays(), 6);
}

}  // namespace
}  // namespace monograph
