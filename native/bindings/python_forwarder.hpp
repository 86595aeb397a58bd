// The forwarder with a buffer for what sockets give, and with their sockets: bytes in and out without a copy in Python.
#pragma once
#include <nanobind/nanobind.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <tuple>

#include "python_events.hpp"
#include "python_values.hpp"
#include "tidings/forwarding/forwarder.hpp"
#include "tidings/support/heap.hpp"

namespace tidings {

// Returns the number of bytes that the socket took. A broken one takes everything: its reader notices the error.
inline size_t send_some(int socket, std::string_view bytes) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : bytes.size();
}

class PyForwarder {
public:
    PyForwarder(size_t read_bytes, const ForwarderOptions& options)
        : forwarder(options),
          buffer_bytes_(read_bytes),
          buffer_(new char[read_bytes]) {}

    // To be called every now and then.
    void check_stalls(int64_t now_ms) {
        forwarder.output_queues().check_stalls(now_ms);
        const nb::gil_scoped_release release;
        heap_.maybe_trim();
    }

    nb::object view() {
        return nb::steal(PyMemoryView_FromMemory(buffer_.get(), static_cast<Py_ssize_t>(buffer_bytes_), PyBUF_WRITE));
    }

    // Not inlined, nor is `serve`: where these are written out twice, the compiler optimises what they call less.
    [[gnu::noinline]] unsigned feed(uint32_t connection, size_t bytes, int64_t now_ms) {
        if (bytes > buffer_bytes_) throw UsageError{"E_FEED", "more bytes than the buffer holds"};
        nb::gil_scoped_release release;
        return forwarder.feed(connection, {buffer_.get(), bytes}, now_ms);
    }

    // As `feed`; if nothing came of it but output, this is written, too. left_flag: not all, or there is more to see
    // to.
    [[gnu::noinline]] unsigned serve(uint32_t connection, size_t bytes, int64_t now_ms) {
        if (bytes > buffer_bytes_) throw UsageError{"E_FEED", "more bytes than the buffer holds"};
        nb::gil_scoped_release release;
        const unsigned flags = forwarder.feed(connection, {buffer_.get(), bytes}, now_ms);
        if (flags != Forwarder::output_flag) return flags;
        OutputQueues& output_queues = forwarder.output_queues();
        for (const uint32_t number : output_queues.take_dirty()) {
            const Connection& reader = output_queues.at(number);
            if (reader.socket >= 0) write_some(number, SIZE_MAX, now_ms);
            if (!reader.output.empty()) output_queues.set_writable(number, true);
        }
        const bool left = output_queues.has_output() || output_queues.has_resumable() || !output_queues.events.empty();
        return left ? flags | left_flag : flags;
    }

    unsigned feed_bytes(uint32_t connection, nb::bytes data, int64_t now_ms) {
        const std::string_view bytes(data.c_str(), data.size());
        nb::gil_scoped_release release;
        return forwarder.feed(connection, bytes, now_ms);
    }

    unsigned handled(uint32_t connection, int64_t now_ms) {
        nb::gil_scoped_release release;
        return forwarder.handled(connection, now_ms);
    }

    unsigned resume(uint32_t connection, int64_t now_ms) {
        nb::gil_scoped_release release;
        return forwarder.resume(connection, now_ms);
    }

    void set_allowance(uint32_t connection, uint32_t number) {
        Connection& one = forwarder.output_queues().at(connection);
        one.allowance = allowances_.find(number);
        go_on(one);
    }

    void refill(uint32_t number, int64_t messages, int64_t messages_max, int64_t bytes, int64_t bytes_max) {
        for (const uint32_t waiting : allowances_.refill(number, messages, messages_max, bytes, bytes_max))
            if (Connection* const one = forwarder.output_queues().find(waiting)) go_on(*one);
    }

    void drop_allowance(uint32_t number) { allowances_.drop(number); }

    std::tuple<uint64_t, uint64_t, uint64_t> allowance_counts(uint32_t number) {
        const std::shared_ptr<Allowance> one = allowances_.find(number);
        if (!one) throw UsageError{"E_NO_ALLOWANCE", "no such allowance"};
        return {one->messages, one->bytes, one->held};
    }

