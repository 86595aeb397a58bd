// Events of the forwarding plane as the records of tidings.kernel.events.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <variant>

#include "python_values.hpp"
#include "tidings/forwarding/events.hpp"

namespace tidings {

// Made as tuple.__new__ makes them, without the plain tuple in between.
class EventRecords {
public:
    static nb::object of(const Event& event) {
        return std::visit([](const auto& kind) { return record(kind); }, event);
    }

private:
    static nb::object record(const ControlFrame& e) {
        return make<ControlFrame>("ControlFrame", e.connection, e.type, e.flags, e.session, to_bytes(e.payload));
    }
    static nb::object record(const Published& e) {
        return make<Published>("Published", e.connection, e.receipt, e.perhaps_sent, e.expires_ms, to_bytes(e.message),
                               e.sinks);
    }
    static nb::object record(const PublishedToRouters& e) {
        return make<PublishedToRouters>("PublishedToRouters", e.connection, e.receipt, e.perhaps_sent, e.expires_ms,
                                        to_bytes(e.message), e.sinks, e.routers);
    }
    static nb::object record(const PublishedToScheme& e) {
        return make<PublishedToScheme>("PublishedToScheme", e.connection, e.receipt, e.perhaps_sent, e.expires_ms,
                                       to_bytes(e.message), e.sinks);
    }
    static nb::object record(const Transacted& e) {
        return make<Transacted>("Transacted", e.connection, e.session, e.receipt, to_bytes(e.message));
    }
    static nb::object record(const PublishCheck& e) {
        return make<PublishCheck>("PublishCheck", e.connection, e.session, e.receipt, e.queue, to_str(e.destination));
    }
    static nb::object record(const Acknowledged& e) {
        return make<Acknowledged>("Acknowledged", e.connection, e.session, e.subscription, e.flags, e.tags);
    }
    static nb::object record(const CreditGiven& e) {
        return make<CreditGiven>("CreditGiven", e.connection, e.subscription, e.more);
    }
    static nb::object record(const FrameError& e) {
        return make<FrameError>("FrameError", e.connection, to_str(e.code), to_str(e.reason), e.position, e.receipt);
    }
    static nb::object record(const SlowConsumer& e) {
        return make<SlowConsumer>("SlowConsumer", e.connection, e.subscription);
    }
    static nb::object record(const MessagesDropped& e) {
        return make<MessagesDropped>("MessagesDropped", e.connection, e.subscription, e.dropped, to_str(e.reason));
    }
    static nb::object record(const MemoryShort& e) { return make<MemoryShort>("MemoryShort", e.connection); }
    static nb::object record(const OutputRoom& e) { return make<OutputRoom>("OutputRoom", e.connection); }
    static nb::object record(const CongestionChanged& e) {
        return make<CongestionChanged>("CongestionChanged", e.connection);
    }
    static nb::object record(const ClockDrift& e) { return make<ClockDrift>("ClockDrift", e.connection, e.sent_ms); }
    static nb::object record(const RemoteMessage& e) {
        return make<RemoteMessage>("RemoteMessage", e.connection, e.expires_ms, to_bytes(e.message), e.sinks);
    }
    static nb::object record(const Relayed& e) {
        return make<Relayed>("Relayed", e.connection, e.hops, e.tag, e.routers, e.numbers, e.origin, e.epoch,
                             e.repeated, e.expires_ms, to_bytes(e.message));
    }

    template <typename Kind, typename... Fields>
    static nb::object make(const char* name, Fields&&... fields) {
        static PyTypeObject* const type = type_of(name, sizeof...(Fields));
        nb::object made = nb::steal(type->tp_alloc(type, sizeof...(Fields)));
        if (!made.is_valid()) throw nb::python_error();
        Py_ssize_t place = 0;
        (PyTuple_SET_ITEM(made.ptr(), place++, nb::cast(std::forward<Fields>(fields)).release().ptr()), ...);
        return made;
    }

    // Kept for good.
    static PyTypeObject* type_of(const char* name, size_t fields) {
        nb::object type = nb::module_::import_("tidings.kernel.events").attr(name);
        if (nb::len(nb::handle(nb::object(type.attr("_fields")))) != fields)
            throw UsageError{"E_EVENT",
                             std::string(name) + " has other fields in the kernel: build the extension again"};
        return reinterpret_cast<PyTypeObject*>(type.release().ptr());
    }
};

}  // namespace tidings
