#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "structure.hpp"
#include "tidings/tracking/bloom.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;
using tidings::Bloom;

namespace {

using Ids = nb::ndarray<const uint8_t, nb::shape<-1, 16>, nb::c_contig, nb::device::cpu>;
using Found = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::bytes to_bytes(const Bloom& filter) {
    nb::object out = nb::steal(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(filter.serialised_bytes())));
    if (!out.is_valid()) throw nb::python_error();
    auto* data = reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(out.ptr()));
    {
        nb::gil_scoped_release release;
        filter.serialise(data);
    }
    return nb::borrow<nb::bytes>(out);
}

Bloom from_bytes(nb::bytes data) {
    const std::string_view view(data.c_str(), data.size());
    nb::gil_scoped_release release;
    return Bloom::parse(view);
}

void contains(const Bloom& filter, Ids ids, Found found) {
    if (found.shape(0) != ids.shape(0)) throw tidings::UsageError{"E_BLOOM_SHAPE", "one answer an id"};
    nb::gil_scoped_release release;
    filter.contains(ids.data(), ids.shape(0), found.data());
}

}  // namespace

static void bind_bloom(nb::module_& m) {
    nb::class_<Bloom>(m, "Bloom")
        .def(nb::init<uint64_t, uint32_t, uint64_t>(), "bits"_a, "hashes"_a, "seed"_a = 0)
        .def_prop_ro("bits", &Bloom::bits)
        .def_prop_ro("hashes", &Bloom::hashes)
        .def_prop_ro("seed", &Bloom::seed)
        .def_prop_ro("count", &Bloom::count)
        .def_prop_ro("memory_bytes", &Bloom::memory_bytes)
        .def(
            "add",
            [](Bloom& filter, Ids ids) {
                nb::gil_scoped_release release;
                filter.add(ids.data(), ids.shape(0));
            },
            "ids"_a)
        .def("contains", &contains, "ids"_a, "found"_a)
        .def("unite", &Bloom::unite, "other"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("fill", &Bloom::fill, nb::call_guard<nb::gil_scoped_release>())
        .def("to_bytes", &to_bytes)
        .def_static("from_bytes", &from_bytes, "data"_a);
}

static const tidings::Structure structure{"bloom", bind_bloom};