    nb::object take(uint32_t connection, size_t bytes_max, int64_t now_ms) {
        nb::object bytes = to_bytes(forwarder.output_queues().front(connection, bytes_max));
        forwarder.output_queues().drop(connection, static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())), now_ms);
        return bytes;
    }

    // Output goes to the sockets of all writable connections. What is left for the driver to do: the number of a
    // connection, bytes that it must write, and how many stay behind.
    nb::list write_all(size_t bytes_max, int64_t now_ms) {
        nb::list all;
        for (const uint32_t number : forwarder.output_queues().take_dirty()) {
            const Connection& connection = forwarder.output_queues().at(number);
            size_t room = bytes_max;
            if (connection.socket >= 0) {
                const nb::gil_scoped_release release;
                if (write_some(number, bytes_max, now_ms)) room = 0;
                if (connection.output.empty()) continue;
            }
            nb::object bytes = take(number, room, now_ms);
            all.append(nb::make_tuple(number, bytes, connection.output.size()));
        }
        return all;
    }

    void deliver(uint32_t connection, uint32_t subscription, nb::list attempts, nb::list tags, nb::list messages) {
        if (attempts.size() != messages.size() || tags.size() != messages.size())
            throw UsageError{"E_DELIVER", "as many attempts and tags as messages"};
        for (size_t i = 0; i < messages.size(); ++i) {
            const nb::bytes message = nb::cast<nb::bytes>(messages[i]);
            forwarder.output_queues().deliver(connection, subscription, nb::cast<uint32_t>(attempts[i]),
                                              nb::cast<uint64_t>(tags[i]), {message.c_str(), message.size()});
        }
    }

    nb::list events() {
        const std::vector<Event> taken = forwarder.output_queues().take_events();
        nb::list all = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(taken.size())));
        if (!all.is_valid()) throw nb::python_error();
        Py_ssize_t place = 0;
        for (const Event& event : taken) PyList_SET_ITEM(all.ptr(), place++, EventRecords::of(event).release().ptr());
        return all;
    }

    nb::dict stats() {
        const ForwarderStats& s = forwarder.output_queues().stats;
        nb::dict d;
        d["received"] = s.received;
        d["received_bytes"] = s.received_bytes;
        d["delivered"] = s.delivered();
        d["sent_bytes"] = s.sent_bytes;
        d["unmatched"] = s.unmatched;
        d["expired"] = s.expired;
        for (size_t i = 0; i < drop_reasons.size(); ++i)
            d[("dropped_" + std::string(drop_reasons[i])).c_str()] = s.dropped[i];
        d["dropped_link"] = s.dropped_link;
        d["pushed_back"] = s.pushed_back;
        d["feeds"] = s.feeds;
        d["writes"] = s.writes;
        return d;
    }

    std::vector<std::pair<uint64_t, uint64_t>> by_protocol() {
        std::vector<std::pair<uint64_t, uint64_t>> all;
        for (const auto& [received, delivered] : forwarder.output_queues().stats.by_protocol)
            all.emplace_back(received, delivered);
        return all;
    }

    // Subscribers whose filters were given up since the last call, with the number of messages: those of direct sinks
    // are notified, mailboxes' are the caller's.
    std::vector<std::pair<uint32_t, uint64_t>> take_overruns() {
        std::vector<std::pair<uint32_t, uint64_t>> given_up = forwarder.matcher().take_overruns();
        std::erase_if(given_up, [&](const auto& one) {
            Sink& sink = forwarder.output_queues().sink_at(one.first);
            if (sink.kind == Sink::Kind::Direct) forwarder.output_queues().dropped(sink, DropReason::Cost, one.second);
            return sink.kind == Sink::Kind::Direct;
        });
        return given_up;
    }

    nb::dict destination_counts(int64_t now_ms) {
        TopicMeter& meter = forwarder.output_queues().stats.by_destination;
        meter.look(now_ms);
        nb::dict found;
        const auto add = [&](const std::string& name, const TopicMeter::Counts& counts) {
            if (counts.in) found[nb::str(name.data(), name.size())] = nb::make_tuple(counts.in, counts.out);
        };
        for (const auto& [name, counts] : meter.topics()) add("topic:" + name, counts);
        for (const auto& [name, counts] : meter.queues()) add("queue:" + name, counts);
        add("", meter.others());
        return found;
    }

    nb::dict network_stats() {
        const NetworkStats& s = forwarder.network().stats;
        nb::dict d;
        d["entered"] = s.entered;
        d["destinations"] = s.destinations;
        d["copies"] = s.copies;
        d["copy_bytes"] = s.copy_bytes;
        d["arrived"] = s.arrived;
        d["relayed"] = s.relayed;
        d["in_vain"] = s.in_vain;
        d["no_route"] = s.no_route;
        d["no_hops"] = s.no_hops;
        d["duplicates"] = s.duplicates;
        d["wrong_path"] = s.wrong_path;
        d["expired"] = s.expired;
        return d;
    }

    nb::list take_in_vain() {
        nb::list found;
        for (const std::string& one : forwarder.network().take_in_vain()) found.append(to_bytes(one));
        return found;
    }

    Forwarder forwarder;

private:
    static constexpr unsigned left_flag = 8;  // beside the forwarder's own flags

    // True if the socket took all of it, up to `bytes_max`.
    bool write_some(uint32_t number, size_t bytes_max, int64_t now_ms) {
        const Connection& connection = forwarder.output_queues().at(number);
        const std::string_view bytes = connection.output.front(bytes_max);
        const size_t sent = send_some(connection.socket, bytes), wanted = bytes.size();
        if (sent) forwarder.output_queues().drop(number, sent, now_ms);
        return sent == wanted;
    }

    // It need not wait for its user's allowance any more.
    void go_on(Connection& connection) {
        if (std::exchange(connection.spent, false)) forwarder.output_queues().maybe_resumable(connection);
    }

    size_t buffer_bytes_;
    std::unique_ptr<char[]> buffer_;
    HeapTrimmer heap_;
    Allowances allowances_;
};

}  // namespace tidings
