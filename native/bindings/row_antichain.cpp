// The binding of rows of interests of which none makes another needless.
#include "tidings/encoding/row_antichain.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/codec/program.hpp"

using namespace tidings;

namespace {

nb::set set_of(const RowAntichain::RowSet& rows) {
    nb::set out;
    for (const std::string& one : rows) out.add(to_bytes(one));
    return out;
}

}  // namespace

static void bind_row_antichain(nb::module_& m) {
    nb::class_<RowAntichain>(m, "RowAntichain", "Rows of interests of which none makes another needless.")
        .def("__init__", [](RowAntichain* self) { new (self) RowAntichain(process_seed()); })
        .def(
            "add",
            [](RowAntichain& self, nb::bytes row, const std::vector<uint64_t>& elements) {
                self.add(bytes_of(row), elements);
            },
            nb::arg("row"), nb::arg("elements"), "Once more.")
        .def(
            "add_filter",
            [](RowAntichain& self, nb::bytes row, nb::bytes predicate) {
                self.add_filter(bytes_of(row), bytes_of(predicate));
            },
            nb::arg("row"), nb::arg("predicate"), "Once more, an exact filter.")
        .def(
            "remove", [](RowAntichain& self, nb::bytes row) { return self.remove(bytes_of(row)); }, nb::arg("row"),
            "Once less; false if it is not there.")
        .def("__len__", &RowAntichain::size)
        .def(
            "rows",
            [](const RowAntichain& self) {
                nb::list out;
                self.each([&](std::string_view row) { out.append(to_bytes(row)); });
                return out;
            },
            nb::sig("def rows(self) -> list[bytes]"), "Those that are not needless.")
        .def(
            "take_changes",
            [](RowAntichain& self) {
                const auto [come, gone] = self.take_changes();
                return nb::make_tuple(set_of(come), set_of(gone));
            },
            nb::sig("def take_changes(self) -> tuple[set[bytes], set[bytes]]"),
            "Those that are not needless now and were at the last call, and the other way round.")
        .def(
            "sizes", [](const RowAntichain& self) { return nb::make_tuple(self.sizes().first, self.sizes().second); },
            nb::sig("def sizes(self) -> tuple[int, int]"), "All rows and elements.");
}

static const tidings::Structure structure{"row_antichain", bind_row_antichain};
