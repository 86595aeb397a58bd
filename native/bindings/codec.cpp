// The codec's binding: messages, batches of them, predicates and programs, between native bytes and Python.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>
#include <optional>

#include "python_batch.hpp"
#include "python_values.hpp"
#include "structure.hpp"
#include "tidings/codec/predicate.hpp"
#include "tidings/codec/program.hpp"
#include "tidings/codec/writer.hpp"

using namespace tidings;

// The parts of a message as stubs spell them: persistent, queue, priority, id, destination, header fields,
// properties, body.
#define MESSAGE_PARTS                                                                                             \
    "tuple[bool, bool, int, bytes, str, tuple[str | None, str | None, str | None, int | None, int | None, int | " \
    "None], "                                                                                                     \
    "dict[str, bool | int | float | str | bytes], bytes]"

namespace {

// ---- decoding: a message as the tuple that kernel/codec.py makes a Message of

nb::object parts(const MessageView& message) {
    nb::object headers[NoHeaderField];
    for (nb::object& header : headers) header = nb::none();
    nb::dict properties;
    for (const Attribute& attribute : message.attributes.first(message.wire_count)) {
        const HeaderField field = attribute.name[0] == 'J' ? header_field(attribute.name) : NoHeaderField;
        if (field == NoHeaderField) properties[to_str(attribute.name)] = to_python(attribute.value);
        else headers[field] = to_python(attribute.value);
    }
    return nb::make_tuple(bool(message.flags & MessageView::Persistent), bool(message.flags & MessageView::Queue),
                          message.priority, to_bytes({reinterpret_cast<const char*>(message.id), 16}),
                          to_str(message.destination),
                          nb::make_tuple(headers[0], headers[1], headers[2], headers[3], headers[4], headers[5]),
                          properties, to_bytes(message.body));
}

nb::object decode_message(nb::handle data) {
    const Buffer buffer(data);
    MessageDecoder decoder;
    MessageView message;
    std::vector<Attribute> attributes;
    TextArena texts;
    decoder.decode(buffer.view(), 0, message, attributes, texts);
    return parts(message);
}

// The fields of a control frame by name; None if they are not in order, which the caller explains.
nb::object decode_fields(nb::bytes payload) {
    constexpr uint64_t fields_max = 64;
    try {
        Reader reader(bytes_of(payload));
        nb::dict fields;
        const uint64_t count = reader.varint();
        if (count > fields_max) return nb::none();
        for (uint64_t i = 0; i < count; ++i) {
            const std::string_view name = read_name(reader);
            fields[to_str(name)] = to_python(read_value(reader));
        }
        return reader.done() ? nb::object(fields) : nb::none();
    } catch (const CodecError&) {
        return nb::none();
    }
}

// ---- encoding

// Names of properties follow tidings.model.message.check_property_name.
std::string_view property_name(nb::handle object) {
    if (!PyUnicode_Check(object.ptr())) throw UsageError{"E_MESSAGE_NAME", "a property name must be text"};
    const std::string_view name = text_of(object);
    if (name.empty() || name.size() > 255) throw UsageError{"E_NAME_LENGTH", "an attribute name has 1 to 255 bytes"};
    if (name[0] == '@' || (name.starts_with("JMS") && !name.starts_with("JMSX")))
        throw UsageError{"E_MESSAGE_NAME",
                         std::string(name) + " is reserved: a property begins neither with '@' nor with 'JMS'"};
    return name;
}

Value property_value(std::string_view name, nb::handle object) {
    try {
        return to_value(object);
    } catch (UsageError& error) {
        error.reason = std::string(name) + ": " + error.reason;
        throw;
    }
}

void write_headers(MessageWriter& writer, nb::tuple headers) {
    static constexpr std::string_view names[] = {"JMSCorrelationID", "JMSType",       "JMSReplyTo",
                                                 "JMSTimestamp",     "JMSExpiration", "JMSDeliveryTime"};
    if (headers.size() != NoHeaderField) throw UsageError{"E_MESSAGE_FIELD", "there are six header fields"};
    for (size_t i = 0; i < NoHeaderField; ++i) {
        const nb::handle header = headers[i];
        if (header.is_none()) continue;
        const Value value = property_value(names[i], header);
        if (value.type != (i < Timestamp ? Type::String : Type::Int))
            throw UsageError{"E_MESSAGE_FIELD", std::string(names[i]) + " is of another type"};
        if (i >= Timestamp && value.i < (i != Timestamp))
            throw UsageError{"E_MESSAGE_FIELD", std::string(names[i]) + " is before the first possible moment"};
        writer.attribute(names[i], value);
    }
}

void write_properties(MessageWriter& writer, nb::handle properties) {
    if (PyDict_Check(properties.ptr())) {
        PyObject *name, *value;
        for (Py_ssize_t at = 0; PyDict_Next(properties.ptr(), &at, &name, &value);) {
            const std::string_view text = property_name(name);
            writer.attribute(text, property_value(text, value));
        }
        return;
    }
    const nb::object items = nb::steal(PyMapping_Items(properties.ptr()));
    if (!items.is_valid()) throw nb::python_error();
    for (nb::handle item : nb::cast<nb::list>(items)) {
        const std::string_view text = property_name(PyTuple_GET_ITEM(item.ptr(), 0));
        writer.attribute(text, property_value(text, PyTuple_GET_ITEM(item.ptr(), 1)));
    }
}

struct Parts {
    bool persistent, queue;
    int priority;
    nb::bytes id;
    nb::str destination;
    nb::tuple headers;
    nb::object properties;
    nb::bytes body;
};

void check_name_of(std::string_view destination) {
    try {
        check_destination(destination, 0);
    } catch (const CodecError& error) {
        throw UsageError{"E_DESTINATION", error.reason, error.position};
    }
}

void write_message(std::string& out, const Parts& message) {
    const std::string_view destination = text_of(message.destination);
    check_name_of(destination);
    if (message.priority < 0 || message.priority > 9)
        throw UsageError{"E_MESSAGE_FIELD", "priority must be an integer from 0 to 9"};
    if (message.id.size() != 16) throw UsageError{"E_MESSAGE_ID_LENGTH", "a message id has 16 bytes"};
    MessageWriter writer(out);
    const auto has = [&](HeaderField field) {
        return message.headers.size() == NoHeaderField && !nb::handle(message.headers[size_t{field}]).is_none();
    };
    const int flags = message.persistent * MessageView::Persistent | message.queue * MessageView::Queue |
                      has(Expiration) * MessageView::Expires | has(DeliveryTime) * MessageView::Delayed;
    writer.begin(static_cast<uint8_t>(flags), static_cast<uint8_t>(message.priority), bytes_of(message.id),
                 destination);
    write_headers(writer, message.headers);
    write_properties(writer, message.properties);
    if (writer.count() > UINT16_MAX || writer.attribute_bytes() > UINT32_MAX)
        throw UsageError{"E_MESSAGE_PROPERTIES", "too many properties"};
    writer.finish(bytes_of(message.body));
}

nb::object encode_message(bool persistent, bool queue, int priority, nb::bytes id, nb::str destination,
                          nb::tuple headers, nb::object properties, nb::bytes body) {
    std::string out;
    write_message(out, {persistent, queue, priority, id, destination, headers, properties, body});
    return to_bytes(out);
}

nb::object encode_messages(nb::list messages) {
    std::string out;
    for (nb::handle item : messages) {
        const nb::tuple one = nb::cast<nb::tuple>(item);
        if (one.size() != 8) throw UsageError{"E_MESSAGE_FIELD", "a message has eight parts"};
        const size_t start = out.size();
        out.append(4, 0);
        write_message(out, {nb::cast<bool>(one[0]), nb::cast<bool>(one[1]), nb::cast<int>(one[2]),
                            nb::cast<nb::bytes>(one[3]), nb::cast<nb::str>(one[4]), nb::cast<nb::tuple>(one[5]),
                            nb::object(one[6]), nb::cast<nb::bytes>(one[7])});
        if (out.size() - start - 4 > UINT32_MAX) throw UsageError{"E_MESSAGE_FIELD", "a message is longer than 4 GiB"};
        const auto size = static_cast<uint32_t>(out.size() - start - 4);
        std::memcpy(out.data() + start, &size, sizeof size);
    }
    return to_bytes(out);
}

// ---- batches

std::unique_ptr<PyBatch> batch_from_frames(nb::object data, size_t payload_bytes_max, bool stop_at_control,
                                           unsigned derived) {
    const MessageBatch::Options options{static_cast<uint8_t>(derived & DerivedAll), payload_bytes_max, stop_at_control};
    return std::make_unique<PyBatch>(data, PyBatch::Form::Frames, options);
}

std::unique_ptr<PyBatch> batch_from_messages(nb::object data, size_t message_bytes_max, unsigned derived) {
    const MessageBatch::Options options{static_cast<uint8_t>(derived & DerivedAll), message_bytes_max, false};
    return std::make_unique<PyBatch>(data, PyBatch::Form::Messages, options);
}

std::unique_ptr<PyBatch> batch_from_column(nb::object data,
                                           nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> ends,
                                           size_t message_bytes_max, unsigned derived) {
    const MessageBatch::Options options{static_cast<uint8_t>(derived & DerivedAll), message_bytes_max, false};
    return std::make_unique<PyBatch>(data, std::span(ends.data(), ends.size()), options);
}

nb::object error_parts(const CodecError& error) { return nb::make_tuple(error.code, error.reason, error.position); }

nb::object entry_error(const PyBatch& batch, Py_ssize_t i) {
    const Entry& entry = batch.entry(i);
    return entry.status == Entry::Status::Broken ? error_parts(entry.error) : nb::object(nb::none());
}

nb::object fatal_error(const PyBatch& batch) {
    const std::optional<CodecError>& fatal = batch.batch().fatal();
    return fatal ? error_parts(*fatal) : nb::object(nb::none());
}

nb::object frame(const PyBatch& batch, Py_ssize_t i) {
    const Entry& entry = batch.entry(i);
    return nb::make_tuple(entry.type, entry.frame_flags, entry.session, to_bytes(entry.prefix));
}

nb::dict attributes(const PyBatch& batch, Py_ssize_t i) {
    nb::dict all;
    const MessageView& message = batch.message(i);
    for (size_t at = 0; at < message.attributes.size(); ++at)
        if (!message.is_reading(at)) all[to_str(message.attributes[at].name)] = to_python(message.attributes[at].value);
    return all;
}

void bind_batch(nb::module_& m) {
    nb::class_<PyBatch>(m, "MessageBatch", "The bytes of one socket read, decoded in one call.")
        .def_static("from_frames", &batch_from_frames, nb::arg("data"), nb::arg("payload_bytes_max") = 1 << 20,
                    nb::arg("stop_at_control") = false, nb::arg("derived") = unsigned{DerivedAll})
        .def_static("from_messages", &batch_from_messages, nb::arg("data"), nb::arg("message_bytes_max") = 1 << 20,
                    nb::arg("derived") = unsigned{DerivedAll}, "Messages, each after its length as u32.")
        .def_static("from_column", &batch_from_column, nb::arg("data"), nb::arg("ends"),
                    nb::arg("message_bytes_max") = 1 << 20, nb::arg("derived") = unsigned{DerivedAll},
                    "Messages one after the other, the i-th ends at ends[i].")
        .def("__len__", [](const PyBatch& self) { return self.batch().size(); })
        .def_prop_ro(
            "broken", [](const PyBatch& self) { return self.batch().broken(); }, "Number of broken entries.")
        .def_prop_ro("consumed", [](const PyBatch& self) { return self.batch().consumed(); })
        .def_prop_ro("fatal", &fatal_error, nb::sig("def fatal(self) -> tuple[str, str, int] | None"),
                     "Why decoding stopped: code, reason, position in the buffer.")
        .def("error", &entry_error, nb::arg("i"), nb::sig("def error(self, i: int) -> tuple[str, str, int] | None"),
             "Code, reason and position in the message if entry i is broken.")
        .def(
            "is_message",
            [](const PyBatch& self, Py_ssize_t i) { return self.entry(i).status == Entry::Status::Message; },
            nb::arg("i"))
        .def(
            "offset", [](const PyBatch& self, Py_ssize_t i) { return self.entry(i).offset; }, nb::arg("i"))
        .def(
            "payload", [](const PyBatch& self, Py_ssize_t i) { return to_bytes(self.entry(i).payload); }, nb::arg("i"),
            nb::sig("def payload(self, i: int) -> bytes"))
        .def("frame", &frame, nb::arg("i"), nb::sig("def frame(self, i: int) -> tuple[int, int, int, bytes]"),
             "The frame's type, flags and session, and what stands before the message.")
        .def(
            "message", [](const PyBatch& self, Py_ssize_t i) { return parts(self.message(i)); }, nb::arg("i"),
            nb::sig("def message(self, i: int) -> " MESSAGE_PARTS))
        .def("attributes", &attributes, nb::arg("i"),
             nb::sig("def attributes(self, i: int) -> dict[str, bool | int | float | str | bytes]"));
}

// ---- predicates and programs

bool holds_constraint(nb::handle constraint, nb::handle value) {
    const Buffer buffer(constraint);
    Reader reader(buffer.view());
    const Constraint parsed = detail::read_constraint(reader);
    if (!reader.done()) refuse("E_CODEC_TRAILING", "bytes after the constraint", reader.position());
    if (value.is_none()) return holds(parsed, static_cast<const Value*>(nullptr));
    return holds(parsed, to_value(value));
}

class PyProgram {
public:
    explicit PyProgram(nb::handle bytes) : buffer_(bytes), program_(buffer_.view()) {}

