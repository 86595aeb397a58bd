// Run lists and line filters: what histories are stored as.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/tracking/line_filter.hpp"
#include "tidings/tracking/run_codec.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;
using tidings::LineFilter;
using tidings::PublisherNumbering;
using tidings::RunCodec;
using tidings::RunList;

namespace {

using Ids = nb::ndarray<const uint8_t, nb::shape<-1, 16>, nb::c_contig, nb::device::cpu>;
using Found = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

constexpr uint64_t ids_max = 1ull << 28;  // that a list is written out as

void check(const Ids& ids, const Found& found) {
    if (found.shape(0) != ids.shape(0)) throw tidings::UsageError{"E_BLOOM_SHAPE", "one answer an id"};
}

RunList::Id id_at(const uint8_t* bytes) {
    RunList::Id id;
    std::memcpy(id.data(), bytes, sizeof id);
    return id;
}

RunList gathered(const Ids& ids) {
    RunList list;
    for (size_t i = 0; i < ids.shape(0); ++i) list.add(id_at(ids.data() + i * RunList::id_bytes));
    return list;
}

RunList runs_of(Ids ids) {
    nb::gil_scoped_release release;
    RunList list = gathered(ids);
    list.sort();
    return list;
}

RunList decode_runs(nb::bytes data) {
    const std::string_view view(data.c_str(), data.size());
    nb::gil_scoped_release release;
    return RunCodec::decode(view);
}

void find_runs(const RunList& list, Ids ids, Found found) {
    check(ids, found);
    nb::gil_scoped_release release;
    for (size_t i = 0; i < ids.shape(0); ++i) found.data()[i] = list.find(id_at(ids.data() + i * RunList::id_bytes));
}

// Of all ids in these.
RunList united(const std::vector<std::string>& parts) {
    nb::gil_scoped_release release;
    RunList list;
    for (const std::string& part : parts) list.append(RunCodec::decode(part));
    list.sort();
    return list;
}

nb::bytes bytes_of(std::string_view data) { return nb::bytes(data.data(), data.size()); }

nb::bytes ids_in(const RunList& list) {
    if (list.count() > ids_max) throw tidings::UsageError{"E_RUNS_MANY", "more ids than fit into memory"};
    std::string out;
    {
        nb::gil_scoped_release release;
        out.reserve(list.count() * RunList::id_bytes);
        list.each([&](const RunList::Id& id) { out.append(reinterpret_cast<const char*>(id.data()), sizeof id); });
    }
    return bytes_of(out);
}

LineFilter filter_of_ids(Ids ids, uint64_t seed) {
    nb::gil_scoped_release release;
    LineFilter filter(ids.shape(0), seed);
    filter.add(ids.data(), ids.shape(0));
    return filter;
}

LineFilter decode_lines(nb::bytes data) {
    const std::string_view view(data.c_str(), data.size());
    nb::gil_scoped_release release;
    return LineFilter::decode(view);
}

void find_lines(const LineFilter& filter, Ids ids, Found found) {
    check(ids, found);
    nb::gil_scoped_release release;
    filter.contains(ids.data(), ids.shape(0), found.data());
}

}  // namespace

static void bind_exact_lists(nb::module_& m) {
    nb::class_<RunList>(m, "RunList", "An exact list of message ids as runs.")
        .def_static("of", &runs_of, "ids"_a)
        .def_static("from_bytes", &decode_runs, "data"_a)
        .def_static(
            "united",
            [](const nb::list& parts) {
                std::vector<std::string> copies;
                for (const nb::handle part : parts) {
                    const auto bytes = nb::cast<nb::bytes>(part);
                    copies.emplace_back(bytes.c_str(), bytes.size());
                }
                return united(copies);
            },
            "parts"_a, nb::sig("def united(parts: list[bytes]) -> RunList"), "The ids of several, each once.")
        .def("to_bytes", [](const RunList& list) { return bytes_of(RunCodec::encode(list)); })
        .def("contains", &find_runs, "ids"_a, "found"_a)
        .def("ids", &ids_in, "All ids in ascending order of broker, publisher and time.")
        .def_prop_ro("runs", &RunList::size)
        .def_prop_ro("count", &RunList::count);
    nb::class_<PublisherNumbering>(m, "PublisherNumbering", "Numbers of publishers: a count permuted under a key.")
        .def(nb::init<uint64_t>(), "key"_a)
        .def("number_of", &PublisherNumbering::number_of, "count"_a)
        .def("count_of", &PublisherNumbering::count_of, "number"_a);
    nb::class_<LineFilter>(m, "LineFilter", "A Bloom filter of cache lines.")
        .def_static("from_bytes", &decode_lines, "data"_a)
        .def_static("of", &filter_of_ids, "ids"_a, "seed"_a)
        .def_static("bytes_for", &LineFilter::bytes_for, "ids"_a)
        .def("to_bytes", [](const LineFilter& filter) { return bytes_of(filter.encode()); })
        .def("contains", &find_lines, "ids"_a, "found"_a)
        .def("fpp", &LineFilter::fpp)
        .def_prop_ro("seed", &LineFilter::seed)
        .def_prop_ro("lines", &LineFilter::lines)
        .def_prop_ro("count", &LineFilter::count);
}

static const tidings::Structure structure{"exact_lists", bind_exact_lists};
