// Python objects to and from the kernel's views, shared by the bindings.
#pragma once
#include <nanobind/nanobind.h>

#include <cmath>
#include <string>
#include <string_view>

#include "tidings/codec/utf8.hpp"
#include "tidings/codec/value.hpp"
#include "tidings/support/error.hpp"

namespace tidings {

namespace nb = nanobind;

// The bytes of a bytes-like object. Those of `bytes` (or a memoryview of it) are borrowed and kept alive; all others
// are copied, because they were checked once and must not change afterwards.
class Buffer {
public:
    explicit Buffer(nb::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_SIMPLE) != 0) throw nb::python_error();
        const std::string_view bytes(static_cast<const char*>(buffer_.buf), static_cast<size_t>(buffer_.len));
        held_ = unchanging(object.ptr());
        if (held_) {
            view_ = bytes;
        } else {
            copy_.assign(bytes);
            view_ = copy_;
            PyBuffer_Release(&buffer_);
        }
    }
    ~Buffer() {
        if (held_) PyBuffer_Release(&buffer_);
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    std::string_view view() const { return view_; }

private:
    static bool unchanging(PyObject* object) {
        if (!PyMemoryView_Check(object)) return PyBytes_Check(object);
        PyObject* const base = PyMemoryView_GET_BASE(object);
        return base && PyBytes_Check(base);
    }

    Py_buffer buffer_{};
    bool held_ = false;
    std::string copy_;
    std::string_view view_;
};

inline nb::object to_str(std::string_view text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

inline nb::object to_bytes(std::string_view bytes) { return nb::bytes(bytes.data(), bytes.size()); }

// tidings.model.values.Untyped, kept for good.
inline nb::handle untyped_type() {
    static const nb::handle type = nb::object(nb::module_::import_("tidings.model.values").attr("Untyped")).release();
    return type;
}

inline nb::object to_python(const Value& value) {
    switch (value.type) {
        case Type::Bool: return nb::bool_(value.i != 0);
        case Type::Int: return nb::steal(PyLong_FromLongLong(value.i));
        case Type::Float: return nb::steal(PyFloat_FromDouble(value.d));
        case Type::String: return to_str(value.s);
        case Type::Text: return untyped_type()(to_str(value.s));
        default: return to_bytes(value.s);
    }
}

// A view of the object's own UTF-8, which lives as long as the object.
inline std::string_view text_of(nb::handle object) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (text) return {text, static_cast<size_t>(size)};
    PyErr_Clear();
    size_t position = 0;
    while (PyUnicode_READ_CHAR(object.ptr(), position) >> 11 != 0xD800 >> 11) ++position;
    throw UsageError{"E_VALUE_TEXT", "text holds a lone surrogate", position};
}

inline std::string_view bytes_of(nb::handle object) {
    return {PyBytes_AS_STRING(object.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(object.ptr()))};
}

// The same rules, codes and reasons as tidings.model.values.check.
inline Value to_value(nb::handle object) {
    PyObject* const o = object.ptr();
    if (PyUnicode_CheckExact(o)) return Value::string(text_of(object));
    if (PyUnicode_Check(o)) {
        const bool untyped = reinterpret_cast<PyObject*>(Py_TYPE(o)) == untyped_type().ptr();
        return untyped ? Value::text(text_of(object)) : Value::string(text_of(object));
    }
    if (PyBool_Check(o)) return Value::boolean(o == Py_True);
    if (PyLong_Check(o)) {
        int overflow = 0;
        const long long number = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow)
            throw UsageError{"E_VALUE_RANGE", std::string(nb::str(object).c_str()) + " does not fit in 64 bits"};
        return Value::integer(number);
    }
    if (PyFloat_Check(o)) {
        const double number = PyFloat_AS_DOUBLE(o);
        if (std::isnan(number)) throw UsageError{"E_VALUE_NAN", "NaN is not a value"};
        return Value::real(number);
    }
    if (PyBytes_Check(o)) return Value::bytes(bytes_of(object));
    throw UsageError{"E_VALUE_TYPE", std::string(Py_TYPE(o)->tp_name) + " is not bool, int, float, str or bytes"};
}

}  // namespace tidings
