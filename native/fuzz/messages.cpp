// Any bytes as one message, as frames and as messages with lengths. What decodes must encode to the same bytes, and the
// index must find for it whom the scan finds. The index reads some bytes before the end of a name or text, so the input
// stands at the very beginning of a piece of memory.
#include <cstring>
#include <memory>

#include "seeds.hpp"
#include "target.hpp"
#include "tidings/matching/linear_matcher.hpp"
#include "tidings/matching/matcher.hpp"

using namespace tidings;
using seeds::frame;

namespace {

void check_same_bytes(const MessageView& message) {
    std::string out;
    MessageWriter writer(out);
    writer.begin(message.flags, message.priority, {reinterpret_cast<const char*>(message.id), 16}, message.destination);
    for (const Attribute& one : message.attributes.first(message.wire_count)) writer.attribute(one.name, one.value);
    writer.finish(message.body);
    FUZZ_CHECK(out == message.bytes);
}

// One subscriber for each constraint, on the attributes that the seeds have.
class Subscribers {
public:
    Subscribers() {
        for (const auto& [name, value] : {std::pair<const char*, Value>{"a", Value::string("ab")},
                                          {"a", Value::string("")},
                                          {"b", Value::integer(-300)},
                                          {"c", Value::real(1.5)},
                                          {"n7", Value::integer(7)},
                                          {"JMSType", Value::string("t")}})
            for (const Op op : {Op::Eq, Op::Ne, Op::Lt, Op::Ge, Op::Exists}) add({seeds::constraint(op, name, value)});
        for (const Op op : {Op::Prefix, Op::Suffix, Op::Contains, Op::Like})
            add({seeds::constraint(op, "a", Value::string("b"))});
        add({seeds::constraint(Op::Eq, "b", Value::integer(-300)),
             seeds::constraint(Op::Eq, "d", Value::boolean(true))});
        add({seeds::constraint(Op::Eq, "b", Value::integer(-300)), seeds::constraint(Op::Gt, "c", Value::integer(1))});
        add({seeds::constraint(Op::Lt, "b", Value::integer(0)), seeds::constraint(Op::Gt, "c", Value::integer(1))});
    }

    void check_same_answers(const MessageBatch& batch) {
        index_.match(batch, found_);
        scan_.match(batch, wanted_);
        FUZZ_CHECK(std::ranges::equal(found_.offsets, wanted_.offsets));
        for (size_t i = 0; i < batch.size(); ++i) {
            const uint32_t first = found_.offsets[i], last = found_.offsets[i + 1];
            std::sort(found_.ids.begin() + first, found_.ids.begin() + last);
            std::sort(wanted_.ids.begin() + first, wanted_.ids.begin() + last);
        }
        FUZZ_CHECK(std::ranges::equal(found_.ids, wanted_.ids));
    }

private:
    void add(std::vector<std::string> constraints) {
        std::sort(constraints.begin(), constraints.end());
        std::string predicate{'\x01', static_cast<char>(constraints.size())};
        for (const std::string& one : constraints) predicate += one;
        predicate += '\0';
        index_.add(count_, predicate);
        scan_.add(count_++, predicate);
    }

    Matcher index_;
    LinearMatcher scan_;
    Matches found_, wanted_;
    uint32_t count_ = 0;
};

void check(const MessageBatch& batch, std::string_view input) {
    FUZZ_CHECK(batch.consumed() <= input.size());
    for (const Entry& entry : batch) {
        FUZZ_CHECK(entry.payload.size() == 0 || entry.payload.data() == input.data() + entry.offset);
        if (entry.status == Entry::Status::Broken) FUZZ_CHECK(entry.error.position <= entry.payload.size());
        if (entry.status == Entry::Status::Message) check_same_bytes(entry.message);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static MessageBatch batch;
    if (size == 0) return 0;
    const auto copy = std::make_unique<char[]>(size - 1);
    std::memcpy(copy.get(), data + 1, size - 1);
    const std::string_view input(copy.get(), size - 1);
    MessageBatch::Options options;
    options.derived = data[0] >> 2;
    options.payload_bytes_max = 2048;
    switch (data[0] & 3) {
        case 0: batch.decode_message(input, options); break;
        case 1: batch.decode_messages(input, options); break;
        default: options.stop_at_control = data[0] & 1; batch.decode_frames(input, options);
    }
    check(batch, input);
    static Subscribers subscribers;
    subscribers.check_same_answers(batch);
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    const std::string one = seeds::message(true), two = seeds::message(false), many = seeds::many_attributes();
    std::string prefixed;
    Writer(prefixed).fixed(static_cast<uint32_t>(one.size()));
    const std::string frames = frame(FramePublish, std::string(4, 0) + one) + frame(0x20, "hello") +
                               frame(FrameDeliver, std::string(16, 1) + two);
    return {"\x7C" + one, "\x7C" + two, "\x7C" + many, "\x7D" + prefixed + one, "\x7E" + frames, "\x7F" + frames};
}
