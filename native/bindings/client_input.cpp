// Input from the sockets of clients. The usual small read, plain messages that are written to their readers at once, is
// handled here; Python is called only for what is left to do. For a single message that is a tenth of the cost.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include "arrival_time.hpp"
#include "python_forwarder.hpp"
#include "structure.hpp"
#include "tidings/forwarding/arrival_waits.hpp"
#include "tidings/support/clock.hpp"

using namespace tidings;

namespace {

// Counts the reads of all connections, and the further reads of one of them that need not be reported (see
// broker/tuning/read_moderation.py).
struct Pace {
    Pace(size_t small_bytes, int64_t held_up_ms) : small_bytes(small_bytes), held_up_ms(held_up_ms) {}

    size_t small_bytes;  // less than this at a time means that the broker keeps up
    int64_t held_up_ms;  // a pause of this length may have been caused by the broker
    uint64_t reads = 0;
    int64_t connection = -1;
    uint32_t left = 0;
    nb::object on_read = nb::none();  // to be called at each read, before anything else
    ArrivalWaits waits;               // of input in all sockets whose arrivals are noted

    // True if a small read of this connection need not be reported.
    bool counts(int64_t number) {
        if (number != connection || left <= 1) return false;
        --left;
        return true;
    }
};

// Of one client.
class ClientInput {
public:
    ClientInput(nb::object forwarder, nb::object pace, nb::object rest)
        : rest(std::move(rest)),
          heard_ms(now_ms()),
          forwarder_owner_(std::move(forwarder)),
          pace_owner_(std::move(pace)),
          forwarder_(nb::cast<PyForwarder&>(forwarder_owner_)),
          pace_(nb::cast<Pace&>(pace_owner_)),
          buffer_(forwarder_.view()) {}

    // Called before each read.
    nb::object buffer(nb::handle) {
        if (socket_ >= 0 && pace_.waits.due()) sample();
        return buffer_;
    }

    // Samples of waiting times are taken from this socket; -1: from none.
    void watch_arrivals(int socket) { socket_ = socket >= 0 && note_arrivals(socket) ? socket : -1; }

    // Nothing is read for a while by the broker's choice: what waits meanwhile is no sample.
    void skip_sample() { skips_ = true; }

    // `size` bytes are in the buffer. `rest(flags, small, pause_ms)` is called with what is left to do.
    void take(size_t size) {
        if (number < 0) throw UsageError{"E_FEED", "the connection is not open"};
        ++pace_.reads;
        if (!pace_.on_read.is_none()) pace_.on_read();
        const int64_t now = now_ms(), pause_ms = now - heard_ms;
        heard_ms = now;
        const bool small = size < pace_.small_bytes;
        pace_.waits.at(now);
        const auto connection = static_cast<uint32_t>(number);
        const uint64_t received = waited_s_ < 0 ? 0 : messages();
        const unsigned flags = small ? forwarder_.serve(connection, size, now) : forwarder_.feed(connection, size, now);
        if (waited_s_ >= 0) pace_.waits.add(std::exchange(waited_s_, -1), messages() - received, now);
        const bool usual = small && !watched && pause_ms < pace_.held_up_ms;
        if (usual && (flags == 0 || (flags == Forwarder::output_flag && pace_.counts(number)))) return;
        const nb::object report = rest;  // which may close this input
        report(flags, small, pause_ms);
    }

    // The connection has ended: `rest` is not called any more.
    void close() {
        number = socket_ = -1;
        rest.reset();
    }

    nb::object rest;
    int64_t number = -1;  // the forwarder's, once it is open
    int64_t heard_ms;
    bool watched = true;  // `rest` is called at each read

private:
    uint64_t messages() const { return forwarder_.forwarder.output_queues().stats.received; }

    [[gnu::noinline]] void sample() {
        if (waited_s_ >= 0) pace_.waits.add(waited_s_, 1, heard_ms);  // of a read that went another way
        waited_s_ = waited_s(socket_);
        if (std::exchange(skips_, false)) waited_s_ = -1;
    }

