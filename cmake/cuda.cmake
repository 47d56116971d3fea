# The CUDA backend: kernels for sm_90a, the runtime linked in, the driver found at run time by the runtime itself.
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(MONOGRAPH_CUDA_ARCH "arch=compute_90a,code=sm_90a" CACHE STRING "Value of nvcc's -gencode")
# No fused multiply-add that the source does not spell out: the sampler's bits are those of the host (SPEC D8).
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-gencode=${MONOGRAPH_CUDA_ARCH}>
                    $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>
                    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -ffp-contract=off>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--extended-lambda --expt-relaxed-constexpr -std=c++20>"
                    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>
                    $<$<COMPILE_LANGUAGE:CUDA>:-DNDEBUG>)
# The one source that knows whether the build has CUDA, and those that include its headers.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/backend.cpp PROPERTIES COMPILE_DEFINITIONS MONOGRAPH_CUDA)
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*.cpp)
set_source_files_properties(${cuda_sources} PROPERTIES INCLUDE_DIRECTORIES "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}")