    // One byte an entry: 0 false, 1 true, 2 unknown, 3 no message.
    nb::object evaluate(const PyBatch& batch) const {
        std::string results;
        {
            nb::gil_scoped_release release;
            for (const Entry& entry : batch.batch())
                results.push_back(
                    entry.status == Entry::Status::Message ? static_cast<char>(program_.evaluate(entry.message)) : 3);
        }
        return to_bytes(results);
    }

    // Of one message. The budget may be shared with other programs; exhausted, the answer is unknown.
    std::optional<bool> evaluate_one(const PyBatch& batch, Py_ssize_t i, Budget& budget) const {
        AttributeFinder attributes;
        attributes.set(batch.message(i));
        budget.begin_filter();
        const Truth truth = program_.evaluate(attributes, budget);
        return truth == Truth::Unknown ? std::nullopt : std::optional(truth == Truth::True);
    }

private:
    Buffer buffer_;
    Program program_;
};

}  // namespace

static void bind_codec(nb::module_& m) {
    m.def("decode_message", &decode_message, nb::arg("data"),
          nb::sig("def decode_message(data: object) -> " MESSAGE_PARTS));
    m.def("decode_fields", &decode_fields, nb::arg("payload"),
          nb::sig("def decode_fields(payload: bytes) -> dict[str, bool | int | float | str | bytes] | None"),
          "The fields of a control frame; None: they are not in order.");
    m.def("encode_message", &encode_message, nb::arg("persistent"), nb::arg("queue"), nb::arg("priority"),
          nb::arg("id"), nb::arg("destination"), nb::arg("headers"), nb::arg("properties"), nb::arg("body"),
          nb::sig(
              "def encode_message(persistent: bool, queue: bool, priority: int, id: bytes, destination: str, headers: "
              "tuple[str | None, str | None, str | None, int | None, int | None, int | None], properties: object, "
              "body: bytes) -> "
              "bytes"));
    m.def("encode_messages", &encode_messages, nb::arg("messages"),
          nb::sig("def encode_messages(messages: list[" MESSAGE_PARTS "]) -> bytes"),
          "Each message after its length as u32.");
    bind_batch(m);
    m.def(
        "predicate_check",
        [](nb::object blob) {
            const Buffer buffer(blob);
            read_predicate(buffer.view());
        },
        nb::arg("blob"), "Raises CodecError unless the blob is a valid predicate; its program is judged by Program.");
    m.def("holds", &holds_constraint, nb::arg("constraint"), nb::arg("value").none(),
          "True if an encoded constraint holds for a value (None: the attribute is missing).");
    nb::class_<Budget>(m, "Budget", "The work that may be done for one message, in steps of about a nanosecond.")
        .def(nb::init<uint64_t>(), nb::arg("steps") = Budget::message_steps)
        .def_prop_ro("exhausted", &Budget::exhausted, "True if the last filter was given up.")
        .def_prop_ro("taken", &Budget::taken, "Steps taken since it was made.");
    m.attr("MESSAGE_STEPS") = Budget::message_steps;
    m.attr("FILTER_STEPS") = Budget::filter_steps;
    m.def(
        "like",
        [](nb::str pattern, nb::str text, Budget& budget) {
            return Like(text_of(pattern)).matches(text_of(text), budget);
        },
        nb::arg("pattern"), nb::arg("text"), nb::arg("budget"),
        "True if a text matches a LIKE pattern; no answer if the budget is exhausted.");
    nb::class_<PyProgram>(m, "Program", "A selector in postfix form, checked once, evaluated over batches.")
        .def(nb::init<nb::handle>(), nb::arg("program"))
        .def("evaluate", &PyProgram::evaluate, nb::arg("batch"),
             nb::sig("def evaluate(self, batch: MessageBatch) -> bytes"),
             "One byte an entry: 0 false, 1 true, 2 unknown, 3 no message.")
        .def("evaluate_one", &PyProgram::evaluate_one, nb::arg("batch"), nb::arg("i"), nb::arg("budget"),
             "The truth of entry i; None: unknown, or the budget is exhausted.");
}

static const tidings::Structure structure{"codec", bind_codec};
