// The forwarder's binding. Numbers, bytes and records of events cross; the GIL is released while input is parsed and
// matched.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unordered_map.h>
#include <nanobind/stl/vector.h>

#include "python_forwarder.hpp"
#include "structure.hpp"

using namespace tidings;

namespace {

std::string_view view_of(const nb::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

void bind_sinks(nb::class_<PyForwarder>& type) {
    type.def(
            "add_direct_sink",
            [](PyForwarder& self, uint32_t connection, uint32_t subscription, nb::bytes predicate, int64_t credit,
               int policy, size_t backlog_bytes_max, bool no_local) {
                if (policy < 0 || policy > 3) throw UsageError{"E_POLICY", "policies are 0 to 3"};
                return self.forwarder.subscribe(connection, subscription, view_of(predicate), credit,
                                                static_cast<Policy>(policy), backlog_bytes_max, no_local);
            },
            nb::arg("connection"), nb::arg("subscription"), nb::arg("predicate"), nb::arg("credit"), nb::arg("policy"),
            nb::arg("backlog_bytes_max"), nb::arg("no_local"))
        .def(
            "mailbox",
            [](PyForwarder& self, nb::bytes predicate) { return self.forwarder.mailbox(view_of(predicate)); },
            nb::arg("predicate"), "A sink whose messages come back as events. Returns its number.")
        .def(
            "unsubscribe", [](PyForwarder& self, uint32_t sink) { self.forwarder.unsubscribe(sink); }, nb::arg("sink"))
        .def(
            "unsubscribe_all",
            [](PyForwarder& self, const std::vector<uint32_t>& sinks) {
                for (const uint32_t sink : sinks) self.forwarder.unsubscribe(sink);
            },
            nb::arg("sinks"))
        .def(
            "take_credit",
            [](PyForwarder& self, uint32_t sink) { return self.forwarder.output_queues().sink_at(sink).take_credit(); },
            nb::arg("sink"), "Take back the credit that is left; returns how much that was.")
        .def(
            "credit",
            [](PyForwarder& self, uint32_t sink, uint32_t more, int64_t now_ms) {
                self.forwarder.output_queues().credit(sink, more, now_ms);
            },
            nb::arg("sink"), nb::arg("more"), nb::arg("now_ms"))
        .def(
            "match", [](PyForwarder& self, nb::bytes message) { return self.forwarder.match(view_of(message)); },
            nb::arg("message"), "The mailbox sinks that match.")
        .def(
            "publish",
            [](PyForwarder& self, nb::bytes message, int64_t now_ms, std::optional<uint32_t> publisher) {
                self.forwarder.publish(view_of(message), now_ms, publisher.value_or(OutputQueues::nobody));
            },
            nb::arg("message"), nb::arg("now_ms"), nb::arg("connection").none(),
            "Serve the direct sinks that match; `connection` is the publisher's, if it has one.")
        .def("deliver", &PyForwarder::deliver, nb::arg("connection"), nb::arg("subscription"), nb::arg("attempts"),
             nb::arg("tags"), nb::arg("messages"),
             nb::sig("def deliver(self, connection: int, subscription: int, attempts: list[int], tags: list[int], "
                     "messages: list[bytes]) -> None"))
        .def(
            "sink_counts",
            [](PyForwarder& self, uint32_t index) {
                const Sink& sink = self.forwarder.output_queues().sink_at(index);
                return nb::make_tuple(sink.delivered, sink.dropped, sink.backlog_bytes, sink.stalled);
            },
            nb::arg("sink"), nb::sig("def sink_counts(self, sink: int) -> tuple[int, int, int, bool]"),
            "Delivered, dropped, bytes waiting, stalled.");
}

void bind_output(nb::class_<PyForwarder>& type) {
    type.def(
            "send",
            [](PyForwarder& self, uint32_t connection, nb::bytes bytes) {
                self.forwarder.output_queues().send(connection, view_of(bytes));
            },
            nb::arg("connection"), nb::arg("data"))
        .def(
            "confirm",
            [](PyForwarder& self, uint32_t connection, const std::vector<uint32_t>& receipts) {
                Connection& confirmed = self.forwarder.output_queues().at(connection);
                confirmed.receipts = receipts;
                self.forwarder.output_queues().answer_receipts(confirmed);
            },
            nb::arg("connection"), nb::arg("receipts"), "These publications are accepted.")
        .def(
            "room",
            [](PyForwarder& self, uint32_t connection) { return self.forwarder.output_queues().room(connection); },
            nb::arg("connection"))
        .def("take_dirty", [](PyForwarder& self) { return self.forwarder.output_queues().take_dirty(); })
        .def("take", &PyForwarder::take, nb::arg("connection"), nb::arg("bytes_max"), nb::arg("now_ms"),
             nb::sig("def take(self, connection: int, bytes_max: int, now_ms: int) -> bytes"))
        .def("write_all", &PyForwarder::write_all, nb::arg("bytes_max"), nb::arg("now_ms"),
             nb::sig("def write_all(self, bytes_max: int, now_ms: int) -> list[tuple[int, bytes, int]]"))
        .def(
            "set_socket",
            [](PyForwarder& self, uint32_t connection, int socket) {
                self.forwarder.output_queues().at(connection).socket = socket;
            },
            nb::arg("connection"), nb::arg("socket"),
            "Sets the socket that `write_all` writes its output to; -1: none.")
        .def(
            "written_ms",
            [](PyForwarder& self, uint32_t connection) {
                return self.forwarder.output_queues().at(connection).written_ms;
            },
            nb::arg("connection"), "When there was output for it last.")
        .def("has_output", [](PyForwarder& self) { return self.forwarder.output_queues().has_output(); })
        .def(
            "output_bytes",
            [](PyForwarder& self, uint32_t connection) {
                return self.forwarder.output_queues().at(connection).output.size();
            },
            nb::arg("connection"))
        .def(
            "set_writable",
            [](PyForwarder& self, uint32_t connection, bool writable) {
                self.forwarder.output_queues().set_writable(connection, writable);
            },
            nb::arg("connection"), nb::arg("writable"))
        .def("has_resumable", [](PyForwarder& self) { return self.forwarder.output_queues().has_resumable(); })
        .def("take_resumable", [](PyForwarder& self) { return self.forwarder.output_queues().take_resumable(); })
        .def("check_stalls", &PyForwarder::check_stalls, nb::arg("now_ms"));
}

// Settings of a STOMP session for the forwarder, which reads and writes the frequent frames.
void bind_stomp(nb::class_<PyForwarder>& type) {
    type.def(
            "speak_stomp", [](PyForwarder& self, uint32_t connection) { self.forwarder.speak_stomp(connection); },
            nb::arg("connection"))
        .def(
            "stomp_version",
            [](PyForwarder& self, uint32_t connection, unsigned version) {
                if (version > 2) throw UsageError{"E_NO_STOMP", "versions are 0 to 2"};
                self.forwarder.stomp(connection).version = static_cast<StompVersion>(version);
            },
            nb::arg("connection"), nb::arg("version"))
        .def(
            "stomp_publisher",
            [](PyForwarder& self, uint32_t connection, uint32_t publisher, uint32_t broker, nb::str temporary) {
                StompState& state = self.forwarder.stomp(connection);
                state.publisher = publisher;
                state.broker = broker;
                state.temporary = text_of(temporary);
            },
            nb::arg("connection"), nb::arg("publisher"), nb::arg("broker"), nb::arg("temporary"))
        .def(
            "stomp_label",
            [](PyForwarder& self, uint32_t connection, uint32_t subscription, nb::bytes line, uint8_t acks) {
                StompState& state = self.forwarder.stomp(connection);
                if (acks > 2) throw UsageError{"E_NO_STOMP", "acknowledgements are 0 to 2"};
                StompState::Label label{"MESSAGE\n" + std::string(view_of(line)), static_cast<StompState::Acks>(acks)};
                if (line.size()) state.labels.insert_or_assign(subscription, std::move(label));
                else state.labels.erase(subscription);
            },
            nb::arg("connection"), nb::arg("subscription"), nb::arg("line"), nb::arg("acks") = 0,
            "The header line that names a subscription; empty: none any more. What its ACK frames mean: 0 nothing, 1 a "
            "message, 2 all up to it.")
        .def(
            "stomp_transaction",
            [](PyForwarder& self, uint32_t connection, nb::str name, uint16_t session) {
                auto& known = self.forwarder.stomp(connection).transactions;
                std::erase_if(known, [&](const auto& one) { return one.first == text_of(name); });
                if (session) known.emplace_back(text_of(name), session);
            },
            nb::arg("connection"), nb::arg("name"), nb::arg("session"),
            "The session of a transaction; 0: it has ended.")
        .def(
            "stomp_receipt",
            [](PyForwarder& self, uint32_t connection, uint32_t receipt) {
                const auto name = self.forwarder.stomp(connection).receipts.take(receipt);
                return name ? nb::object(to_bytes(*name)) : nb::object(nb::none());
            },
            nb::arg("connection"), nb::arg("receipt"),
            nb::sig("def stomp_receipt(self, connection: int, receipt: int) -> bytes | None"),
            "The client's name for a receipt that is answered now.")
        .def(
            "stomp_types",
            [](PyForwarder& self, const std::vector<std::tuple<std::string, bool, std::string, unsigned>>& rules) {
                std::vector<StompTypes::Rule> made;
                for (const auto& [pattern, queue, name, kind] : rules) {
                    if (kind > 4) throw UsageError{"E_NO_STOMP", "types are 0 to 4"};
                    made.push_back({pattern, queue, name, static_cast<StompType>(kind)});
                }
                self.forwarder.stomp_types().set(std::move(made));
            },
            nb::arg("rules"));
}

void bind_network(nb::class_<PyForwarder>& type) {
    type.def(
            "join_network",
            [](PyForwarder& self, uint32_t router, bool flooding, bool hands_up, uint32_t broadcast_above,
               uint8_t hops_max, size_t backlog_bytes_max, size_t far_bytes_max, bool vectors, uint32_t bits,
               uint32_t hashes, uint64_t key, bool graded) {
                NetworkOptions options{.router = router,
                                       .flooding = flooding,
                                       .hands_up = hands_up,
                                       .broadcast_above = broadcast_above,
                                       .hops_max = hops_max,
                                       .backlog_bytes_max = backlog_bytes_max,
                                       .far_bytes_max = far_bytes_max};
                self.forwarder.join(options, Interests(vectors, bits, hashes, key,
                                                       graded ? Grade::Graded : Grade::Plain, process_seed()));
            },
            nb::arg("router"), nb::arg("flooding"), nb::arg("hands_up"), nb::arg("broadcast_above"),
            nb::arg("hops_max"), nb::arg("backlog_bytes_max"), nb::arg("far_bytes_max"), nb::arg("vectors"),
            nb::arg("bits"), nb::arg("hashes"), nb::arg("key"), nb::arg("graded"))
        .def(
            "interest",
            [](PyForwarder& self, uint32_t router, const std::vector<nb::bytes>& added,
               const std::vector<nb::bytes>& removed) {
                Interests& interests = self.forwarder.network().interests;
                for (const nb::bytes& row : added) interests.check(view_of(row));
                for (const nb::bytes& row : added) interests.add(router, view_of(row));
                for (const nb::bytes& row : removed) interests.remove(router, view_of(row));
            },
            nb::arg("router"), nb::arg("added"), nb::arg("removed"),
            "Rows of a router that come and go. An invalid one among those that come: an error, and nothing changes.")
        .def(
            "forget", [](PyForwarder& self, uint32_t router) { self.forwarder.network().interests.forget(router); },
            nb::arg("router"))
        .def(
            "routes",
            [](PyForwarder& self, std::unordered_map<uint32_t, uint32_t> next_hops) {
                self.forwarder.network().set_routes(std::move(next_hops));
            },
            nb::arg("next_hops"), "For every router that can be reached: the neighbour on the way to it.")
        .def(
            "reverse_paths",
            [](PyForwarder& self, const std::unordered_map<uint32_t, std::vector<uint32_t>>& origins) {
                self.forwarder.network().set_reverse_paths(origins);
            },
            nb::arg("origins"),
            "Of each neighbour the origins whose broadcasts it takes from here; one that is not named may take all.")
        .def(
            "link",
            [](PyForwarder& self, uint32_t connection, uint32_t neighbour) {
                self.forwarder.network().link(connection, neighbour);
            },
            nb::arg("connection"), nb::arg("neighbour"))
        .def(
            "unlink", [](PyForwarder& self, uint32_t neighbour) { self.forwarder.network().unlink(neighbour); },
            nb::arg("neighbour"))
        .def(
            "link_waiting",
            [](PyForwarder& self, uint32_t neighbour) { return self.forwarder.network().waiting(neighbour); },
            nb::arg("neighbour"))
        .def(
            "congestion",
            [](PyForwarder& self) {
                return std::make_pair(self.forwarder.output_queues().congestion.here(),
                                      self.forwarder.network().full_links());
            },
            "Whether subscribers here do not keep up with what other brokers send, and the neighbours whose links do "
            "not.")
        .def(
            "set_congested",
            [](PyForwarder& self, const std::vector<uint32_t>& routers) {
                self.forwarder.network().set_congested(routers);
            },
            nb::arg("routers"), "Publishers of messages for these destinations wait from now on, and for no others.")
        .def(
            "destinations",
            [](PyForwarder& self, nb::bytes message) { return self.forwarder.destinations(view_of(message)); },
            nb::arg("message"))
        .def(
            "enter",
            [](PyForwarder& self, nb::bytes message, int64_t now_ms, std::optional<uint32_t> publisher) {
                self.forwarder.enter(view_of(message), now_ms, publisher.value_or(OutputQueues::nobody));
            },
            nb::arg("message"), nb::arg("now_ms"), nb::arg("connection").none(),
            "Send a message that is not persistent to the other brokers that want it.")
        .def(
            "relay",
            [](PyForwarder& self, uint32_t neighbour, std::vector<uint32_t> routers, std::vector<uint64_t> numbers,
               uint32_t origin, uint64_t epoch, bool repeated, uint8_t hops, uint64_t tag, nb::bytes message,
               int64_t now_ms) {
                ForwardHeader header;
                header.hops = hops;
                header.tagged = true;
                header.tag = tag;
                header.repeated = repeated;
                header.origin = origin;
                header.epoch = epoch;
                header.routers = std::move(routers);
                header.numbers = std::move(numbers);
                return self.forwarder.network().relay(neighbour, header, view_of(message), now_ms);
            },
            nb::arg("neighbour"), nb::arg("routers"), nb::arg("numbers"), nb::arg("origin"), nb::arg("epoch"),
            nb::arg("repeated"), nb::arg("hops"), nb::arg("tag"), nb::arg("message"), nb::arg("now_ms"),
            "Send a copy that the neighbour must acknowledge, with a number for each of its routers.")
        .def(
            "event_tree",
            [](PyForwarder& self, const std::string& name, uint32_t up, bool calls, std::vector<uint32_t> neighbours,
               std::vector<std::string> parents) {
                self.forwarder.network().event_trees.set(name, up, calls, std::move(neighbours), std::move(parents));
            },
            nb::arg("name"), nb::arg("up"), nb::arg("calls"), nb::arg("neighbours"), nb::arg("parents"),
            "The tree of a type here: the next hop to its rendezvous node (0: none), whether that asks for all events, "
            "and the neighbours and parent types that want all of them.")
        .def(
            "drop_event_tree",
            [](PyForwarder& self, const std::string& name) { self.forwarder.network().event_trees.drop(name); },
            nb::arg("name"))
        .def(
            "event_filter",
            [](PyForwarder& self, const std::string& name, uint32_t neighbour, std::string parent, nb::bytes placed,
               nb::bytes filter) {
                return self.forwarder.network().event_trees.add_filter(
                    name, {neighbour, std::move(parent), std::string(view_of(placed)), std::string(view_of(filter))});
            },
            nb::arg("name"), nb::arg("neighbour"), nb::arg("parent"), nb::arg("placed"), nb::arg("filter"),
            "A filter of a neighbour, or (0) of a type that the tree's is a subtype of. Returns its number.")
        .def(
            "drop_event_filter",
            [](PyForwarder& self, uint32_t number) { self.forwarder.network().event_trees.remove_filter(number); },
            nb::arg("number"))
        .def("network_stats", &PyForwarder::network_stats, nb::sig("def network_stats(self) -> dict[str, int]"))
        .def("take_in_vain", &PyForwarder::take_in_vain, nb::sig("def take_in_vain(self) -> list[bytes]"),
             "Some of the messages that were brought here since the last call and that nobody here wanted.");
}

}  // namespace

static void bind_forwarder(nb::module_& m) {
    nb::class_<PyForwarder> type(m, "Forwarder",
                                 "From the bytes of a socket read to the output of every sink they match.");
    type.def(
            "__init__",
            [](PyForwarder* self, size_t read_bytes, size_t output_bytes_max, size_t memory_bytes_max,
               size_t login_frame_bytes_max, int64_t stall_ms) {
                new (self)
                    PyForwarder(read_bytes, {output_bytes_max, memory_bytes_max, login_frame_bytes_max, stall_ms});
            },
            nb::kw_only(), nb::arg("read_bytes") = 64 << 10, nb::arg("output_bytes_max") = 1 << 20,
            nb::arg("memory_bytes_max") = 256 << 20, nb::arg("login_frame_bytes_max") = 64 << 10,
            nb::arg("stall_ms") = 1000)
        .def_prop_ro("buffer", &PyForwarder::view, nb::sig("def buffer(self) -> memoryview"))
        .def(
            "open", [](PyForwarder& self, size_t protocol) { return self.forwarder.output_queues().open(protocol); },
            nb::arg("protocol") = 0)
        .def(
            "close", [](PyForwarder& self, uint32_t connection) { self.forwarder.output_queues().close(connection); },
            nb::arg("connection"))
        .def(
            "log_in",
            [](PyForwarder& self, uint32_t connection, size_t frame_bytes_max, bool checks) {
                self.forwarder.log_in(connection, frame_bytes_max, checks);
            },
            nb::arg("connection"), nb::arg("frame_bytes_max"), nb::arg("checks_destinations"))
        .def(
            "allow",
            [](PyForwarder& self, uint32_t connection, nb::str destination) {
                self.forwarder.allow(connection, text_of(destination));
            },
            nb::arg("connection"), nb::arg("destination"))
        .def(
            "skip", [](PyForwarder& self, uint32_t connection) { self.forwarder.skip(connection); },
            nb::arg("connection"))
        .def(
            "transacted",
            [](PyForwarder& self, uint32_t connection, uint16_t session, bool on) {
                self.forwarder.output_queues().at(connection).set_transacted(session, on);
            },
            nb::arg("connection"), nb::arg("session"), nb::arg("on"),
            "Sets if messages of this session wait for a commit.")
        .def(
            "ignore", [](PyForwarder& self, uint32_t connection) { self.forwarder.ignore(connection); },
            nb::arg("connection"))
        .def(
            "record_in",
            [](PyForwarder& self, Tracker& tracker) { self.forwarder.output_queues().use_tracker(tracker); },
            nb::arg("tracker"), nb::keep_alive<1, 2>(), "Records all messages from now on there.")
        .def(
            "set_subscriber",
            [](PyForwarder& self, uint32_t connection, uint32_t subscriber) {
                self.forwarder.output_queues().set_subscriber(connection, subscriber);
            },
            nb::arg("connection"), nb::arg("subscriber"))
        .def(
            "advertise_event",
            [](PyForwarder& self, uint32_t connection, std::string topic, std::string type,
               const std::vector<std::tuple<std::string, unsigned, bool>>& attributes) {
                std::vector<EventForm::Declared> declared;
                for (const auto& [name, kind, optional] : attributes) {
                    if (kind > 4) throw UsageError{"E_EVENT_FORM", "kinds of attributes are 0 to 4"};
                    declared.push_back({name, static_cast<EventValue>(kind), optional});
                }
                self.forwarder.output_queues()
                    .at(connection)
                    .advertise_event(std::move(topic), {std::move(type), std::move(declared)});
            },
            nb::arg("connection"), nb::arg("topic"), nb::arg("type"), nb::arg("attributes"),
            "Events of this connection to a topic that fit are forwarded without being shown: name, kind in the order "
            "of `AttributeType`, and whether it may be missing.")
        .def(
            "withdraw_event",
            [](PyForwarder& self, uint32_t connection, const std::string& topic) {
                self.forwarder.output_queues().at(connection).withdraw_event(topic);
            },
            nb::arg("connection"), nb::arg("topic"))
        .def(
            "watch_clock",
            [](PyForwarder& self, uint32_t connection, int64_t skew_ms_max) {
                self.forwarder.output_queues().at(connection).skew_ms_max = skew_ms_max;
            },
            nb::arg("connection"), nb::arg("skew_ms_max"))
        .def(
            "hold", [](PyForwarder& self, uint32_t connection) { self.forwarder.hold(connection); },
            nb::arg("connection"), "Parse nothing more of this connection until `release`.")
        .def(
            "release", [](PyForwarder& self, uint32_t connection) { self.forwarder.release(connection); },
            nb::arg("connection"))
        .def("set_allowance", &PyForwarder::set_allowance, nb::arg("connection"), nb::arg("number"),
             "What this connection publishes counts for the allowance of this number; 0: for none.")
        .def(
            "refill", &PyForwarder::refill, nb::arg("number"), nb::arg("messages"), nb::arg("messages_max"),
            nb::arg("bytes"), nb::arg("bytes_max"),
            "So much more may be published by those who share this allowance, up to a bound; 0: without end. Made when "
            "it is first named.")
        .def("drop_allowance", &PyForwarder::drop_allowance, nb::arg("number"))
        .def("allowance_counts", &PyForwarder::allowance_counts, nb::arg("number"),
             "Messages, bytes and waits of this allowance so far.")
        .def(
            "set_share", [](PyForwarder& self, int64_t ms) { self.forwarder.share.set(ms); }, nb::arg("milliseconds"),
            "How long the input of one connection is parsed before others come first, by the system's clock; 0: as "
            "long "
            "as there is some.")
        .def("has_tired", [](PyForwarder& self) { return self.forwarder.share.has_tired(); })
        .def(
            "rest", [](PyForwarder& self) { return self.forwarder.share.rest(self.forwarder.output_queues()); },
            "The connection whose input has waited longest since its share was used up, to be resumed; -1: none.")
        .def("feed", &PyForwarder::feed, nb::arg("connection"), nb::arg("size"), nb::arg("now_ms"))
        .def("serve", &PyForwarder::serve, nb::arg("connection"), nb::arg("size"), nb::arg("now_ms"),
             "As `feed`; writes what comes of it if it is only output.")
        .def("feed_bytes", &PyForwarder::feed_bytes, nb::arg("connection"), nb::arg("data"), nb::arg("now_ms"))
        .def("handled", &PyForwarder::handled, nb::arg("connection"), nb::arg("now_ms"))
        .def("resume", &PyForwarder::resume, nb::arg("connection"), nb::arg("now_ms"))
        .def("events", &PyForwarder::events, nb::sig("def events(self) -> list[tidings.kernel.events.PlaneEvent]"),
             "Takes what only Python can handle, in order.")
        .def("has_events", [](PyForwarder& self) { return !self.forwarder.output_queues().events.empty(); })
        .def("stats", &PyForwarder::stats, nb::sig("def stats(self) -> dict[str, int]"))
        .def("by_protocol", &PyForwarder::by_protocol)  // received and delivered messages
        .def("destination_counts", &PyForwarder::destination_counts, nb::arg("now_ms"),
             nb::sig("def destination_counts(self, now_ms: int) -> dict[str, tuple[int, int]]"),
             "Messages and deliveries by destination since counting began; the empty name is all those beyond the "
             "first thousand.")
        .def(
            "feeds", [](PyForwarder& self) { return self.forwarder.output_queues().stats.feeds; },
            "Reads so far, of all connections.")
        .def("received", [](PyForwarder& self) { return self.forwarder.output_queues().stats.received; })
        .def("held_bytes", [](PyForwarder& self) { return self.forwarder.output_queues().held_bytes(); })
        .def("fresh_bytes", [](PyForwarder& self) { return self.forwarder.output_queues().fresh_bytes(); })
        .def("filters", [](PyForwarder& self) { return self.forwarder.matcher().size(); })
        .def(
            "overruns", [](PyForwarder& self) { return self.forwarder.matcher().overruns(); },
            "Evaluations of filters that were given up because a message's budget was used up.")
        .def("take_overruns", &PyForwarder::take_overruns,
             "Mailbox sinks whose filters were given up since the last call, and for how many messages; subscribers of "
             "direct sinks are notified.")
        .def("matcher_bytes", [](PyForwarder& self) { return self.forwarder.matcher().bytes(); });
    bind_sinks(type);
    bind_output(type);
    bind_stomp(type);
    bind_network(type);
}

static const tidings::Structure structure{"forwarder", bind_forwarder};