    int socket_ = -1;
    bool skips_ = false;
    double waited_s_ = -1;  // the sample of the read under way
    nb::object forwarder_owner_, pace_owner_;
    PyForwarder& forwarder_;
    Pace& pace_;
    nb::object buffer_;
};

// A connection has a client input, whose `rest` is the connection's: Python must see through that, or neither would
// ever go.
int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (nb::inst_ready(self)) Py_VISIT(nb::inst_ptr<ClientInput>(self)->rest.ptr());
    return 0;
}

int clear(PyObject* self) {
    nb::inst_ptr<ClientInput>(self)->rest.reset();
    return 0;
}

PyType_Slot slots[] = {
    {Py_tp_traverse, reinterpret_cast<void*>(traverse)}, {Py_tp_clear, reinterpret_cast<void*>(clear)}, {0, nullptr}};

}  // namespace

// The upper bounds of the classes of waiting times, seconds; the last class has none.
static std::vector<double> wait_bounds() {
    std::vector<double> bounds;
    for (size_t i = 0; i + 1 < ArrivalWaits::classes; ++i)
        bounds.push_back(ArrivalWaits::shortest_bound_s * std::exp2(0.5 * static_cast<double>(i)));
    return bounds;
}

static void bind_client_input(nb::module_& m) {
    m.def("wait_bounds", &wait_bounds, nb::sig("def wait_bounds() -> list[float]"),
          "The upper bounds of the classes of waiting times, seconds; the last class has none.");
    nb::class_<Pace>(
        m, "Pace",
        "Counts the reads of all connections, and the further reads of one of them that need not be reported.")
        .def(nb::init<size_t, int64_t>(), nb::arg("small_bytes"), nb::arg("held_up_ms"))
        .def_rw("reads", &Pace::reads)
        .def_rw("connection", &Pace::connection)
        .def_rw("left", &Pace::left)
        .def_rw(
            "on_read", &Pace::on_read,
            nb::for_getter(nb::sig("def on_read(self) -> collections.abc.Callable[[], None] | None")),
            nb::for_setter(nb::arg("call").none()),
            nb::for_setter(nb::sig("def on_read(self, call: collections.abc.Callable[[], None] | None, /) -> None")))
        .def(
            "wait_counts",
            [](const Pace& self) { return std::vector<double>(self.waits.counts.begin(), self.waits.counts.end()); },
            "Messages by class of their waiting time in a socket.")
        .def_prop_ro(
            "wait_seconds", [](const Pace& self) { return self.waits.seconds; },
            "The waiting times of those messages together.")
        .def("counts", &Pace::counts, nb::arg("connection"),
             "True if a small read of this connection need not be reported.");
    nb::class_<ClientInput>(m, "ClientInput", nb::type_slots(slots), "Input from a client's socket.")
        .def(nb::init<nb::object, nb::object, nb::object>(), nb::arg("forwarder"), nb::arg("pace"), nb::arg("rest"),
             nb::sig("def __init__(self, forwarder: Forwarder, pace: Pace, rest: collections.abc.Callable[[int, bool, "
                     "int], None]) -> None"))
        .def("buffer", &ClientInput::buffer, nb::arg("sizehint"),
             nb::sig("def buffer(self, sizehint: int) -> memoryview"))
        .def("take", &ClientInput::take, nb::arg("size"))
        .def("close", &ClientInput::close)
        .def("watch_arrivals", &ClientInput::watch_arrivals, nb::arg("socket"),
             "Samples of waiting times are taken from this socket; -1: from none.")
        .def("skip_sample", &ClientInput::skip_sample, "What has waited until the next read is no sample.")
        .def_rw("number", &ClientInput::number)
        .def_rw("heard_ms", &ClientInput::heard_ms)
        .def_rw("watched", &ClientInput::watched);
}

static const tidings::Structure structure{"client_input", bind_client_input};
