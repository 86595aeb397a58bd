#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/mqtt/publications.hpp"

using namespace tidings;
using nb::literals::operator""_a;

namespace {

std::string_view view(const nb::bytes& data) { return {data.c_str(), data.size()}; }

std::string_view behind(const nb::bytes& data, size_t at) {
    if (at > data.size()) throw UsageError{"E_MQTT_PLACE", "a place behind the end"};
    return view(data).substr(at);
}

void bind_limits(nb::module_& m) {
    nb::class_<MqttLimits>(m, "MqttLimits", "What one MQTT connection may have.")
        .def(nb::init<>())
        .def_rw("packet_bytes_max", &MqttLimits::packet_bytes_max)
        .def_rw("unanswered_max", &MqttLimits::unanswered_max)
        .def_rw("in_flight_max", &MqttLimits::in_flight_max)
        .def_rw("outgoing_packet_bytes_max", &MqttLimits::outgoing_packet_bytes_max)
        .def_rw("aliases_max", &MqttLimits::aliases_max)
        .def_rw("credit_step", &MqttLimits::credit_step);
}

template <class Class>
void bind_incoming(Class& c) {
    c.def_rw("received", &MqttPublications::received)
        .def("next_id", &MqttPublications::next_id, "now_ms"_a, "Milliseconds and counter of the next message's id.")
        .def(
            "topic", [](MqttPublications& self, size_t alias) { return std::string(self.reader().alias(alias)); },
            "alias"_a, "The topic of a client's alias; empty: there is none.")
        .def(
            "set_topic",
            [](MqttPublications& self, size_t alias, const std::string& topic) {
                if (alias == 0 || alias > MqttMessageReader::aliases_max)
                    throw UsageError{"E_MQTT_ALIAS", "a topic alias is 1 to 64"};
                self.reader().set_alias(alias, topic);
            },
            "alias"_a, "topic"_a)
        .def_prop_ro("unanswered", [](MqttPublications& self) { return self.unanswered().size(); })
        .def(
            "add_unanswered",
            [](MqttPublications& self, uint16_t packet_id, uint8_t qos) {
                return self.unanswered().add(packet_id, qos == 2 ? MqttPubrec : MqttPuback);
            },
            "packet_id"_a, "qos"_a, "A publication of the client that is to be answered; returns its number.")
        .def(
            "unanswered_id",
            [](MqttPublications& self, uint32_t number) { return self.unanswered().packet_id(number); }, "number"_a,
            "The packet id of a publication that is not settled; None: it is.")
        .def(
            "waits_for_pubrec",
            [](MqttPublications& self, uint16_t packet_id) { return self.unanswered().waits_for_pubrec(packet_id); },
            "packet_id"_a)
        .def(
            "settle",
            [](MqttPublications& self, uint32_t number, const nb::bytes& packet) { self.settle(number, view(packet)); },
            "number"_a, "packet"_a = nb::bytes("", 0), "The answer to a publication in its turn; empty: success.")
        .def(
            "take",
            [](MqttPublications& self, const nb::bytes& data, size_t at, int64_t now_ms) {
                const std::string_view rest = behind(data, at);
                const nb::gil_scoped_release release;
                return self.take(rest, now_ms);
            },
            "data"_a, "at"_a, "now_ms"_a, "Takes packets of the client that need no Python; returns their bytes.")
        .def(
            "take_frames", [](MqttPublications& self) { return to_bytes(self.take_frames()); },
            nb::sig("def take_frames(self) -> bytes"), "For the broker.");
}

template <class Class>
void bind_outgoing(Class& c) {
    c.def_prop_rw(
         "persistent", [](MqttPublications& self) { return self.in_flight().persistent; },
         [](MqttPublications& self, bool persistent) { self.in_flight().persistent = persistent; },
         "The session outlives its connection: packet ids follow from message ids.")
        .def_rw("waiting", &MqttPublications::waiting)
        .def_rw("held", &MqttPublications::held)
        .def(
            "set_subscription",
            [](MqttPublications& self, uint32_t number, uint8_t qos, uint32_t identifier, bool retain_as_published,
               bool limited,
               bool plain) { self.set_subscription(number, {qos, identifier, retain_as_published, limited, plain}); },
            "number"_a, "qos"_a, "identifier"_a, "retain_as_published"_a, "limited"_a, "plain"_a,
            "How messages of a subscription leave; plain: they do not need Python.")
        .def("remove_subscription", &MqttPublications::remove_subscription, "number"_a)
        .def("use", &MqttPublications::use, "number"_a,
             "A message of this subscription is the client's; returns the credit that is due to the broker.")
        .def("alias", &MqttPublications::alias, "topic"_a, "The alias of a topic of messages out; 0: it has none.")
        .def_prop_ro("next_alias", &MqttPublications::next_alias)
        .def("add_alias", &MqttPublications::add_alias, "topic"_a)
        .def_prop_ro("in_flight", [](MqttPublications& self) { return self.in_flight().size(); })
        .def(
            "is_in_flight", [](MqttPublications& self, uint16_t packet_id) { return self.in_flight().has(packet_id); },
            "packet_id"_a)
        .def(
            "packet_id",
            [](MqttPublications& self, const nb::bytes& message_id) {
                return self.in_flight().id_for(view(message_id));
            },
            "message_id"_a, "The packet id for a message.")
        .def(
            "put", [](MqttPublications& self, uint16_t packet_id) { self.in_flight().put(packet_id, 0, 0, {}); },
            "packet_id"_a, "Python has sent a message with this packet id.")
        .def(
            "free", [](MqttPublications& self, uint16_t packet_id) { self.in_flight().free(packet_id); }, "packet_id"_a)
        .def("acknowledge", &MqttPublications::acknowledge, "packet_id"_a,
             "A PUBACK that Python has read. False: not of a message that the kernel has sent.")
        .def(
            "sent",
            [](MqttPublications& self) {
                nb::dict found;
                for (const auto& [packet_id, one] : self.in_flight().messages())
                    if (one.subscription) found[nb::int_(packet_id)] = nb::bytes(one.id.data(), one.id.size());
                return found;
            },
            nb::sig("def sent(self) -> dict[int, bytes]"), "Ids of messages that the kernel has sent, by packet id.")
        .def(
            "add_earlier",
            [](MqttPublications& self, uint16_t packet_id, const nb::bytes& message_id) {
                self.in_flight().add_earlier(packet_id, view(message_id));
            },
            "packet_id"_a, "message_id"_a, "An earlier connection of the session was sent this message.")
        .def(
            "was_sent",
            [](MqttPublications& self, uint16_t packet_id, const nb::bytes& message_id) {
                return self.in_flight().was_sent(packet_id, view(message_id));
            },
            "packet_id"_a, "message_id"_a, "True if an earlier connection was sent it; asked once for each.")
        .def(
            "give",
            [](MqttPublications& self, const nb::bytes& data, size_t at, int64_t now_ms) {
                const std::string_view rest = behind(data, at);
                const nb::gil_scoped_release release;
                return self.give(rest, now_ms);
            },
            "data"_a, "at"_a, "now_ms"_a, "Takes frames of the broker that need no Python; returns their bytes.")
        .def(
            "take_output", [](MqttPublications& self) { return to_bytes(self.take_output()); },
            nb::sig("def take_output(self) -> bytes"), "For the client.");
}

void bind_mqtt(nb::module_& m) {
    bind_limits(m);
    nb::class_<MqttPublications> c(m, "MqttPublications", "The hot path of one MQTT connection.");
    c.def(nb::init<uint32_t, uint32_t, bool, const MqttLimits&>(), "publisher"_a, "broker"_a, "v5"_a, "limits"_a);
    bind_incoming(c);
    bind_outgoing(c);
}

}  // namespace

static const tidings::Structure structure{"mqtt", bind_mqtt};
