// Any bytes as what STOMP clients of every version send, cut anywhere. What becomes a message must decode, and what is
// delivered of it must be frames again; when all connections are closed, nothing is held. A frame that is filled in
// from a template becomes the same as one that is taken to pieces.
#include "seeds.hpp"
#include "target.hpp"
#include "tidings/forwarding/forwarder.hpp"

using namespace tidings;
using seeds::everything;

namespace {

Forwarder& shared() {
    static Forwarder forwarder(
        {.output_bytes_max = 2000, .memory_bytes_max = 20000, .login_frame_bytes_max = 300, .stall_ms = 3});
    return forwarder;
}

void check_output(std::string_view output) {
    StompFramer framer;
    StompFrame frame;
    while (!output.empty()) {
        size_t searched = 0;
        FUZZ_CHECK(framer.next(output, SIZE_MAX, searched, frame));
        FUZZ_CHECK(frame.command == "MESSAGE" || frame.command == "RECEIPT");
        FUZZ_CHECK(frame.start == 0);
        output.remove_prefix(frame.size);
    }
}

// The result of a frame, but for the id and the number of its receipt; and the receipt's name.
std::pair<std::string, std::optional<std::string>> made(const Scratch& out, StompState& state) {
    std::string bytes{std::string_view(out)};
    uint32_t receipt;
    std::memcpy(&receipt, bytes.data() + frame_header_bytes, 4);
    bytes.replace(frame_header_bytes, 4, "").replace(frame_header_bytes + 4, 16, "");
    const std::optional<std::string_view> name = state.receipts.take(receipt);
    return {bytes, name ? std::optional(std::string(*name)) : std::nullopt};
}

void check_templates(std::string_view data, StompVersion version) {
    static constexpr size_t bytes_max = 2048;
    static StompFramer framer;
    static StompFrame frame;
    static StompSender sender, other;
    static Scratch again, fresh;
    StompState state;
    state.version = version;
    bool filled = false;
    try {
        for (size_t searched = 0; framer.next(data, bytes_max, searched, frame);
             data.remove_prefix(frame.size), filled = false) {
            if (frame.command != "SEND") continue;
            again.clear(), fresh.clear();
            if (const size_t bytes = sender.write_again(data, bytes_max, state, 1000, again)) {
                filled = true;
                StompState first;
                first.version = version;
                other.write(frame, first, 1000, fresh);
                FUZZ_CHECK(bytes == frame.size);
                FUZZ_CHECK(made(again, state) == made(fresh, first));
            } else {
                sender.write(frame, state, 1000, fresh);
            }
        }
    } catch (const CodecError&) {
        FUZZ_CHECK(!filled);
    }
}

struct Run {
    Forwarder& forwarder = shared();
    OutputQueues& out = forwarder.output_queues();
    uint32_t sender = out.open(), receiver = out.open(), direct, mailbox;

    explicit Run(uint8_t choice) {
        for (const uint32_t number : {sender, receiver}) {
            forwarder.speak_stomp(number);
            forwarder.log_in(number, 2048, choice & 128);
        }
        forwarder.stomp(sender).version = static_cast<StompVersion>(choice % 3);
        forwarder.stomp(receiver).version = static_cast<StompVersion>(choice / 3 % 3);
        forwarder.stomp(sender).temporary = "tmp.1.";
        forwarder.stomp(sender).transactions = {{"t", 3}};
        forwarder.stomp(sender).labels = {{1, {"MESSAGE\nsubscription:a\n", StompState::Acks::Each}},
                                          {2, {"MESSAGE\n", StompState::Acks::Cumulative}}};
        std::vector<StompTypes::Rule> rules;
        if (choice & 64) rules = {{"a.>", false, "n", StompType::Int}, {"a.>", false, "x", StompType::Float}};
        forwarder.stomp_types().set(rules);
        direct = forwarder.subscribe(receiver, 1, everything, 0, Policy::DropOldest, 4000, false);
        mailbox = forwarder.mailbox(everything);
    }

    static void check_message(const std::string& message) {
        MessageBatch batch;
        batch.decode_message(message, {});
        FUZZ_CHECK(batch[0].status == Entry::Status::Message);
    }

