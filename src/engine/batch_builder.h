// A planned step → the batch that the runner takes: ids, lengths, block tables, sampling settings.
#pragma once
#include "engine/scheduler.h"
#include "graph/batch.h"

namespace monograph {

/// `position_factor` is the model's P; explicit positions go on by one past those that the request gave.
Batch build_batch(const StepPlan& step, int position_factor);

}  // namespace monograph
