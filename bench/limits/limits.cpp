// Prints the limits of the first GPU as a table, and writes them as JSON.   bench_limits [RESULT.json] [LIBCUBLASLT]
#include "gpu_limits.h"

#include <cstdio>
#include <fstream>

#include "monograph/error.h"

namespace monograph::limits {
namespace {

std::string cell(const Json& value) {
  if (!value.is_number_float()) return value.is_string() ? value.get<std::string>() : value.dump();
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value.get<double>());
  return text;
}

/// One line for each row; nested objects are written a.b.
void print_table(const char* title, const Json& rows) {
  std::printf("\n%s\n", title);
  bool first = true;
  for (const Json& nested : rows) {
    const Json row = nested.flatten();
    std::string head = "|", rule = "|", line = "|";
    for (const auto& [key, value] : row.items()) {
      head += " " + key.substr(1) + " |";
      rule += " ---: |";
      line += " " + cell(value) + " |";
    }
    if (std::exchange(first, false)) std::printf("%s\n%s\n", head.c_str(), rule.c_str());
    std::printf("%s\n", line.c_str());
  }
}

int run(int argc, char** argv) {
  Json result;
  {
    CudaDevice device(/*allow_untested=*/true);
    int driver = 0;
    CUDA_CHECK(cudaDriverGetVersion(&driver));
    result["gpu"] = device.description();
    result["cuda_driver"] = driver;
    result["bandwidth"] = bandwidth(device);
    result["graphs"] = graphs(device);
    result["code"] = code(device);
    result["products"] = products(device, argc > 2 ? argv[2] : "");
  }
  result["pinned_memory"] = pinned_memory();
  result["bw_tb_s"] = result["bandwidth"]["bw_tb_s"];
  if (result["products"].contains("tflop_s")) result["tflop_s"] = result["products"]["tflop_s"];
  std::printf("%s\n", result["gpu"].get<std::string>().c_str());
  print_table("read", result["bandwidth"]["read"]);
  print_table("copy, bytes read and written", result["bandwidth"]["copy"]);
  print_table("chains of kernels in a graph", result["graphs"]["chains"]);
  std::printf("\nlaunch without a graph: %.2f us of host time\n",
              result["graphs"]["launch_without_graph_us"].get<double>());
  print_table("straight-line code, cycles an instruction", result["code"]);
  std::printf("\na read of pinned host memory: %.2f us\n", result["pinned_memory"]["read_latency_us"].get<double>());
  print_table("a step's staged set", result["pinned_memory"]["fetches"]);
  if (result["products"].contains("rows"))
    print_table("cuBLASLt, bf16", result["products"]["rows"]);
  else
    std::printf("\n%s\n", cell(result["products"]["error"]).c_str());
  if (argc > 1) std::ofstream(argv[1]) << result.dump(1) << "\n";
  return 0;
}

}  // namespace
}  // namespace monograph::limits

int main(int argc, char** argv) {
  try {
    return monograph::limits::run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_limits: %s\n", e.what());
    return 1;
  }
}
