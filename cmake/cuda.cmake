# The CUDA backend: kernels for sm_90a and for compute capability 8.0, the runtime linked in, the driver found at run time
# by the runtime itself.
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD_REQUIRED OFF)
set(CMAKE_CUDA_ARCHITECTURES OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
# Hopper runs machine code; other GPUs make theirs from PTX when the program starts, in which Hopper's kernels are empty. What
# only they need is assembled for sm_90 too, from that same PTX: so it is tested on Hopper, where nothing is left to make.
set(hopper_code -gencode=arch=compute_90a,code=sm_90a)
set(sm80_code -gencode=arch=compute_80,code=compute_80)
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*.cu)
set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${hopper_code};${sm80_code}")
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/sm80/*.cu)
set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${sm80_code};-gencode=arch=compute_80,code=sm_90")
file(GLOB kernels CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/*.cu ${CMAKE_SOURCE_DIR}/bench/*/*.cu)
set_source_files_properties(${kernels} PROPERTIES COMPILE_OPTIONS "${hopper_code}")
# No fused multiply-add that the source does not spell out: the sampler's bits are those of the host (SPEC D8).
add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:-fmad=false>
                    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:-Xcompiler -ffp-contract=off>"
                    "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:--extended-lambda --expt-relaxed-constexpr -std=c++20>"
                    $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>
                    $<$<COMPILE_LANGUAGE:CUDA>:-DNDEBUG>)
# The one source that knows whether the build has CUDA, and those that include its headers.
set_source_files_properties(${CMAKE_SOURCE_DIR}/src/ops/backend.cpp PROPERTIES COMPILE_DEFINITIONS MONOGRAPH_CUDA)
file(GLOB cuda_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/*/cuda/*.cpp)
set_source_files_properties(${cuda_sources} PROPERTIES INCLUDE_DIRECTORIES "${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES}")
