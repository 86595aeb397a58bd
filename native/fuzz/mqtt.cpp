// Any bytes as what an MQTT client and a broker say, cut anywhere. What is published is a message; what is sent is whole
// packets; a plain publication that comes back from the broker leaves as the packet that it came in.
#include "target.hpp"
#include "tidings/codec/batch.hpp"
#include "tidings/mqtt/publications.hpp"

using namespace tidings;

namespace {

constexpr int64_t now_ms = 1'700'000'000'000;
constexpr uint32_t subscriptions = 3;  // each with its number as its QoS, the last with QoS 1

struct Run {
    bool v5;
    MqttPublications path;
    size_t asked = 0, answered = 0;

    static MqttLimits limits(uint8_t choice) {
        MqttLimits limits;
        limits.packet_bytes_max = 4096;
        limits.unanswered_max = choice & 2 ? 2 : 100;
        limits.in_flight_max = choice & 4 ? 2 : 100;
        limits.outgoing_packet_bytes_max = choice & 8 ? 40 : 0;
        limits.aliases_max = choice & 16 ? 1 : 0;
        limits.credit_step = 2;
        return limits;
    }

    explicit Run(uint8_t choice) : v5(choice & 1), path(7, 1, v5, limits(choice)) {
        path.in_flight().persistent = choice & 32;
        for (uint32_t number = 0; number < subscriptions; ++number)
            path.set_subscription(number, {static_cast<uint8_t>(std::min(number, 1u)), choice & 64 ? 200u : 0,
                                           (choice & 128) != 0, number > 0, true});
    }

    // Native frames for the broker; the receipts that PUBLISH frames ask for are added, and messages kept.
    void check_frames(std::string& receipts, std::vector<std::string>& messages) {
        const std::string frames = path.take_frames();
        MessageBatch batch;
        batch.decode_frames(frames, {.payload_bytes_max = SIZE_MAX});
        FUZZ_CHECK(batch.consumed() == frames.size());
        for (const Entry& entry : batch) {
            if (entry.type == FramePublish) {
                FUZZ_CHECK(entry.status == Entry::Status::Message);
                const bool persistent = entry.message.flags & MessageView::Persistent;
                FUZZ_CHECK(persistent == (entry.receipt() >= MqttUnanswered::first_number));
                if (persistent) receipts.append(entry.prefix.substr(0, 4)), ++asked;
                messages.emplace_back(entry.payload);
            } else if (entry.type == FrameCredit) {
                FUZZ_CHECK(entry.payload.size() == 8);
            } else {
                FUZZ_CHECK(decode_ack(0, entry));
            }
        }
    }

    void check_output() {
        const std::string output = path.take_output();
        std::string_view rest = output;
        while (!rest.empty()) {
            const auto packet = first_mqtt_packet(rest);
            FUZZ_CHECK(packet);
            if (packet->first >> 4 == MqttPuback) ++answered;
            else FUZZ_CHECK(packet->first >> 4 == MqttPublish);
            rest.remove_prefix(packet->bytes);
        }
        FUZZ_CHECK(answered <= asked);
    }

    void take(std::string_view data) {
        FUZZ_CHECK(path.take(data, now_ms) <= data.size());
        std::string receipts(4, '\0');
        std::vector<std::string> messages;
        check_frames(receipts, messages);
        for (const std::string& one : messages) deliver(one, 0), check_same(one);
        const auto count = static_cast<uint32_t>(receipts.size() / 4 - 1);
        std::memcpy(receipts.data(), &count, 4);
        std::string frame(frame_header_bytes, '\0');
        write_frame_header(frame.data(), static_cast<uint32_t>(receipts.size()), FrameReceipts);
        give(frame + receipts);
        FUZZ_CHECK(answered == asked);
        FUZZ_CHECK(path.unanswered().size() == 0);
    }

    void give(std::string_view data) {
        FUZZ_CHECK(path.give(data, now_ms) <= data.size());
        check_output();
        std::string receipts;
        std::vector<std::string> messages;
        check_frames(receipts, messages);
        FUZZ_CHECK(messages.empty());
    }

