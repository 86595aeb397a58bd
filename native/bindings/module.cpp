// The kernel's module. Each structure's binding is one function in a file of its own (structure.hpp).
#include <nanobind/nanobind.h>

#include <exception>
#include <string>

#include "structure.hpp"
#include "tidings/support/error.hpp"

namespace nb = nanobind;

namespace {

void raise(const char* name, const char* code, const std::string& reason, size_t position) {
    const nb::object type = nb::module_::import_("tidings.errors").attr(name);
    const nb::object where = position == tidings::no_position ? nb::object(nb::none()) : nb::object(nb::int_(position));
    const nb::object error = type(code, nb::str(reason.data(), reason.size()), nb::arg("position") = where);
    PyErr_SetObject(type.ptr(), error.ptr());
}

// The only place where the kernel's errors become those of tidings.errors.
void translate(const std::exception_ptr& thrown, void*) {
    try {
        std::rethrow_exception(thrown);
    } catch (const tidings::CodecError& error) {
        raise("CodecError", error.code, error.reason, error.position);
    } catch (const tidings::UsageError& error) {
        raise("UsageError", error.code, error.reason, error.position);
    }
}

}  // namespace

NB_MODULE(_kernel, m) {
    m.doc() = "Tidings' kernel: codec, exact matcher, encoded matrix, Bloom filter.";
#if !defined(__SANITIZE_ADDRESS__)
    // Objects that are alive when the interpreter ends are no leak: no warnings when a broker is stopped.
    nb::set_leak_warnings(false);
#endif
    nb::register_exception_translator(translate);
    tidings::Structure::bind_all(m);
}
