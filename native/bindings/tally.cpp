// The tally's binding: arrays of matches in, arrays of counts out.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "python_arrays.hpp"
#include "structure.hpp"
#include "tidings/forwarding/tally.hpp"

namespace nb = nanobind;
using namespace tidings;

namespace {

template <class T>
using Given = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
std::vector<T> copied(const Given<T>& given) {
    return {given.data(), given.data() + given.size()};
}

nb::tuple add(Tally& tally, const Given<uint32_t>& offsets, const Given<uint32_t>& found) {
    if (offsets.size() == 0) throw UsageError{"E_TALLY_OFFSETS", "there is one offset more than messages"};
    const size_t messages = offsets.size() - 1;
    std::vector<int64_t> routers(messages);
    std::vector<uint64_t> sets(messages);
    {
        nb::gil_scoped_release release;
        tally.add(offsets.data(), messages, found.data(), found.size(), routers.data(), sets.data());
    }
    return nb::make_tuple(to_numpy(std::move(routers)), to_numpy(std::move(sets)));
}

auto sums(std::vector<int64_t> Tally::* which) {
    return [which](const Tally& self) { return to_numpy(std::vector<int64_t>(self.*which)); };
}

}  // namespace

static void bind_tally(nb::module_& m) {
    const char* array = "numpy.typing.NDArray[numpy.int64]";
    const auto getter = [array](const char* name) { return std::string("def ") + name + "(self) -> " + array; };
    nb::class_<Tally>(m, "Tally", "Counts of a replay.")
        .def(
            "__init__",
            [](Tally* self, Given<uint32_t> router_of, Given<uint64_t> marks) {
                new (self) Tally(copied(router_of), copied(marks));
            },
            nb::arg("router_of"), nb::arg("marks"))
        .def("add", &add, nb::arg("offsets"), nb::arg("found"),
             nb::sig("def add(self, offsets: numpy.typing.NDArray[numpy.uint32], found: "
                     "numpy.typing.NDArray[numpy.uint32]) -> "
                     "tuple[numpy.typing.NDArray[numpy.int64], numpy.typing.NDArray[numpy.uint64]]"),
             "Of each message the number of brokers, and the xor of their marks.")
        .def_prop_ro("matched", sums(&Tally::matched), nb::rv_policy::move, nb::sig(getter("matched").c_str()))
        .def_prop_ro("alone", sums(&Tally::alone), nb::rv_policy::move, nb::sig(getter("alone").c_str()))
        .def_prop_ro("router_messages", sums(&Tally::router_messages), nb::rv_policy::move,
                     nb::sig(getter("router_messages").c_str()))
        .def_prop_ro("router_matches", sums(&Tally::router_matches), nb::rv_policy::move,
                     nb::sig(getter("router_matches").c_str()));
}

static const tidings::Structure structure{"tally", bind_tally};
