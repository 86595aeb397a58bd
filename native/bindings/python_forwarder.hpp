// The forwarder with a buffer for what sockets give, and with their sockets: bytes in and out without a copy in Python.
#pragma once
#include <malloc.h>
#include <nanobind/nanobind.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "python_events.hpp"
#include "python_values.hpp"
#include "tidings/forwarding/forwarder.hpp"

namespace tidings {

// Milliseconds since 1970.
inline int64_t now_ms() {
    return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// How many bytes the socket took. One that is broken takes everything: its reader will notice.
inline size_t send_some(int socket, std::string_view bytes) {
    const ssize_t sent = ::send(socket, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) return static_cast<size_t>(sent);
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : bytes.size();
}

class PyForwarder {
public:
    PyForwarder(size_t read_bytes, const ForwarderOptions& options)
        : forwarder(options), buffer_bytes(read_bytes), buffer(new char[read_bytes]) {
        // Output of some hundred KiB a write would otherwise be mapped and page-faulted in anew each time. But what other threads
        // free, which `give_back` does not reach, goes back by itself if it is much.
        mallopt(M_MMAP_THRESHOLD, 64 << 20);
        mallopt(M_TRIM_THRESHOLD, 8 << 20);
    }

    // To be called every now and then.
    void check_stalls(int64_t now_ms) {
        forwarder.outlets().check_stalls(now_ms);
        give_back();
    }

    nb::object view() {
        return nb::steal(PyMemoryView_FromMemory(buffer.get(), static_cast<Py_ssize_t>(buffer_bytes), PyBUF_WRITE));
    }

    // Not inlined, nor is `serve`: where these are written out twice, the compiler takes less care of what they call.
    [[gnu::noinline]] unsigned feed(uint32_t connection, size_t bytes, int64_t now_ms) {
        if (bytes > buffer_bytes) throw UsageError{"E_FEED", "more bytes than the buffer holds"};
        nb::gil_scoped_release release;
        return forwarder.feed(connection, {buffer.get(), bytes}, now_ms);
    }

    // As `feed`; if nothing came of it but output, this is written, too. Left: not all, or there is more to see to.
    [[gnu::noinline]] unsigned serve(uint32_t connection, size_t bytes, int64_t now_ms) {
        if (bytes > buffer_bytes) throw UsageError{"E_FEED", "more bytes than the buffer holds"};
        nb::gil_scoped_release release;
        const unsigned flags = forwarder.feed(connection, {buffer.get(), bytes}, now_ms);
        if (flags != Forwarder::HasOutput) return flags;
        Outlets& outlets = forwarder.outlets();
        for (const uint32_t number : outlets.take_dirty()) {
            const Connection& reader = outlets.at(number);
            if (reader.socket >= 0) write_some(number, SIZE_MAX, now_ms);
            if (!reader.output.empty()) outlets.set_writable(number, true);
        }
        const bool left = outlets.has_output() || outlets.has_resumable() || !outlets.events.empty();
        return left ? flags | Left : flags;
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

    nb::object take(uint32_t connection, size_t bytes_max, int64_t now_ms) {
        nb::object bytes = to_bytes(forwarder.outlets().front(connection, bytes_max));
        forwarder.outlets().drop(connection, static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr())), now_ms);
        return bytes;
    }

    // Output goes to the sockets of all writable connections. What is left for the driver to do: the number of a
    // connection, bytes that it must write, and how many stay behind.
    nb::list write_all(size_t bytes_max, int64_t now_ms) {
        nb::list all;
        for (const uint32_t number : forwarder.outlets().take_dirty()) {
            const Connection& connection = forwarder.outlets().at(number);
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
            forwarder.outlets().deliver(connection, subscription, nb::cast<uint32_t>(attempts[i]), nb::cast<uint64_t>(tags[i]),
                                        {message.c_str(), message.size()});
        }
    }

    nb::list events() {
        const std::vector<Event> taken = forwarder.outlets().take_events();
        nb::list all = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(taken.size())));
        if (!all.is_valid()) throw nb::python_error();
        Py_ssize_t place = 0;
        for (const Event& event : taken) PyList_SET_ITEM(all.ptr(), place++, EventRecords::of(event).release().ptr());
        return all;
    }

    nb::dict stats() {
        const ForwarderStats& s = forwarder.outlets().stats;
        nb::dict d;
        d["received"] = s.received;
        d["received_bytes"] = s.received_bytes;
        d["delivered"] = s.delivered;
        d["sent_bytes"] = s.sent_bytes;
        d["unmatched"] = s.unmatched;
        d["expired"] = s.expired;
        for (size_t i = 0; i < drop_reasons.size(); ++i) d[("dropped_" + std::string(drop_reasons[i])).c_str()] = s.dropped[i];
        d["dropped_link"] = s.dropped_link;
        d["pushed_back"] = s.pushed_back;
        d["feeds"] = s.feeds;
        d["writes"] = s.writes;
        return d;
    }

    // Subscribers whose filters were given up since the last call, for so many messages: those of direct sinks are told, mailboxes'
    // are the caller's.
    std::vector<std::pair<uint32_t, uint64_t>> take_overruns() {
        std::vector<std::pair<uint32_t, uint64_t>> given_up = forwarder.matcher().take_overruns();
        std::erase_if(given_up, [&](const auto& one) {
            Sink& sink = forwarder.outlets().sink_at(one.first);
            if (sink.kind == Sink::Kind::Direct) forwarder.outlets().dropped(sink, DropReason::Cost, one.second);
            return sink.kind == Sink::Kind::Direct;
        });
        return given_up;
    }

    nb::tuple grade_sums() {
        const ForwarderStats& s = forwarder.outlets().stats;
        return nb::make_tuple(s.grades, s.grade_squares, s.grade_cubes);
    }

    nb::dict destination_counts(int64_t now_ms) {
        TopicMeter& meter = forwarder.outlets().stats.by_destination;
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

    Forwarder forwarder;

private:
    using Clock = std::chrono::steady_clock;
    static constexpr unsigned Left = 8;  // beside the forwarder's own flags

    // What is free within the heap goes back to the system, or the process would stay as large as its worst moment. Where
    // that takes long, a heap of gigabytes full of holes, it is done seldom.
    void give_back() {
        const auto began = Clock::now();
        if (began < next_give_back) return;
        const nb::gil_scoped_release release;
        malloc_trim(1 << 20);
        next_give_back = began + std::max<Clock::duration>(std::chrono::seconds(10), 10'000 * (Clock::now() - began));
    }

    // Whether the socket took all of it, up to `bytes_max`.
    bool write_some(uint32_t number, size_t bytes_max, int64_t now_ms) {
        const Connection& connection = forwarder.outlets().at(number);
        const std::string_view bytes = connection.output.front(bytes_max);
        const size_t sent = send_some(connection.socket, bytes), wanted = bytes.size();
        if (sent) forwarder.outlets().drop(number, sent, now_ms);
        return sent == wanted;
    }

    size_t buffer_bytes;
    std::unique_ptr<char[]> buffer;
    Clock::time_point next_give_back{};
};

}  // namespace tidings
