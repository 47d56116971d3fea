// Captures and proves one graph. The one place that tells a recoverable failure from a dirty one.
#pragma once
#include <functional>
#include <memory>

#include "device/device.h"

namespace monograph {

/// Runs `prepare` (warm-up; a failure here is clean and passes through as it is), then captures `work`. Whatever `work`
/// throws, of any type, comes back as Error(kDirtyCapture): allocator, stream and generator state are unknown then, so
/// start-up must end (SPEC S-28, S-29).
std::unique_ptr<Graph> capture_graph(Device& device, const std::function<void()>& prepare,
                                     const std::function<void()>& work);

}  // namespace monograph
