// The kernel's only translation unit that knows Python: each structure's binding is one function below.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

NB_MODULE(_kernel, m) {
    m.doc() = "Tidings' kernel: codec, exact matcher, encoded matrix, Bloom filter.";
}
