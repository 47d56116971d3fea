// The header of a safetensors file, checked against the size of the file. (github.com/huggingface/safetensors)
#pragma once
#include <vector>

#include "model/file_reader.h"
#include "model/tensor_store.h"

namespace monograph {

/// The tensors in the order of their bytes, which cover the data section without holes. Throws Error(kUnreadableFile)
/// naming the tensor for anything broken, Error(kUnsupported) for types that are well-formed but not read here.
std::vector<TensorEntry> read_safetensors_header(const FileReader& file);

}  // namespace monograph
