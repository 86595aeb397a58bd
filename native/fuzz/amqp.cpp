// Any bytes as what an AMQP client and a broker say, cut anywhere. What is published is a message; what is sent is whole
// frames; a message that was read as a plain one is written with the sections it came in, and read the same again.
#include "target.hpp"
#include "tidings/amqp/transfers.hpp"
#include "tidings/codec/batch.hpp"

using namespace tidings;

namespace {

constexpr int64_t now_ms = 1'700'000'000'000;

// Native frames for the broker; the receipts that PUBLISH frames ask for are added.
void check_frames(const std::string& frames, std::string& receipts) {
    MessageBatch batch;
    batch.decode_frames(frames, {.payload_bytes_max = SIZE_MAX});
    FUZZ_CHECK(batch.consumed() == frames.size());
    for (const Entry& entry : batch) {
        if (entry.type == FramePublish) {
            FUZZ_CHECK(entry.status == Entry::Status::Message);
            FUZZ_CHECK(entry.receipt() >= AmqpTransfers::first_receipt);
            receipts.append(entry.prefix.substr(0, 4));
        } else {
            FUZZ_CHECK(decode_ack(0, entry));
        }
    }
}

void check_output(std::string_view output) {
    while (!output.empty()) {
        FUZZ_CHECK(output.size() >= 8);
        const size_t size = load_big<uint32_t>(output.data());
        FUZZ_CHECK(size >= 8 && size <= output.size());
        AmqpCursor cursor(output.substr(8, size - 8));
        const uint8_t performative = cursor.descriptor();
        FUZZ_CHECK(performative >= 0x13 && performative <= 0x15);
        FUZZ_CHECK(cursor.next().kind == AmqpKind::List);
        output.remove_prefix(size);
    }
}

void check_message(std::string_view content) {
    static AmqpMessageReader reader;
    static AmqpMessageWriter writer;
    std::string message, again;
    const auto form = reader.read(content, "a.b", true, now_ms, message);
    if (!form) return;
    store_big(message.data() + 4, static_cast<uint32_t>(*form) << amqp_form_shift | 7);
    MessageBatch batch;
    batch.decode_message(message, {});
    FUZZ_CHECK(batch[0].status == Entry::Status::Message);
    Scratch out;
    const bool expires = batch[0].message.flags & MessageView::Expires;
    if (!writer.write(message, 1, now_ms, false, out)) {
        FUZZ_CHECK(expires);  // with sections that are kept: Python writes it
        return;
    }
    FUZZ_CHECK(reader.read(out, "a.b", true, now_ms, again) == form);
    store_big(again.data() + 4, static_cast<uint32_t>(*form) << amqp_form_shift | 7);
    if (!expires) FUZZ_CHECK(message == again);
    AmqpMessageReader fresh_reader;
    AmqpMessageWriter fresh_writer;
    std::string fresh;
    FUZZ_CHECK(fresh_reader.read(content, "a.b", true, now_ms, fresh) == form);
    FUZZ_CHECK(fresh.substr(20) == message.substr(20));
    Scratch fresh_out;
    FUZZ_CHECK(fresh_writer.write(message, 1, now_ms, false, fresh_out));
    FUZZ_CHECK(std::string_view(fresh_out) == std::string_view(out));
}

struct Run {
    AmqpTransfers transfers{7, 1, 4096};
    std::shared_ptr<AmqpSessionCounters> session = std::make_shared<AmqpSessionCounters>();
    std::shared_ptr<AmqpLinkCounters> out = std::make_shared<AmqpLinkCounters>(),
                                      in = std::make_shared<AmqpLinkCounters>();

    explicit Run(uint8_t choice) {
        transfers.frame_bytes_max = 4096;
        transfers.remote_frame_bytes_max = choice & 1 ? 512 : 4096;
        session->remote_incoming_window = choice & 2 ? 3 : 1000;
        session->next_delivery_id = choice & 4 ? UINT32_MAX - 1 : 0;
        out->destination = "a";
        out->credit = choice & 8 ? 2 : 500;
        out->hot = in->hot = true;
        in->subscription = 1;
        in->credit = choice & 16 ? 1 : 100;
        in->says_destination = choice & 32;
        in->presettled = choice & 64;
        transfers.add_session(0, session);
        transfers.add_link(0, 0, 0, out);
        transfers.add_link(0, 1, 1, in);
    }

