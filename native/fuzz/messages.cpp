// Any bytes as one message, as frames and as messages with lengths. What decodes must encode to the same bytes.
#include "seeds.hpp"
#include "target.hpp"
#include "tidings/batch.hpp"

using namespace tidings;

namespace {

void check_same_bytes(const MessageView& message) {
    std::string out;
    MessageWriter writer(out);
    writer.begin(message.flags, message.priority, {reinterpret_cast<const char*>(message.id), 16}, message.destination);
    for (const Attribute& one : message.attributes.first(message.wire_count)) writer.attribute(one.name, one.value);
    writer.finish(message.body);
    FUZZ_CHECK(out == message.bytes);
}

void check(const MessageBatch& batch, std::string_view input) {
    FUZZ_CHECK(batch.consumed() <= input.size());
    for (const Entry& entry : batch) {
        FUZZ_CHECK(entry.payload.size() == 0 || entry.payload.data() == input.data() + entry.offset);
        if (entry.status == Entry::Status::Broken) FUZZ_CHECK(entry.error.position <= entry.payload.size());
        if (entry.status == Entry::Status::Message) check_same_bytes(entry.message);
    }
}

std::string frame(uint8_t type, std::string_view payload) {
    std::string out;
    Writer writer(out);
    writer.fixed(static_cast<uint32_t>(payload.size()));
    writer.u8(type);
    writer.u8(0);
    writer.fixed<uint16_t>(1);
    writer.bytes(payload);
    return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static MessageBatch batch;
    if (size == 0) return 0;
    const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
    MessageBatch::Options options;
    options.derived = data[0] >> 2;
    options.payload_bytes_max = 2048;
    switch (data[0] & 3) {
        case 0: batch.decode_message(input, options); break;
        case 1: batch.decode_messages(input, options); break;
        default:
            options.stop_at_control = data[0] & 1;
            batch.decode_frames(input, options);
    }
    check(batch, input);
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    const std::string one = seeds::message(true), two = seeds::message(false), many = seeds::many_attributes();
    std::string prefixed;
    Writer(prefixed).fixed(static_cast<uint32_t>(one.size()));
    const std::string frames = frame(frame_publish, std::string(4, 0) + one) + frame(0x20, "hello") + frame(frame_deliver, std::string(16, 1) + two);
    return {"\x7C" + one, "\x7C" + two, "\x7C" + many, "\x7D" + prefixed + one, "\x7E" + frames, "\x7F" + frames};
}
