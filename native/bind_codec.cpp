// The codec's binding: native bytes to and from Python values.
#include <nanobind/nanobind.h>

#include "tidings/batch.hpp"
#include "tidings/predicate.hpp"

namespace nb = nanobind;
using namespace tidings;

namespace {

std::string_view view(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

void predicate_check(const nb::bytes& blob) { read_predicate(view(blob)); }

}  // namespace

void bind_codec(nb::module_& m) {
    m.def("predicate_check", &predicate_check, nb::arg("blob"), "Raises CodecError unless the blob is a valid predicate.");
}
