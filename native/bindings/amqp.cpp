#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/amqp/transfers.hpp"

using namespace tidings;
using nb::literals::operator""_a;

namespace {

using Unsettled = std::tuple<uint32_t, uint32_t, uint64_t>;  // delivery id, subscription, tag

// Takes unsettled deliveries out: those in a range of ids, or of one subscription.
template <class Fits>
std::vector<Unsettled> taken(AmqpSessionCounters& self, Fits&& fits) {
    std::vector<Unsettled> found;
    for (uint32_t i = 0; i < self.unsettled.size(); ++i) {
        const AmqpSessionCounters::Unsettled& one = self.unsettled[i];
        if (one.subscription && fits(self.first_unsettled + i, one.subscription))
            found.emplace_back(self.first_unsettled + i, one.subscription, one.tag);
    }
    for (const auto& [id, subscription, tag] : found) self.remove(id);
    return found;
}

void bind_counters(nb::module_& m) {
    nb::class_<AmqpLinkCounters>(m, "AmqpLinkCounters", "Credit and the like of one link of AMQP.")
        .def(nb::init<>())
        .def_rw("delivery_count", &AmqpLinkCounters::delivery_count)
        .def_rw("credit", &AmqpLinkCounters::credit)
        .def_rw("hot", &AmqpLinkCounters::hot)
        .def_rw("under_way", &AmqpLinkCounters::under_way)
        .def_rw("destination", &AmqpLinkCounters::destination)
        .def_rw("queue", &AmqpLinkCounters::queue)
        .def_rw("subscription", &AmqpLinkCounters::subscription)
        .def_rw("granted", &AmqpLinkCounters::granted)
        .def_rw("sent", &AmqpLinkCounters::sent)
        .def_rw("says_destination", &AmqpLinkCounters::says_destination)
        .def_rw("presettled", &AmqpLinkCounters::presettled)
        .def_rw("message_bytes_max", &AmqpLinkCounters::message_bytes_max)
        .def_rw("touched", &AmqpLinkCounters::touched)
        .def_rw("draining", &AmqpLinkCounters::draining);
    nb::class_<AmqpSessionCounters>(m, "AmqpSessionCounters", "Windows and ids of one session of AMQP.")
        .def(nb::init<>())
        .def_rw("next_incoming_id", &AmqpSessionCounters::next_incoming_id)
        .def_rw("remote_incoming_window", &AmqpSessionCounters::remote_incoming_window)
        .def_rw("incoming_window", &AmqpSessionCounters::incoming_window)
        .def_rw("next_outgoing_id", &AmqpSessionCounters::next_outgoing_id)
        .def_rw("next_delivery_id", &AmqpSessionCounters::next_delivery_id)
        .def_rw("waiting", &AmqpSessionCounters::waiting)
        .def(
            "take_between",
            [](AmqpSessionCounters& self, uint32_t first, uint32_t count) {
                return taken(self, [=](uint32_t id, uint32_t) { return id - first < count; });
            },
            "first"_a, "count"_a, "Unsettled deliveries of these ids: id, subscription, tag.")
        .def(
            "take_of",
            [](AmqpSessionCounters& self, uint32_t subscription) {
                return taken(self, [=](uint32_t, uint32_t of) { return of == subscription; });
            },
            "subscription"_a, "Unsettled deliveries of a subscription: id, subscription, tag.");
}

std::string_view behind(const nb::bytes& data, size_t at) {
    if (at > data.size()) throw UsageError{"E_AMQP_PLACE", "a place behind the end"};
    return {data.c_str() + at, data.size() - at};
}

void bind_transfers(nb::module_& m) {
    nb::class_<AmqpTransfers>(m, "AmqpTransfers", "The hot path of one AMQP connection.")
        .def(nb::init<uint32_t, uint32_t, size_t>(), "publisher"_a, "broker"_a, "message_bytes_max"_a)
        .def_rw("credit_max", &AmqpTransfers::credit_max)
        .def_rw("frame_bytes_max", &AmqpTransfers::frame_bytes_max)
        .def_rw("remote_frame_bytes_max", &AmqpTransfers::remote_frame_bytes_max)
        .def("add_session", &AmqpTransfers::add_session, "channel"_a, "counters"_a)
        .def("remove_session", &AmqpTransfers::remove_session, "channel"_a)
        .def("add_link", &AmqpTransfers::add_link, "channel"_a, "handle"_a, "own_handle"_a, "counters"_a)
        .def("remove_link", &AmqpTransfers::remove_link, "channel"_a, "handle"_a)
        .def("next_id", &AmqpTransfers::next_id, "now_ms"_a, "Milliseconds and counter of the next message's id.")
        .def(
            "take",
            [](AmqpTransfers& self, const nb::bytes& data, size_t at, int64_t now_ms) {
                const std::string_view rest = behind(data, at);
                const nb::gil_scoped_release release;
                return self.take(rest, now_ms);
            },
            "data"_a, "at"_a, "now_ms"_a, "Takes frames of the client that need no Python; returns their bytes.")
        .def(
            "take_frames", [](AmqpTransfers& self) { return to_bytes(self.take_frames()); },
            nb::sig("def take_frames(self) -> bytes"), "For the broker.")
        .def(
            "give",
            [](AmqpTransfers& self, const nb::bytes& data, size_t at, int64_t now_ms) {
                const std::string_view rest = behind(data, at);
                const nb::gil_scoped_release release;
                return self.give(rest, now_ms);
            },
            "data"_a, "at"_a, "now_ms"_a, "Takes frames of the broker that need no Python; returns their bytes.")
        .def(
            "take_output", [](AmqpTransfers& self) { return to_bytes(self.take_output()); },
            nb::sig("def take_output(self) -> bytes"), "For the client.")
        .def("take_touched", &AmqpTransfers::take_touched, "Subscriptions whose credit has changed.")
        .def(
            "refused",
            [](AmqpTransfers& self, uint32_t receipt) -> std::optional<std::tuple<uint16_t, uint32_t, uint32_t, bool>> {
                const auto one = self.refused(receipt);
                if (!one) return {};
                return std::tuple(one->channel, one->handle, one->delivery_id, one->settled);
            },
            "receipt"_a, "The message of a receipt that the broker refuses: channel, handle, delivery id, settled.");
}

void bind_messages(nb::module_& m) {
    m.def(
        "amqp_read_plain",
        [](const nb::bytes& content, const std::string& destination, bool queue,
           int64_t now_ms) -> std::optional<std::pair<uint8_t, nb::bytes>> {
            AmqpMessageReader reader;
            std::string message;
            const auto form = reader.read({content.c_str(), content.size()}, destination, queue, now_ms, message);
            if (!form) return {};
            return std::pair(static_cast<uint8_t>(*form), nb::bytes(message.data(), message.size()));
        },
        "content"_a, "destination"_a, "queue"_a, "now_ms"_a,
        "A plain message of AMQP in the native format, without an id, and its form; None: it is not a plain one.");
    m.def(
        "amqp_write_plain",
        [](const nb::bytes& message, uint32_t attempt, int64_t now_ms,
           bool says_destination) -> std::optional<nb::bytes> {
            AmqpMessageWriter writer;
            Scratch out;
            if (!writer.write({message.c_str(), message.size()}, attempt, now_ms, says_destination, out)) return {};
            return nb::bytes(out.data(), out.size());
        },
        "message"_a, "attempt"_a, "now_ms"_a, "says_destination"_a,
        "A message that was checked before, as AMQP's sections; None: it is not a plain one.");
}

void bind_amqp(nb::module_& m) {
    bind_counters(m);
    bind_transfers(m);
    bind_messages(m);
}

}  // namespace

static const tidings::Structure structure{"amqp", bind_amqp};
