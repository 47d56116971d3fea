#include "device/cuda/cuda_region.h"

#include <cudaTypedefs.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "device/cuda/driver.h"

namespace monograph::cuda {
namespace {

/// The driver's virtual memory functions.
struct Driver {
  template <typename Function>
  static Function find(const char* name) {
    return driver_function<Function>(name, 10020);
  }
  PFN_cuMemGetAllocationGranularity_v10020 granularity =
      find<PFN_cuMemGetAllocationGranularity_v10020>("cuMemGetAllocationGranularity");
  PFN_cuMemAddressReserve_v10020 reserve = find<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 free = find<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
  PFN_cuMemCreate_v10020 create = find<PFN_cuMemCreate_v10020>("cuMemCreate");
  PFN_cuMemRelease_v10020 release = find<PFN_cuMemRelease_v10020>("cuMemRelease");
  PFN_cuMemMap_v10020 map = find<PFN_cuMemMap_v10020>("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = find<PFN_cuMemUnmap_v10020>("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 set_access = find<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
};

void check(CUresult status, const char* call) {
  if (status == CUDA_SUCCESS) return;
  throw Error(status == CUDA_ERROR_OUT_OF_MEMORY ? ErrorCode::kOutOfMemory : ErrorCode::kDevice,
              std::string(call) + ": driver error " + std::to_string(status));
}

CUmemAllocationProp first_device() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  return properties;
}

class CudaRegion : public Region {
 public:
  CudaRegion(std::int64_t bytes, cudaStream_t stream) : stream_(stream) {
    const CUmemAllocationProp properties = first_device();
    check(driver_.granularity(&granularity_, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
          "cuMemGetAllocationGranularity");
    bytes_ = rounded(bytes);
    check(driver_.reserve(&address_, bytes_, 0, 0, 0), "cuMemAddressReserve");
  }

  ~CudaRegion() override {
    static_cast<void>(cudaStreamSynchronize(stream_));
    if (committed_ > 0) static_cast<void>(driver_.unmap(address_, committed_));
    for (const auto handle : memory_) static_cast<void>(driver_.release(handle));
    static_cast<void>(driver_.free(address_, bytes_));
  }

  void* data() const override { return reinterpret_cast<void*>(address_); }

  void commit(std::int64_t bytes) override {
    const std::size_t wanted = rounded(bytes);
    CHECK(wanted <= bytes_);
    if (wanted <= committed_) return;
    const std::size_t more = wanted - committed_;
    const CUmemAllocationProp properties = first_device();
    CUmemGenericAllocationHandle handle{};
    if (driver_.create(&handle, more, &properties, 0) != CUDA_SUCCESS)
      throw Error(ErrorCode::kOutOfMemory, "GPU memory: cannot allocate " + std::to_string(more) + " bytes");
    memory_.push_back(handle);
    check(driver_.map(address_ + committed_, more, 0, handle, 0), "cuMemMap");
    const std::size_t begin = committed_;
    committed_ = wanted;
    const CUmemAccessDesc access{properties.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    check(driver_.set_access(address_ + begin, more, &access, 1), "cuMemSetAccess");
    CUDA_CHECK(cudaMemsetAsync(reinterpret_cast<void*>(address_ + begin), 0, more, stream_));
  }

 private:
  std::size_t rounded(std::int64_t bytes) const {
    return (static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1)) + granularity_ - 1) / granularity_ *
           granularity_;
  }

  Driver driver_;
  cudaStream_t stream_;
  std::size_t granularity_ = 1, bytes_ = 0, committed_ = 0;
  CUdeviceptr address_ = 0;
  std::vector<CUmemGenericAllocationHandle> memory_;
};

}  // namespace

std::unique_ptr<Region> reserve_region(std::int64_t bytes, cudaStream_t stream) {
  return std::make_unique<CudaRegion>(bytes, stream);
}

}  // namespace monograph::cuda
