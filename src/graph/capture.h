// Captures and proves one graph. The one place that tells a recoverable failure from a dirty one.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "device/device.h"
#include "monograph/status.h"

namespace monograph {

/// Runs `prepare` (warm-up; a failure here is clean and passes through as it is), then captures `work`. Whatever `work`
/// throws, of any type, comes back as Error(kDirtyCapture): allocator, stream and generator state are unknown then, so
/// start-up must end (SPEC S-28, S-29).
std::unique_ptr<Graph> capture_graph(Device& device, const std::function<void()>& prepare,
                                     const std::function<void()>& work);

/// Why a family of graphs could not be had although nothing was harmed.
struct CleanFailure {
  PrefillStatus status = PrefillStatus::kCaptureUnavailable;
  std::string detail;
};

/// Runs `create`, which plans, allocates, warms up, captures and tests one family. A clean failure, thrown as whatever
/// type, comes back as a value and the engine runs eager. What ends start-up passes through: a dirty capture, a
/// device fault, which no process survives, and a start that was cancelled. Every creator goes through here (S-29).
std::optional<CleanFailure> try_to_capture(const std::function<void()>& create);

}  // namespace monograph
