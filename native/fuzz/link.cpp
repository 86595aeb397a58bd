// Any bytes as what neighbours send by their links, cut anywhere, while links come and go and are slow. Every copy that
// leaves must be a whole FORWARD frame, with destinations that are not here and fewer hops than a message may take;
// when all connections are closed, nothing is held.
#include "pieces.hpp"
#include "seeds.hpp"
#include "target.hpp"
#include "tidings/forwarding/forwarder.hpp"

using namespace tidings;
using seeds::everything, seeds::frame;

namespace {

constexpr uint32_t here = 1, neighbours[] = {2, 3}, bits = 64;

// One for each way of carrying messages, for all runs: making one takes longer than a run.
Forwarder& shared(size_t way) {
    static std::unique_ptr<Forwarder> all[4];
    if (all[way]) return *all[way];
    all[way] = std::make_unique<Forwarder>(ForwarderOptions{
        .output_bytes_max = 4000, .memory_bytes_max = 20000, .login_frame_bytes_max = 300, .stall_ms = 3});
    NetworkOptions options{
        .router = here, .flooding = way == 1, .hands_up = way == 2, .broadcast_above = way == 3 ? 1u : 0u};
    options.backlog_bytes_max = 3000;
    options.output_bytes_max = 1500;
    options.frame_bytes_max = 2048;
    all[way]->join(options, Interests(true, bits, 4, 7, Grade::Plain, 11));
    Network& network = all[way]->network();
    const std::string wants_everything(bits / 8, '\0');
    for (const uint32_t router : {2u, 3u, 4u, 5u}) network.interests.add(router, wants_everything);
    network.set_routes({{2, 2}, {3, 3}, {4, 2}, {5, 3}, {6, 9}});
    return *all[way];
}

struct Run {
    Forwarder& forwarder;
    OutputQueues& out = forwarder.output_queues();
    Network& network = forwarder.network();
    uint32_t connections[3] = {out.open(), out.open(), out.open()};  // two links, and one that has not greeted
    bool linked[2] = {};
    std::string left[2];  // what left by a link, not checked yet
    uint32_t client = out.open(), direct, mailbox;
    int64_t now_ms = 1000;

    explicit Run(uint8_t choice) : forwarder(shared(choice & 3)) {
        for (const int i : {0, 1}) link(i);
        forwarder.log_in(client, 2048, false);
        direct = forwarder.subscribe(client, 1, everything, 0, Policy::DropOldest, 4000, false);
        mailbox = forwarder.mailbox(everything);
    }

    void link(int i) {
        if (!linked[i]) network.link(connections[i], neighbours[i]);
        linked[i] = true;
    }

    void unlink(int i) {
        if (linked[i]) network.unlink(neighbours[i]);
        linked[i] = false;
    }

    // As many bytes go to the socket.
    void take(int i, size_t bytes_max) {
        const std::string_view bytes = out.front(connections[i], bytes_max);
        if (i < 2) {
            left[i] += bytes;
            MessageBatch batch;
            batch.decode_frames(left[i], {0, SIZE_MAX, false});
            FUZZ_CHECK(!batch.fatal());
            for (const Entry& entry : batch) check_copy(entry);
            left[i].erase(0, batch.consumed());
        }
        out.drop(connections[i], bytes.size(), now_ms);
    }

    static void check_copy(const Entry& entry) {
        FUZZ_CHECK(entry.status == Entry::Status::Message && entry.type == FrameForward);
        ForwardHeader header;
        header.decode(entry.prefix.substr(4));
        FUZZ_CHECK(header.hops < UINT8_MAX);
        FUZZ_CHECK(header.broadcast != !header.routers.empty());
        FUZZ_CHECK(std::ranges::find(header.routers, here) == header.routers.end());
    }

    // Persistent copies go on by both links, as from a store.
    void answer() {
        for (const Event& event : out.take_events()) {
            if (const auto* relayed = std::get_if<Relayed>(&event); relayed && relayed->hops) {
                ForwardHeader header;
                header.hops = static_cast<uint8_t>(relayed->hops - 1);
                header.tagged = true;
                header.tag = relayed->tag;
                header.repeated = relayed->repeated;
                header.origin = relayed->origin;
                header.epoch = relayed->epoch;
                FUZZ_CHECK(relayed->numbers.size() == relayed->routers.size());
                for (size_t at = 0; at < relayed->routers.size(); ++at) {
                    if (relayed->routers[at] == here) continue;
                    header.routers.push_back(relayed->routers[at]);
                    header.numbers.push_back(relayed->numbers[at]);
                }
                if (header.routers.empty()) continue;
                for (const uint32_t neighbour : neighbours) network.relay(neighbour, header, relayed->message, now_ms);
            } else if (const auto* control = std::get_if<ControlFrame>(&event)) {
                forwarder.handled(control->connection, now_ms);
            }
        }
        for (const uint32_t number : out.take_resumable()) forwarder.resume(number, now_ms);
    }

    // One byte says what happens between two pieces of input.
    void step(uint8_t choice) {
        const int i = choice & 1;
        now_ms += choice >> 6;
        switch (choice >> 2 & 7) {
            case 0: take(i, 200); break;
            case 1: take(i, SIZE_MAX); break;
            case 2: out.set_writable(connections[i], choice & 64); break;
            case 3: out.check_stalls(now_ms); break;
            case 4: unlink(i); break;
            case 5: link(i); break;
            case 6:
                forwarder.publish(seeds::message(true), now_ms, client);
                forwarder.enter(seeds::message(true), now_ms, client);
                break;
            default: answer(); break;
        }
        out.take_dirty();
    }

    void finish() {
        answer();
        for (const int i : {0, 1}) {
            while (!out.front(connections[i], SIZE_MAX).empty()) take(i, SIZE_MAX);
            FUZZ_CHECK(left[i].empty());
            unlink(i);
        }
        forwarder.unsubscribe(direct);
        forwarder.unsubscribe(mailbox);
        for (const uint32_t number : {connections[0], connections[1], connections[2], client}) out.close(number);
        out.take_events();
        out.take_resumable();
        FUZZ_CHECK(out.held_bytes() == 0);
    }
};

std::string forward(const ForwardHeader& header, std::string_view message) {
    std::string payload;
    header.encode(payload);
    payload += message;
    return frame(FrameForward, payload);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return fuzz_in_pieces<Run>(data, size); }

std::vector<std::string> fuzz_seeds() {
    ForwardHeader listed, broadcast, tagged;
    listed.hops = 5;
    listed.routers = {1, 2, 3, 4, 5, 6};
    broadcast.hops = 3;
    broadcast.broadcast = true;
    broadcast.origin = 4;
    tagged = listed;
    tagged.tagged = true;
    tagged.tag = 300;
    tagged.origin = 2;
    tagged.epoch = uint64_t{1} << 56;
    tagged.numbers = {1, 2, 3, 4, 5, 600};
    const std::string pieces[] = {forward(listed, seeds::message(true)), forward(broadcast, seeds::message(false)),
                                  frame(0x40, "\x05\x07"), forward(tagged, seeds::message(true))};
    std::vector<std::string> all;
    for (const int way : {0, 1, 2, 3}) {
        std::string input(1, static_cast<char>(way));
        for (const std::string& piece : pieces) {
            for (size_t start = 0; start < piece.size(); start += 200) {
                const std::string part = piece.substr(start, 200);
                input += static_cast<char>(way * 37 + start / 200 * 28);
                input += static_cast<char>(part.size());
                input += part;
            }
        }
        all.push_back(input);
    }
    return all;
}