    void take(std::string_view data) {
        const size_t used = transfers.take(data, now_ms);
        FUZZ_CHECK(used <= data.size());
        std::string receipts(4, '\0');
        check_frames(transfers.take_frames(), receipts);
        const auto count = static_cast<uint32_t>(receipts.size() / 4 - 1);
        std::memcpy(receipts.data(), &count, 4);
        std::string frame(frame_header_bytes, '\0');
        write_frame_header(frame.data(), static_cast<uint32_t>(receipts.size()), FrameReceipts);
        give(frame + receipts);
    }

    void give(std::string_view data) {
        const size_t used = transfers.give(data, now_ms);
        FUZZ_CHECK(used <= data.size());
        check_output(transfers.take_output());
        transfers.take_touched();
        in->touched = false;
        FUZZ_CHECK(out->under_way >= 0 && out->credit >= 0 && in->credit >= 0);
    }
};

// A message that the broker delivers; only whole ones come from there.
void give_message(Run& run, std::string_view bytes) {
    MessageBatch batch;
    batch.decode_message(bytes, {});
    if (batch[0].status != Entry::Status::Message) return;
    std::string frame(delivery_bytes(bytes), '\0');
    write_delivery(frame.data(), 1, 1 + bytes.size() % 2, bytes.size() % 3, bytes);
    run.give(frame);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    Run run(data[0]);
    const std::string_view all(reinterpret_cast<const char*>(data) + 2, size - 2);
    switch (data[1] % 4) {
        case 0: check_message(all); break;
        case 1: give_message(run, all); break;
        default: {
            // A message first, so that there is something to settle.
            std::string message;
            MessageWriter writer(message);
            writer.begin(0, 4, std::string(16, '\1'), "a");
            writer.finish("body");
            for (int i = 0; i < 3; ++i) give_message(run, message + std::string(static_cast<size_t>(i), 'x'));
            run.take(all);
        }
    }
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    using namespace std::string_literals;
    const std::string plain =
        "\0\x53\x70\xc0\x07\x05\x41\x50\x04\x40\x41\x43"s
        "\0\x53\x73\xc0\x1b\x06\xa1\x02id\xa0\x01u\x40\xa1\x01s\xa1\x09queue://r\xa1\x01\x63"s
        "\0\x53\x74\xc1\x15\x06\xa1\x01n\x55\x07\xa1\x01s\xa1\x01x\xa1\x01\x64\x82\0\0\0\0\0\0\0\0"s
        "\0\x53\x77\xa1\x04text"s;
    const std::string data = "\0\x53\x75\xa0\x03\0\1\2"s, binary = "\0\x53\x77\xa0\x02\xff\0"s;
    const auto framed = [](std::string body) {
        std::string frame(8, '\0');
        store_big(frame.data(), static_cast<uint32_t>(8 + body.size()));
        frame[4] = 2;
        return frame + body;
    };
    const std::string transfers =
        framed("\0\x53\x14\xc0\x0b\x06\x43\x43\xa0\x01t\x43\x41\x42\0\0"s.substr(0, 14) + plain) +
        framed("\0\x53\x14\xc0\x09\x05\x43\x52\x01\xa0\x01t\x43\x42"s + data);
    const std::string settled = framed("\0\x53\x15\xc0\x0a\x05\x41\x43\x52\x02\x41\0\x53\x24\x45"s),
                      flow = framed("\0\x53\x13\xc0\x0c\x07\x43\x52\x09\x43\x52\x09\x52\x01\x43\x52\x09"s);
    std::string message;
    MessageWriter writer(message);
    writer.begin(MessageView::Queue | MessageView::Expires, 7, std::string(16, '\2'), "orders.eu");
    writer.attribute("JMSCorrelationID", Value::string("ID:AMQP_ULONG:7"));
    writer.attribute("JMSReplyTo", Value::string("topic:r"));
    writer.attribute("JMSExpiration", Value::integer(now_ms + 5));
    writer.attribute("n", Value::text("12"));
    writer.attribute("JMSXGroupID", Value::string("g"));
    writer.attribute("JMSXGroupSeq", Value::text("12"));
    writer.finish("body");
    std::vector<std::string> all;
    for (const char choice : {0, 1, 2, 4, 8, 16, 32, 64}) {
        for (const std::string& content : {plain, data, binary}) all.push_back(std::string{choice, 0} + content);
        all.push_back(std::string{choice, 1} + message);
        all.push_back(std::string{choice, 2} + transfers + settled + flow + transfers);
    }
    return all;
}