    void answer() {
        for (const Event& event : out.take_events()) {
            if (const auto* published = std::get_if<Published>(&event)) {
                check_message(published->message);
                out.deliver(receiver, 1, 2, 77, published->message);
                forwarder.stomp(sender).receipts.take(published->receipt);
            } else if (const auto* transacted = std::get_if<Transacted>(&event)) {
                check_message(transacted->message);
                forwarder.stomp(sender).receipts.take(transacted->receipt);
            } else if (const auto* error = std::get_if<FrameError>(&event)) {
                forwarder.stomp(sender).receipts.take(error->receipt);
            } else if (const auto* acks = std::get_if<Acknowledged>(&event)) {
                FUZZ_CHECK(acks->subscription <= 2 && !acks->tags.empty() && acks->tags[0] > 0);
            } else if (const auto* check = std::get_if<PublishCheck>(&event)) {
                forwarder.allow(sender, (check->queue ? "queue:" : "topic:") + check->destination);
                forwarder.handled(sender, 1000);
            } else if (std::holds_alternative<ControlFrame>(event)) {
                forwarder.handled(sender, 1000);
            }
        }
        for (const uint32_t number : {sender, receiver}) {
            check_output(out.front(number, SIZE_MAX));
            out.drop(number, out.front(number, SIZE_MAX).size(), 1000);
        }
        for (const uint32_t number : out.take_resumable()) forwarder.resume(number, 1000);
        out.take_dirty();
    }

    // All that is known of a receipt has been asked for.
    void finish() {
        for (int i = 0; i < 4000 && (!out.events.empty() || out.has_resumable()); ++i) answer();
        answer();
        if (!out.at(sender).broken) FUZZ_CHECK(forwarder.stomp(sender).receipts.empty());
        forwarder.unsubscribe(direct);
        forwarder.unsubscribe(mailbox);
        out.close(sender);
        out.close(receiver);
        out.take_events();
        out.take_resumable();
        out.take_dirty();
        FUZZ_CHECK(out.held_bytes() == 0);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    if (data[1] % 4 == 0)
        check_templates({reinterpret_cast<const char*>(data) + 2, size - 2}, static_cast<StompVersion>(data[0] % 3));
    Run run(data[0]);
    const size_t piece = data[1] + size_t{1};
    for (size_t at = 2; at < size; at += piece) {
        run.forwarder.feed(run.sender, {reinterpret_cast<const char*>(data) + at, std::min(piece, size - at)}, 1000);
        run.answer();
    }
    run.finish();
    return 0;
}

std::vector<std::string> fuzz_seeds() {
    using namespace std::string_literals;
    const std::string frames[] = {
        "SEND\ndestination:/topic/a.b\nn:7\nx:1.5e3\nreceipt:r\n\nbody\0\n"s,
        "SEND\r\ndestination:/queue/q\r\ncontent-length:4\r\npersistent:true\r\npriority:9\r\n\r\na\0b\n\0"s,
        "SEND\ndestination:/temp-queue/q\nreply-to:/temp-topic/t\ncorrelation-id:c\ntype:t\nexpires:5000\ntimestamp:3\nk\\c1:\\n\\\\\n\n\0"s,
        "SEND\ndestination:/topic/a\ntransaction:t\nattribute/type:x\na:1\na:2\n\n\0"s,
        "SEND\ndestination:/topic/a\nn:7\ncorrelation-id:c\nn:8\ncontent-length:1\nreceipt:1\n\nx\0"
        "SEND\ndestination:/topic/a\nn:9\ncorrelation-id:d\nn:8\ncontent-length:2\nreceipt:2\n\nxy\0"
        "\nSEND\ndestination:/topic/a\nn:\xC3\xA9\ncorrelation-id:\nn:8\ncontent-length:2\nreceipt:2\n\nxy\0"
        "SEND\ndestination:/topic/a\nn:\\n\ncorrelation-id: d\nn:8\ncontent-length:2\nreceipt:2\\c\n\nxy\0"
        "SEND\ndestination:/topic/b.c\nn:9\ncorrelation-id:\nn:8\ncontent-length:2\nreceipt:2\\c\n\nxy\0"s,
        "SUBSCRIBE\nid:1\ndestination:/topic/a\n\n\0"s,
        "ACK\nid:1-77\n\n\0ACK\nid:1-78\n\n\0\nACK\nid:2-78\n\n\0ACK\nid:3-1\n\n\0SEND\ndestination:/topic/a\n\n\0ACK\nid:1-79\nreceipt:r\n\n\0"s,
    };
    std::vector<std::string> all;
    for (const int choice : {0, 1, 2, 5, 72, 132, 192}) {
        std::string input(1, static_cast<char>(choice));
        input += static_cast<char>(all.size() * 40 + 20);
        for (const std::string& frame : frames) input += frame;
        all.push_back(input);
    }
    return all;
}
