// The box tree's binding: boxes in as lists of (name, low, high), lists of ids out.
#include "tidings/matching/box_tree.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>

#include "structure.hpp"

namespace nb = nanobind;
using namespace tidings;

namespace {

// A side without ends is loose.
using Given = std::vector<std::tuple<std::string, std::optional<nb::bytes>, std::optional<nb::bytes>>>;

std::vector<BoxTree::Side> sides_of(const Given& given) {
    std::vector<BoxTree::Side> sides;
    sides.reserve(given.size());
    for (const auto& [name, low, high] : given) {
        BoxTree::Side side{name, !low || !high, {}, {}};
        if (!side.loose) {
            side.low.assign(low->c_str(), low->size());
            side.high.assign(high->c_str(), high->size());
        }
        sides.push_back(std::move(side));
    }
    return sides;
}

using Ask = void (BoxTree::*)(const std::vector<BoxTree::Side>&, std::vector<uint32_t>&) const;

auto asking(Ask ask) {
    return [ask](const BoxTree& self, const Given& box) {
        std::vector<uint32_t> found;
        (self.*ask)(sides_of(box), found);
        return found;
    };
}

}  // namespace

static void bind_box_tree(nb::module_& m) {
    nb::class_<BoxTree>(m, "BoxTree", "Boxes by id, and the questions which may contain, lie within or meet another.")
        .def(nb::init<>())
        .def("__len__", &BoxTree::size)
        .def(
            "add", [](BoxTree& self, uint32_t id, const Given& box) { self.add(id, sides_of(box)); }, nb::arg("id"),
            nb::arg("box"))
        .def("remove", &BoxTree::remove, nb::arg("id"))
        .def("containing", asking(&BoxTree::containing), nb::arg("box"), "Boxes that may contain this one.")
        .def("within", asking(&BoxTree::within), nb::arg("box"), "Boxes that may lie within this one.")
        .def("meeting", asking(&BoxTree::meeting), nb::arg("box"), "Boxes that may have something in common with it.")
        .def_prop_ro("depth", &BoxTree::depth);
}

static const tidings::Structure structure{"box_tree", bind_box_tree};