    void deliver(std::string_view message, uint64_t tag) {
        for (uint32_t number = 0; number < subscriptions; ++number) {
            std::string frame(delivery_bytes(message), '\0');
            write_delivery(frame.data(), number, 1 + message.size() % 2, tag, message);
            give(frame);
        }
    }

    // A message that was published here says the same as a packet, and that packet the same as a message.
    void check_same(std::string_view message) const {
        MqttMessageWriter writer;
        FUZZ_CHECK(writer.read(message, v5, now_ms));
        std::string content;
        const auto text = [&](std::string_view one) {
            content.push_back(static_cast<char>(one.size() >> 8));
            content.push_back(static_cast<char>(one.size()));
            content.append(one);
        };
        text(writer.topic());
        if (writer.qos()) content.append("\0\1", 2);
        if (v5) {
            char raw[4];
            content.append(raw, write_mqtt_variable(raw, writer.properties().size())).append(writer.properties());
        }
        content.append(writer.body());
        const auto flags = static_cast<uint8_t>(writer.qos() << mqtt_qos_shift | (writer.retained() ? mqtt_retain : 0));
        MqttMessageReader reader;
        std::string again;
        FUZZ_CHECK(reader.read(content, flags, v5, id_time_ms(id_of(message)), again));
        FUZZ_CHECK(again.substr(20) == message.substr(20));
    }
};

// A message that the broker delivers; only whole ones come from there.
void give_message(Run& run, std::string_view bytes) {
    MessageBatch batch;
    batch.decode_message(bytes, {});
    if (batch[0].status == Entry::Status::Message) run.deliver(bytes, bytes.size() % 3);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    Run run(data[0]);
    const std::string_view all(reinterpret_cast<const char*>(data) + 2, size - 2);
    if (data[1] % 2) {
        give_message(run, all);
    } else {
        const size_t half = all.size() * data[1] / 512;
        run.take(all.substr(0, half));
        run.take(all.substr(half));
        run.take(all);
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    using namespace std::string_literals;
    const auto packet = [](char first, const std::string& content) {
        return std::string{first, static_cast<char>(content.size())} + content;
    };
    const std::string topic = "\0\x07ticks/x"s, bare = packet('\x30', topic + "body"),
                      sure = packet('\x32', topic + "\0\1"s + "body"), ack = packet('\x40', "\0\1"s),
                      retained = packet('\x31', topic);
    const std::string properties =
        "\x26\0\x05price\0\x02\x31\x32"s
        "\x01\x01"s
        "\x02\0\0\0\x3c"s
        "\x03\0\x01t"s
        "\x08\0\x03r/s"s
        "\x09\0\x01\x63"s
        "\x23\0\1"s;
    const std::string length(1, static_cast<char>(properties.size()));
    const std::string rich = packet('\x30', topic + length + properties + "body"),
                      sure5 = packet('\x32', topic + "\0\1\0"s + "body"),
                      alias = packet('\x33', "\0\0\0\2\3\x23\0\1"s + "body"), ack5 = packet('\x40', "\0\1\x10\0"s);
    std::string message;
    MessageWriter writer(message);
    writer.begin(MessageView::Persistent | MessageView::Expires, 7, std::string(16, '\2'), "orders.eu");
    writer.attribute("JMSCorrelationID", Value::string("c"));
    writer.attribute("JMSType", Value::string("t"));
    writer.attribute("JMSReplyTo", Value::string("topic:r.s"));
    writer.attribute("JMSExpiration", Value::integer(now_ms + 5));
    writer.attribute("n", Value::text("12"));
    writer.attribute("b", Value::boolean(true));
    writer.attribute(mqtt_qos, Value::integer(1));
    writer.attribute(mqtt_retained, Value::boolean(true));
    writer.attribute(mqtt_content_type, Value::string("text"));
    writer.finish("body");
    std::vector<std::string> all;
    for (const int choice : {0, 1, 2, 4, 8, 16, 32, 64, 128, 255}) {
        const auto number = static_cast<char>(choice);
        all.push_back(std::string{number, 1} + message);
        all.push_back(std::string{number, 100} + bare + sure + ack + retained + sure);
        all.push_back(std::string{number, 100} + rich + sure5 + alias + ack5 + rich);
    }
    return all;
}
