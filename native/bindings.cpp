// The kernel's module: errors, and one function per structure, each in its own bind_*.cpp.
#include <nanobind/nanobind.h>

#include "tidings/error.hpp"

namespace nb = nanobind;

void bind_bloom(nb::module_&);

// tidings::Error becomes the error of tidings.errors that says whose fault it was.
static void register_errors() {
    nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
        try {
            std::rethrow_exception(pointer);
        } catch (const tidings::Error& error) {
            const bool codec = error.fault == tidings::Error::Fault::Codec;
            nb::object type = nb::module_::import_("tidings.errors").attr(codec ? "CodecError" : "UsageError");
            nb::object position = error.position < 0 ? nb::object(nb::none()) : nb::object(nb::int_(error.position));
            nb::object instance = type(error.code, error.what(), nb::arg("position") = position);
            PyErr_SetObject(type.ptr(), instance.ptr());
        }
    });
}

NB_MODULE(_kernel, m) {
    m.doc() = "Tidings' kernel: codec, exact matcher, encoded matrix, Bloom filter.";
    register_errors();
    bind_bloom(m);
}
