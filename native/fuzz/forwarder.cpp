// Any bytes as what clients send, cut anywhere, with sinks of every policy and outputs that are slow. What the
// forwarder holds must add up: when all connections are closed, nothing is held.
#include "tidings/forwarding/forwarder.hpp"
#include "pieces.hpp"
#include "seeds.hpp"
#include "target.hpp"

using namespace tidings;
using seeds::everything, seeds::frame;

namespace {

// One for all runs, each of which leaves it as it was: making one takes longer than a run.
Forwarder& shared() {
    static Forwarder forwarder(
        {.output_bytes_max = 600, .memory_bytes_max = 6000, .login_frame_bytes_max = 300, .stall_ms = 3});
    return forwarder;
}

struct Run {
    Forwarder& forwarder = shared();
    std::vector<uint32_t> connections;
    std::vector<uint32_t> sinks;
    int64_t now_ms = 0;

    explicit Run(uint8_t choice) {
        for (int i = 0; i < 3; ++i) {
            connections.push_back(forwarder.output_queues().open());
            if (i < 2) forwarder.log_in(connections[i], 2048, choice & 1);
        }
        const Policy policy = static_cast<Policy>(choice >> 1 & 3);
        sinks.push_back(forwarder.subscribe(connections[0], 1, everything, choice >> 3 & 3, policy, 500, choice & 32));
        sinks.push_back(forwarder.subscribe(connections[1], 2, everything, 0, Policy::PushBack, 500, false));
        if (choice & 64) sinks.push_back(forwarder.mailbox(everything));
    }

    void answer(bool yes) {
        for (const Event& event : forwarder.output_queues().take_events()) {
            if (const auto* check = std::get_if<PublishCheck>(&event)) {
                if (yes) forwarder.allow(check->connection, (check->queue ? "queue:" : "topic:") + check->destination);
                else forwarder.skip(check->connection);
                forwarder.handled(check->connection, now_ms);
            } else if (const auto* control = std::get_if<ControlFrame>(&event)) {
                forwarder.handled(control->connection, now_ms);
            }
        }
        for (const uint32_t number : forwarder.output_queues().take_resumable()) forwarder.resume(number, now_ms);
    }

    // One byte says what happens between two pieces of input.
    void step(uint8_t choice) {
        OutputQueues& out = forwarder.output_queues();
        const uint32_t number = connections[choice % 3];
        now_ms += choice >> 6;
        switch (choice >> 2 & 7) {
            case 0: out.drop(number, out.front(number, 200).size(), now_ms); break;
            case 1: out.drop(number, out.front(number, SIZE_MAX).size(), now_ms); break;
            case 2: out.set_writable(number, choice & 64); break;
            case 3: out.check_stalls(now_ms); break;
            case 4: out.credit(sinks[0], 2, now_ms); break;
            case 5: forwarder.output_queues().at(number).set_transacted(7, choice & 64); break;
            case 6: choice & 64 ? forwarder.hold(number) : forwarder.release(number); break;
            default: answer(choice & 64); break;
        }
        out.take_dirty();
    }

    void finish() {
        OutputQueues& out = forwarder.output_queues();
        answer(true);
        for (const uint32_t sink : sinks) forwarder.unsubscribe(sink);
        for (const uint32_t number : connections) out.close(number);
        out.take_events();
        out.take_resumable();
        FUZZ_CHECK(out.held_bytes() == 0);
    }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return fuzz_in_pieces<Run>(data, size); }

std::vector<std::string> fuzz_seeds() {
    const std::string publish = frame(FramePublish, std::string("\x01\0\0\0", 4) + seeds::message(true));
    const std::string other = frame(FramePublish, std::string(4, 0) + seeds::message(false), 7);
    const std::string credit = frame(FrameCredit, std::string("\x01\0\0\0\x02\0\0\0", 8));
    const std::string ack = frame(FrameAck, std::string("\x01\0\0\0\x01\x01\0\0\0\x02\0\0\0\0\0\0\0", 17));
    std::vector<std::string> all;
    for (const int choice : {0, 1, 2, 4, 6, 64, 67, 8, 127}) {
        std::string input(1, static_cast<char>(choice));
        for (const std::string& piece : {publish, other, credit, ack, publish, frame(5, ""), publish}) {
            for (size_t start = 0; start < piece.size(); start += 200) {
                const std::string part = piece.substr(start, 200);
                input += static_cast<char>(all.size() * 37 + start);
                input += static_cast<char>(part.size());
                input += part;
            }
        }
        all.push_back(input);
    }
    return all;
}
