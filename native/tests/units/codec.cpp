// Messages, predicates, frames and headers of forwarded messages: what is written is read again, and no beginning of
// any of them passes for the whole.
#include <algorithm>
#include <set>

#include "../../fuzz/seeds.hpp"
#include "check.hpp"
#include "tidings/codec/batch.hpp"
#include "tidings/codec/forward_frame.hpp"

using namespace tidings;
using units::chance;
using units::code_of;
using units::Random;

namespace {

struct Field {
    std::string name, text;  // the text of strings, bytes and untyped texts
    Value value;

    Value whole() const {
        Value copy = value;
        copy.s = text;
        return copy;
    }
};

struct Message {
    uint8_t flags = 0, priority = 0;
    std::string id, destination, body;
    std::vector<Field> fields;

    std::string bytes() const {
        std::string out;
        MessageWriter writer(out);
        writer.begin(flags, priority, id, destination);
        for (const Field& field : fields) writer.attribute(field.name, field.whole());
        writer.finish(body);
        return out;
    }
};

std::string letters(Random& random, size_t size_max) {
    std::string text(random() % (size_max + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    return text;
}

Value random_value(Random& random) {
    switch (random() % 6) {
        case 0: return Value::boolean(random() % 2);
        case 1: return Value::integer(static_cast<int64_t>(random() >> random() % 64));
        case 2: return Value::integer(random() % 2 ? INT64_MIN : INT64_MAX);
        case 3: return Value::real(static_cast<double>(random()) / 1000 - 1e15);
        case 4: return random() % 2 ? Value::string({}) : Value::text({});
        default: return Value::bytes({});
    }
}

Message random_message(Random& random, bool with_body) {
    Message message;
    message.flags = static_cast<uint8_t>(random() % 4);
    message.priority = static_cast<uint8_t>(random() % 10);
    for (int i = 0; i < 16; ++i) message.id += static_cast<char>(random());
    message.destination = "t" + letters(random, 20) + ".x" + letters(random, 5);
    if (random() % 2) message.fields.push_back({"JMSCorrelationID", letters(random, 9), Value::string({})});
    if (random() % 2) {
        message.fields.push_back({"JMSExpiration", {}, Value::integer(1 + static_cast<int64_t>(random() >> 20))});
        message.flags |= MessageView::Expires;
    }
    // Beyond 32 names, repeated ones are looked for in another way.
    for (uint64_t i = random() % (chance(random, 10) ? 60 : 8); i > 0; --i)
        message.fields.push_back({"n" + std::to_string(i), letters(random, 200), random_value(random)});
    if (with_body) message.body = letters(random, 300);
    return message;
}

void check_same(const Message& written, const MessageView& read, const std::string& bytes) {
    CHECK(read.bytes == bytes && read.flags == written.flags && read.priority == written.priority);
    CHECK(std::equal(written.id.begin(), written.id.end(), reinterpret_cast<const char*>(read.id)));
    CHECK(read.destination == written.destination && read.body == written.body);
    CHECK(read.wire_count == written.fields.size());
    std::string again;
    MessageWriter writer(again);
    writer.begin(read.flags, read.priority, written.id, read.destination);
    for (size_t i = 0; i < read.wire_count; ++i) {
        const Attribute& attribute = read.attributes[i];
        const Value value = written.fields[i].whole();
        CHECK(attribute.name == written.fields[i].name && attribute.value.type == value.type);
        CHECK(equal(attribute.value, value) && attribute.hash == hash_value(value, hash_name(attribute.name)));
        CHECK(read.find(attribute.name, hash_name(attribute.name)) == &attribute);
        writer.attribute(attribute.name, attribute.value);
    }
    writer.finish(read.body);
    CHECK(again == bytes);
}

std::string publish_frame(const std::string& message) {
    return seeds::frame(FramePublish, std::string("\x05\0\0\0", 4) + message, 3);
}

std::string predicate() {
    const std::set<std::string> constraints = {seeds::constraint(Op::Eq, "a", Value::string("x"), true),
                                               seeds::constraint(Op::Lt, "b", Value::real(2.5)),
                                               seeds::constraint(Op::Like, "a", Value::string("%x_")),
                                               seeds::constraint(Op::Exists, "c", {}), seeds::list_constraint()};
    std::string out;
    Writer writer(out);
    writer.varint(1);
    writer.varint(constraints.size());
    for (const std::string& one : constraints) writer.bytes(one);
    writer.varint(seeds::program().size());
    writer.bytes(seeds::program());
    return out;
}

ForwardHeader random_header(Random& random) {
    ForwardHeader header;
    header.hops = static_cast<uint8_t>(random());
    header.broadcast = chance(random, 25);
    header.tagged = !header.broadcast && random() % 2;
    if (header.broadcast || header.tagged) header.origin = static_cast<uint32_t>(random());
    if (header.broadcast) return header;
    if (header.tagged) {
        header.tag = random() >> random() % 64;
        header.repeated = random() % 2;
        header.epoch = random();
    }
    // Close together they travel as bits, otherwise as a list.
    const uint64_t range = random() % 2 ? 100 : uint64_t{1} << 32;
    const uint64_t base = range == 100 ? random() % (UINT32_MAX - 100) : 0;
    std::set<uint32_t> routers;
    for (uint64_t i = random() % 80; i > 0; --i) routers.insert(static_cast<uint32_t>(base + random() % range));
    header.routers.assign(routers.begin(), routers.end());
    if (header.tagged)
        for (size_t i = 0; i < routers.size(); ++i) header.numbers.push_back(random() >> random() % 64);
    return header;
}

}  // namespace

TEST(messages_are_read_as_they_were_written) {
    Random random(5);
    MessageBatch batch;
    for (int i = 0; i < 400; ++i) {
        const Message message = random_message(random, true);
        const std::string bytes = message.bytes();
        batch.decode_message(bytes, {});
        CHECK(batch.size() == 1 && batch.broken() == 0);
        check_same(message, batch[0].message, bytes);
    }
}

TEST(no_beginning_of_a_message_is_a_message) {
    Random random(6);
    MessageBatch batch;
    for (int i = 0; i < 60; ++i) {
        const std::string bytes = random_message(random, false).bytes();  // a shorter body would be a body
        for (size_t size = 0; size < bytes.size(); ++size) {
            batch.decode_message(std::string(bytes, 0, size), {});
            CHECK(batch.broken() == 1 && std::string_view(batch[0].error.code) == "E_CODEC_TRUNCATED");
            CHECK(batch[0].error.position <= size);
        }
    }
}

TEST(frames_are_read_in_whatever_pieces_they_come) {
    Random random(7);
    MessageBatch batch;
    for (int round = 0; round < 40; ++round) {
        std::vector<Message> messages;
        std::string stream;
        for (int i = 0; i < 12; ++i) {
            messages.push_back(random_message(random, true));
            stream += publish_frame(messages.back().bytes());
        }
        size_t start = 0, end = 0, read = 0;
        while (start < stream.size()) {
            end = std::min(stream.size(), end + random() % 700);
            batch.decode_frames(std::string_view(stream).substr(start, end - start), {});
            CHECK(batch.broken() == 0 && !batch.fatal());
            for (const Entry& entry : batch) {
                CHECK(entry.type == FramePublish && entry.session == 3 && entry.receipt() == 5);
                check_same(messages[read], entry.message, messages[read].bytes());
                ++read;
            }
            start += batch.consumed();
        }
        CHECK(read == messages.size());
    }
}

TEST(a_frame_that_is_not_complete_is_waited_for) {
    MessageBatch batch;
    const std::string frame = publish_frame(seeds::message(true));
    for (size_t size = 0; size < frame.size(); ++size) {
        batch.decode_frames(std::string(frame, 0, size), {});
        CHECK(batch.size() == 0 && batch.consumed() == 0 && !batch.fatal());
    }
    batch.decode_frames(frame, {.payload_bytes_max = frame.size() - frame_header_bytes - 1});
    CHECK(batch.size() == 0 && batch.fatal() && std::string_view(batch.fatal()->code) == "E_CODEC_LIMIT");
}

TEST(predicates_are_read_as_they_were_written) {
    const std::string bytes = predicate();
    const Predicate read = read_predicate(bytes);
    CHECK(read.conjunctions.size() == 1 && read.program == seeds::program());
    size_t size = 2;
    for (const Constraint& constraint : read.conjunctions[0].constraints) {
        const bool listed = constraint.op == Op::In;
        const std::string again = listed ? seeds::list_constraint()
                                         : seeds::constraint(constraint.op, constraint.name, constraint.value,
                                                             constraint.negated);
        CHECK(constraint.bytes == again && bytes.substr(size, again.size()) == again);
        CHECK(constraint.list.size() == (listed ? 3u : 0u) &&
              (constraint.like != nullptr) == (constraint.op == Op::Like));
        size += again.size();
    }
    CHECK(read.conjunctions[0].constraints.size() == 5);
}

TEST(no_beginning_of_a_predicate_is_a_predicate) {
    const std::string bytes = predicate();
    for (size_t size = 0; size < bytes.size(); ++size)
        CHECK(code_of([&] { read_predicate(std::string(bytes, 0, size)); }) == "E_CODEC_TRUNCATED");
    CHECK(code_of([&] { read_predicate(bytes + '\0'); }) == "E_CODEC_TRAILING");
}

TEST(headers_of_forwarded_messages_are_read_as_they_were_written) {
    Random random(8);
    size_t bits = 0, lists = 0;
    for (int i = 0; i < 300; ++i) {
        const ForwardHeader header = random_header(random);
        std::string bytes;
        header.encode(bytes);
        uint32_t size;
        std::memcpy(&size, bytes.data(), 4);
        CHECK(size == bytes.size() - 4);
        bytes.erase(0, 4);
        (bytes[1] & ForwardHeader::BitSet ? bits : lists) += !header.broadcast;
        ForwardHeader read;
        read.decode(bytes);
        CHECK(read.hops == header.hops && read.tagged == header.tagged && read.tag == header.tag);
        CHECK(read.broadcast == header.broadcast && read.origin == header.origin && read.routers == header.routers);
        CHECK(read.repeated == header.repeated && read.epoch == header.epoch && read.numbers == header.numbers);
        for (size_t cut = 0; cut < bytes.size(); ++cut)
            CHECK(code_of([&] { read.decode(std::string(bytes, 0, cut)); }) != "");
        CHECK(code_of([&] { read.decode(bytes + '\0'); }) == "E_CODEC_TRAILING");
    }
    CHECK(bits > 30 && lists > 30);
    ForwardHeader read;
    for (const char flags : {3, 5, 7, 8, 9, 17, 24})
        CHECK(code_of([&] { read.decode(std::string{1, flags, 0, 0, 0, 0}); }) == "E_FORWARD_FLAGS");
}
