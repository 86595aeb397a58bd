// The binding of what concerns the process as a whole: its clock and its heap.
#include <nanobind/nanobind.h>

#include "structure.hpp"
#include "tidings/support/clock.hpp"
#include "tidings/support/heap.hpp"

namespace nb = nanobind;

static void bind_process(nb::module_& m) {
    m.def("now_ms", &tidings::now_ms, "Milliseconds since 1970.");
    m.def("keep_large_blocks", &tidings::keep_large_blocks,
          "Sets the process's allocator: large blocks of memory stay in the heap for a while.");
}

static const tidings::Structure structure{"process", bind_process};
