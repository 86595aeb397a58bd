// The tracker's binding: ids in, filters out as tuples.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/tracking/tracker.hpp"

using namespace tidings;

namespace {

Tracker::Kind kind_of(int number) {
    if (number < 0 || number > 3) throw UsageError{"E_TRACKING_KIND", "kinds of histories are 0 to 3"};
    return static_cast<Tracker::Kind>(number);
}

std::string_view ids_of(const nb::bytes& ids) {
    if (ids.size() % Tracker::id_bytes) throw UsageError{"E_BLOOM_IDS", "ids have 16 bytes each"};
    return {ids.c_str(), ids.size()};
}

nb::list tuples(std::vector<TrackedFilter> filters) {
    nb::list all;
    nb::object data;
    const std::string* last = nullptr;
    for (const TrackedFilter& one : filters) {
        if (one.data.get() != last)
            data = to_bytes(*(last = one.data.get()));  // equal ones are one object in Python too
        nb::object range = one.has_range ? nb::object(nb::make_tuple(one.first_ms, one.last_ms)) : nb::none();
        all.append(nb::make_tuple(one.kind, one.origin, one.peer, one.sequence, range, nb::tuple(nb::cast(one.singles)),
                                  one.count, one.full, static_cast<int>(one.form), data, one.opened_ms, one.stored_ms));
    }
    return all;
}

void add(Tracker& tracker, int kind, uint32_t peer, nb::bytes bytes, int64_t now_ms) {
    const std::string_view ids = ids_of(bytes);
    for (size_t at = 0; at < ids.size(); at += Tracker::id_bytes) {
        const auto* id = reinterpret_cast<const uint8_t*>(ids.data() + at);
        switch (kind_of(kind)) {
            case Tracker::Kind::Publish: tracker.published(id, now_ms); break;
            case Tracker::Kind::Route: tracker.routed(id, now_ms); break;
            case Tracker::Kind::Forward: tracker.forwarded(id, peer, now_ms); break;
            case Tracker::Kind::Deliver: tracker.delivered(id, peer, now_ms); break;
        }
    }
}

}  // namespace

static void bind_tracker(nb::module_& m) {
    const char* filters =
        "list[tuple[int, int, int, int, tuple[int, int] | None, tuple[int, ...], int, bool, int, bytes, int, int]]";
    const std::string take = std::string("def take(self, now_ms: int, all: bool) -> ") + filters;
    const std::string end = std::string("def end(self, kind: int, peer: int, now_ms: int) -> ") + filters;
    const std::string end_all = std::string("def end_all(self, now_ms: int) -> ") + filters;
    nb::class_<Tracker>(m, "Tracker", "Histories of what passes, filled by the forwarder.")
        .def(
            "__init__",
            [](Tracker* self, uint32_t broker, bool exact, bool runs, uint64_t bits, uint32_t hashes, uint64_t capacity,
               uint32_t doublings, int64_t skew_ms, int64_t jitter_ms, int64_t persist_ms, bool retain, bool forwards,
               uint64_t numbering) {
                new (self) Tracker({broker, exact, runs, bits, hashes, capacity, doublings, skew_ms, jitter_ms,
                                    persist_ms, retain, forwards, numbering});
            },
            nb::arg("broker"), nb::arg("exact"), nb::arg("runs"), nb::arg("bits"), nb::arg("hashes"),
            nb::arg("capacity"), nb::arg("doublings"), nb::arg("skew_ms"), nb::arg("jitter_ms"), nb::arg("persist_ms"),
            nb::arg("retain"), nb::arg("forwards"), nb::arg("numbering"))
        .def("add", &add, nb::arg("kind"), nb::arg("peer"), nb::arg("ids"), nb::arg("now_ms"))
        .def(
            "take", [](Tracker& self, int64_t now_ms, bool all) { return tuples(self.take(now_ms, all)); },
            nb::arg("now_ms"), nb::arg("all"), nb::sig(take.c_str()),
            "Filters that are full or due: kind, origin, peer, sequence, range, singles, count, full, form, bytes, "
            "opened, stored.")
        .def(
            "end",
            [](Tracker& self, int kind, uint32_t peer, int64_t now_ms) {
                return tuples(self.end(kind_of(kind), peer, now_ms));
            },
            nb::arg("kind"), nb::arg("peer"), nb::arg("now_ms"), nb::sig(end.c_str()))
        .def(
            "end_all", [](Tracker& self, int64_t now_ms) { return tuples(self.end_all(now_ms)); }, nb::arg("now_ms"),
            nb::sig(end_all.c_str()))
        .def(
            "find",
            [](Tracker& self, int kind, uint32_t origin, uint32_t peer, nb::bytes id, int64_t moment_ms,
               int64_t now_ms) -> std::optional<std::tuple<uint64_t, uint64_t, uint64_t, bool>> {
                if (id.size() != Tracker::id_bytes) throw UsageError{"E_BLOOM_IDS", "an id has 16 bytes"};
                const auto found = self.find(kind_of(kind), origin, peer, reinterpret_cast<const uint8_t*>(id.c_str()),
                                             moment_ms, now_ms);
                if (!found) return {};
                return std::tuple{found->sequence, found->hashed, found->bits, found->held};
            },
            nb::arg("kind"), nb::arg("origin"), nb::arg("peer"), nb::arg("id"), nb::arg("moment_ms"), nb::arg("now_ms"),
            "The filter in memory that matches this time: sequence, number of ids, number of bits, and if it holds the "
            "id.")
        .def(
            "choose_keys", [](Tracker& self, const std::vector<std::string>& names) { self.keys.choose(names); },
            nb::arg("names"), "Attributes by whose values messages can be found.")
        .def(
            "take_keys",
            [](Tracker& self) {
                nb::list all;
                for (const KeyNotes::Batch& one : self.keys.take())
                    all.append(nb::make_tuple(one.name, to_bytes(one.hashes), to_bytes(one.ids)));
                return all;
            },
            nb::sig("def take_keys(self) -> list[tuple[str, bytes, bytes]]"),
            "Of each of these attributes: hashes of values, 8 bytes each, and ids of the messages, since the last "
            "call.")
        .def("know_brokers", &Tracker::know_brokers, nb::arg("brokers"),
             "Brokers that ids may name; what names another is kept under origin 0.")
        .def("stragglers", &Tracker::stragglers, nb::arg("origin"), nb::arg("moment_ms"), nb::arg("now_ms"),
             "Subscribers that were given a message of this origin and time long after it.")
        .def_prop_ro("memory_bytes", &Tracker::memory_bytes);
}

static const tidings::Structure structure{"tracker", bind_tracker};
