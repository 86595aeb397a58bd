// The binding of plain selectors, and of what a predicate consists of.
#include "tidings/codec/plain_selector.hpp"

#include <nanobind/nanobind.h>

#include "python_values.hpp"
#include "structure.hpp"

using namespace tidings;

namespace {

nb::object plain_predicate(nb::str selector, nb::bytes destination) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(selector.ptr(), &size);
    if (!text) {  // a lone surrogate, which the parser reports
        PyErr_Clear();
        return nb::none();
    }
    std::string out;
    if (!PlainSelector().translate({text, static_cast<size_t>(size)}, bytes_of(destination), out)) return nb::none();
    return to_bytes(out);
}

}  // namespace

static void bind_plain_selector(nb::module_& m) {
    m.def("plain_predicate", &plain_predicate, nb::arg("selector"), nb::arg("destination"),
          nb::sig("def plain_predicate(selector: str, destination: bytes) -> bytes | None"),
          "The encoded predicate of a plain selector within a destination, which is an encoded constraint.");
}

static const tidings::Structure structure{"plain_selector", bind_plain_selector};
