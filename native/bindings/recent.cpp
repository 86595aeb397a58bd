// The binding of the ids of the last messages.
#include <nanobind/nanobind.h>

#include "structure.hpp"
#include "tidings/tracking/recent_ids.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using namespace tidings;

namespace {

std::string_view view_of(const nb::bytes& id) { return {id.c_str(), id.size()}; }

}  // namespace

static void bind_recent(nb::module_& m) {
    nb::class_<RecentIds>(m, "RecentIds", "The ids of the last messages: between `least` and twice as many.")
        .def(nb::init<size_t>(), "least"_a = 100000)
        .def(
            "__contains__", [](const RecentIds& self, nb::bytes id) { return self.contains(view_of(id)); }, "id"_a)
        .def("add", [](RecentIds& self, nb::bytes id) { self.add(view_of(id)); }, "id"_a);
}

static const tidings::Structure structure{"recent", bind_recent};
