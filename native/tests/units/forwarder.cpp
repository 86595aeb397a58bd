// The forwarder: messages from publishers' bytes to the outputs of direct sinks and links, with credit, backlogs of
// every policy, and publishers that are pushed back and released.
#include "tidings/forwarding/forwarder.hpp"

#include <map>

#include "../../fuzz/seeds.hpp"
#include "check.hpp"

using namespace tidings;
using units::Random;

namespace {

constexpr size_t unbounded = SIZE_MAX;

// Its number is in its body; all have the same size.
std::string message(uint32_t number, std::string_view destination = "ticks") {
    std::string out;
    MessageWriter writer(out);
    writer.begin(0, 4, "0123456789abcdef", destination);
    writer.attribute("n", Value::integer(1));
    std::string body(4, '\0');
    std::memcpy(body.data(), &number, 4);
    writer.finish(body);
    return out;
}

std::string publish(uint32_t number) { return seeds::frame(FramePublish, std::string(4, '\0') + message(number)); }

uint32_t number_of(const MessageView& message) {
    uint32_t number;
    CHECK(message.body.size() == 4);
    std::memcpy(&number, message.body.data(), 4);
    return number;
}

const size_t waiting_bytes = delivery_bytes(message(0)) + Sink::waiting_bytes;  // of one message in a backlog

std::vector<uint32_t> range(uint32_t first, uint32_t end) {
    std::vector<uint32_t> numbers;
    for (; first < end; ++first) numbers.push_back(first);
    return numbers;
}

struct Broker {
    Forwarder forwarder;
    OutputQueues& out = forwarder.output_queues();
    int64_t now_ms = 1000;

    explicit Broker(const ForwarderOptions& options = {}) : forwarder(options) {}

    uint32_t connect() {
        const uint32_t number = out.open();
        forwarder.log_in(number, 1 << 16, false);
        return number;
    }

    uint32_t subscribe(uint32_t connection, int64_t credit, Policy policy, size_t backlog_bytes_max) {
        return forwarder.subscribe(connection, 1, seeds::everything, credit, policy, backlog_bytes_max, false);
    }

    bool feed(uint32_t connection, std::string_view bytes) {
        return forwarder.feed(connection, bytes, now_ms) & Forwarder::blocked_flag;
    }

    void resume() {
        for (const uint32_t number : out.take_resumable()) forwarder.resume(number, now_ms);
    }

    // The numbers of the messages delivered to a connection, whose output is taken.
    std::vector<uint32_t> take(uint32_t connection, size_t bytes_max = unbounded) {
        const std::string bytes(out.front(connection, bytes_max));
        MessageBatch batch;
        batch.decode_frames(bytes, {});
        std::vector<uint32_t> numbers;
        for (const Entry& entry : batch) {
            CHECK(entry.status == Entry::Status::Message && entry.type == FrameDeliver);
            uint32_t subscription;
            std::memcpy(&subscription, entry.prefix.data(), 4);
            CHECK(subscription == 1);
            numbers.push_back(number_of(entry.message));
        }
        out.drop(connection, batch.consumed(), now_ms);
        return numbers;
    }

    template <class Kind>
    std::vector<Kind> take_events() {
        std::vector<Kind> events;
        for (Event& event : out.take_events()) {
            CHECK(std::holds_alternative<Kind>(event));
            events.push_back(std::get<Kind>(std::move(event)));
        }
        return events;
    }

    void end(const std::vector<uint32_t>& sinks, const std::vector<uint32_t>& connections) {
        for (const uint32_t sink : sinks) forwarder.unsubscribe(sink);
        for (const uint32_t number : connections) out.close(number);
        out.take_events();
        CHECK(out.held_bytes() == 0);
        CHECK(forwarder.matcher().size() == 0);
    }
};

}  // namespace

TEST(a_direct_sink_gets_as_many_messages_as_it_has_credit) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, 2, Policy::PushBack, 1 << 16);
    for (uint32_t i = 0; i < 6; ++i) CHECK(!broker.feed(publisher, publish(i)));
    CHECK(broker.out.take_dirty() == std::vector<uint32_t>{subscriber});
    CHECK(broker.take(subscriber) == range(0, 2));
    CHECK(broker.out.sink_at(sink).backlog_bytes == 4 * waiting_bytes);
    broker.out.credit(sink, 3, broker.now_ms);
    CHECK(broker.take(subscriber) == range(2, 5));
    broker.feed(subscriber, seeds::frame(FrameCredit, std::string("\x01\0\0\0\x09\0\0\0", 8)));
    CHECK(broker.take(subscriber) == range(5, 6) && broker.out.sink_at(sink).credit == 8);
    CHECK(broker.out.stats.delivered() == 6 && broker.out.stats.received == 6);
    broker.end({sink}, {publisher, subscriber});
}

TEST(what_the_output_has_no_room_for_waits_in_the_backlog) {
    Broker broker({.output_bytes_max = 3 * delivery_bytes(message(0))});
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, 0, Policy::PushBack, 1 << 16);
    for (uint32_t i = 0; i < 8; ++i) broker.feed(publisher, publish(i));
    CHECK(broker.out.sink_at(sink).backlog.size() == 5);
    CHECK(broker.take(subscriber, delivery_bytes(message(0))) == range(0, 1));
    CHECK(broker.out.sink_at(sink).backlog.size() == 4);
    CHECK(broker.take(subscriber) == range(1, 4) && broker.take(subscriber) == range(4, 7));
    CHECK(broker.take(subscriber) == range(7, 8));
    broker.end({sink}, {publisher, subscriber});
}

TEST(a_large_message_is_held_once_for_all_subscriptions_that_it_waits_for) {
    constexpr size_t large_bytes = 8000;
    for (const bool stomp : {false, true}) {
        Broker broker;
        const uint32_t publisher = broker.connect(), subscriber = broker.connect();
        if (stomp) {
            broker.forwarder.speak_stomp(subscriber);
            for (uint32_t number = 1; number <= 20; ++number)
                broker.forwarder.stomp(subscriber).labels[number].begin =
                    "MESSAGE\nsubscription:" + std::to_string(number) + "\n";
        }
        std::vector<uint32_t> sinks;
        for (uint32_t number = 1; number <= 20; ++number)
            sinks.push_back(broker.forwarder.subscribe(subscriber, number, seeds::everything, -1, Policy::PushBack,
                                                       1 << 16, false));
        std::string one;
        MessageWriter writer(one);
        writer.begin(0, 4, "0123456789abcdef", "ticks");
        writer.finish(std::string(large_bytes, 'x'));
        for (int i = 0; i < 3; ++i) broker.feed(publisher, seeds::frame(FramePublish, std::string(4, '\0') + one));
        CHECK(broker.out.held_bytes() < 4 * large_bytes &&
              broker.out.sink_at(sinks[0]).backlog_bytes > 3 * large_bytes);
        broker.forwarder.unsubscribe(sinks.back());
        sinks.pop_back();
        for (const uint32_t sink : sinks) broker.out.credit(sink, 2, broker.now_ms);
        const std::string bytes(broker.out.front(subscriber, unbounded));
        CHECK(bytes.size() > 38 * large_bytes && bytes.size() < 39 * large_bytes);
        const std::string frame = stomp ? "MESSAGE\nsubscription:19\n" : std::string("\x13\0\0\0\1\0\0\0", 8);
        const size_t first = bytes.find(frame), second = bytes.find(frame, first + 1);
        CHECK(second - first == bytes.size() / 38 || stomp);
        CHECK(bytes.find(std::string(large_bytes, 'x'), second) != std::string::npos);
        CHECK(bytes.find(frame, second + 1) == std::string::npos);
        broker.out.drop(subscriber, bytes.size(), broker.now_ms);
        broker.end(sinks, {publisher, subscriber});
    }
}

TEST(predicates_and_no_local_decide_which_sinks_get_a_message) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    std::string wants = "\x01\x01" + seeds::constraint(Op::Eq, "n", Value::integer(2));
    wants += '\0';
    const uint32_t other = broker.forwarder.subscribe(subscriber, 1, wants, 0, Policy::PushBack, 1000, false);
    const uint32_t own = broker.forwarder.subscribe(publisher, 1, seeds::everything, 0, Policy::PushBack, 1000, true);
    broker.feed(publisher, publish(0));
    CHECK(broker.take(subscriber).empty() && broker.take(publisher).empty());
    const uint32_t mailbox = broker.forwarder.mailbox(seeds::everything);
    broker.feed(subscriber, publish(7));
    CHECK(broker.take(publisher) == range(7, 8));
    const auto events = broker.take_events<Published>();
    CHECK(events.size() == 1 && events[0].connection == subscriber && events[0].message == message(7));
    CHECK(events[0].sinks == std::vector<uint32_t>{mailbox});
    broker.end({other, own, mailbox}, {publisher, subscriber});
}

TEST(drop_oldest_keeps_the_newest) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, -1, Policy::DropOldest, 3 * waiting_bytes);
    for (uint32_t i = 0; i < 10; ++i) CHECK(!broker.feed(publisher, publish(i)));
    CHECK(broker.out.sink_at(sink).backlog.size() == 4 && broker.out.sink_at(sink).dropped == 6);
    broker.out.check_stalls(broker.now_ms);
    const auto events = broker.take_events<MessagesDropped>();
    CHECK(events.size() == 1 && events[0].dropped == 6 && events[0].reason == "oldest");
    CHECK(events[0].connection == subscriber && events[0].subscription == 1);
    broker.out.credit(sink, 100, broker.now_ms);
    CHECK(broker.take(subscriber) == range(6, 10));
    broker.end({sink}, {publisher, subscriber});
}

TEST(drop_newest_keeps_the_oldest) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, -1, Policy::DropNewest, 3 * waiting_bytes);
    for (uint32_t i = 0; i < 10; ++i) CHECK(!broker.feed(publisher, publish(i)));
    broker.out.check_stalls(broker.now_ms);
    const auto events = broker.take_events<MessagesDropped>();
    CHECK(events.size() == 1 && events[0].dropped == 6 && events[0].reason == "newest");
    broker.out.credit(sink, 100, broker.now_ms);
    CHECK(broker.take(subscriber) == range(0, 4));
    broker.end({sink}, {publisher, subscriber});
}

TEST(disconnect_asks_once_that_the_subscriber_is_disconnected) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, -1, Policy::Disconnect, 3 * waiting_bytes);
    for (uint32_t i = 0; i < 10; ++i) CHECK(!broker.feed(publisher, publish(i)));
    broker.out.check_stalls(broker.now_ms);
    const auto events = broker.take_events<SlowConsumer>();  // and no notice of drops: its connection ends
    CHECK(events.size() == 1 && events[0].connection == subscriber && events[0].subscription == 1);
    CHECK(broker.out.sink_at(sink).dropped == 6 && broker.out.sink_at(sink).backlog.size() == 4);
    broker.end({sink}, {publisher, subscriber});
}

TEST(push_back_holds_the_publisher_until_half_the_backlog_is_gone) {
    Broker broker;
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, -1, Policy::PushBack, 3 * waiting_bytes);
    std::string all;
    for (uint32_t i = 0; i < 10; ++i) all += publish(i);
    CHECK(broker.feed(publisher, all));  // blocked
    CHECK(broker.out.sink_at(sink).backlog.size() == 4 && broker.out.stats.pushed_back == 1);
    CHECK(broker.out.at(publisher).tail.size() == 6 * publish(0).size());
    broker.out.credit(sink, 2, broker.now_ms);
    CHECK(!broker.out.has_resumable());  // two of three are left
    broker.out.credit(sink, 1, broker.now_ms);
    CHECK(broker.out.has_resumable());
    broker.resume();
    CHECK(broker.out.sink_at(sink).backlog.size() == 4);
    broker.out.credit(sink, 100, broker.now_ms);
    broker.resume();
    CHECK(broker.take(subscriber) == range(0, 10));
    CHECK(broker.out.sink_at(sink).dropped == 0 && broker.out.at(publisher).tail.empty());
    broker.end({sink}, {publisher, subscriber});
}

TEST(a_sink_that_takes_nothing_holds_up_its_publisher_only_for_a_while) {
    Broker broker({.stall_ms = 50});
    const uint32_t publisher = broker.connect(), subscriber = broker.connect();
    const uint32_t sink = broker.subscribe(subscriber, -1, Policy::PushBack, 3 * waiting_bytes);
    std::string all;
    for (uint32_t i = 0; i < 10; ++i) all += publish(i);
    CHECK(broker.feed(publisher, all));
    broker.out.check_stalls(broker.now_ms + 49);
    CHECK(!broker.out.has_resumable());
    broker.out.check_stalls(broker.now_ms += 50);
    broker.resume();
    CHECK(broker.out.at(publisher).tail.empty() && broker.out.sink_at(sink).dropped == 6);
    broker.out.check_stalls(broker.now_ms);
    const auto events = broker.take_events<MessagesDropped>();
    CHECK(events.size() == 1 && events[0].dropped == 6 && events[0].reason == "stalled");
    broker.out.credit(sink, 100, broker.now_ms);
    CHECK(broker.take(subscriber) == range(0, 4));
    CHECK(!broker.feed(publisher, publish(10)) && broker.take(subscriber) == range(10, 11));
    broker.end({sink}, {publisher, subscriber});
}

// Input cut anywhere, outputs and credit of any size: every subscriber of push-back sinks gets each publisher's
// messages once and in order.
TEST(nothing_is_lost_doubled_or_reordered_under_back_pressure) {
    for (uint64_t seed = 0; seed < 30; ++seed) {
        Random random(seed);
        Broker broker({.output_bytes_max = 200 + random() % 600,
                       .memory_bytes_max = 3000 + random() % 20000,
                       .stall_ms = 1'000'000});
        constexpr uint32_t messages = 60, per_publisher = 1000;
        std::vector<uint32_t> publishers, subscribers, sinks;
        std::map<uint32_t, std::string> inputs;
        std::map<uint32_t, std::vector<uint32_t>> got;
        for (uint32_t i = 0; i < 3; ++i) {
            publishers.push_back(broker.connect());
            for (uint32_t j = 0; j < messages; ++j) inputs[publishers[i]] += publish(i * per_publisher + j);
            subscribers.push_back(broker.connect());
            sinks.push_back(broker.subscribe(subscribers[i], i ? -1 : 0, Policy::PushBack, random() % 1500));
        }
        const auto done = [&] {
            return std::ranges::all_of(subscribers, [&](uint32_t one) { return got[one].size() == 3 * messages; });
        };
        uint64_t steps = 0;
        for (; !done() && steps < 50'000; ++steps) {
            ++broker.now_ms;
            const size_t i = random() % 3;
            std::string& input = inputs[publishers[i]];
            if (!input.empty() && broker.out.at(publishers[i]).reading()) {
                const size_t size = 1 + random() % std::min<size_t>(input.size(), 400);
                broker.feed(publishers[i], std::string(input, 0, size));
                input.erase(0, size);
            }
            const size_t j = random() % 3;
            if (random() % 2) broker.out.credit(sinks[j], random() % 4, broker.now_ms);
            if (random() % 2)
                for (const uint32_t number : broker.take(subscribers[j])) got[subscribers[j]].push_back(number);
            if (random() % 4 == 0) broker.out.check_stalls(broker.now_ms);
            broker.resume();
            broker.out.take_dirty();
        }
        CHECK(done());
        CHECK(broker.out.stats.pushed_back > 0);
        for (const auto& [subscriber, numbers] : got) {
            std::map<uint32_t, uint32_t> next;
            for (const uint32_t number : numbers) CHECK(next[number / per_publisher]++ == number % per_publisher);
            CHECK(next.size() == 3);
        }
        CHECK(broker.out.take_events().empty());
        std::vector<uint32_t> connections = publishers;
        connections.insert(connections.end(), subscribers.begin(), subscribers.end());
        broker.end(sinks, connections);
    }
}

namespace {

constexpr uint32_t here = 1;

struct Copy {
    ForwardHeader header;
    uint32_t number;
};

// A broker with the neighbours 2, which leads to router 3 as well, and 4; all three want everything.
struct LinkedBroker : Broker {
    uint32_t to_2 = out.open(), to_4 = out.open();

    explicit LinkedBroker() {
        Interests interests(true, 64, 4, 0, Grade::Plain, 0);
        for (const uint32_t router : {here, 2u, 3u, 4u}) interests.add(router, std::string(8, '\0'));
        forwarder.join({.router = here}, std::move(interests));
        forwarder.network().set_routes({{2, 2}, {3, 2}, {4, 4}});
        forwarder.network().link(to_2, 2);
        forwarder.network().link(to_4, 4);
    }

    std::vector<Copy> take_copies(uint32_t link) {
        const std::string bytes(out.front(link, unbounded));
        MessageBatch batch;
        batch.decode_frames(bytes, {});
        std::vector<Copy> copies;
        for (const Entry& entry : batch) {
            CHECK(entry.status == Entry::Status::Message && entry.type == FrameForward);
            Copy& copy = copies.emplace_back();
            copy.header.decode(entry.prefix.substr(4));
            copy.number = number_of(entry.message);
        }
        CHECK(batch.consumed() == bytes.size());
        out.drop(link, bytes.size(), now_ms);
        return copies;
    }

    void end_links() {
        forwarder.network().unlink(2);
        forwarder.network().unlink(4);
    }
};

}  // namespace

TEST(one_copy_leaves_by_each_link_with_the_routers_behind_it) {
    LinkedBroker broker;
    const uint32_t client = broker.connect();
    const uint32_t sink = broker.subscribe(client, 0, Policy::PushBack, 1000);
    broker.feed(client, publish(5));
    CHECK(broker.take(client) == range(5, 6));
    const auto to_2 = broker.take_copies(broker.to_2), to_4 = broker.take_copies(broker.to_4);
    CHECK(to_2.size() == 1 && to_2[0].number == 5 && to_2[0].header.routers == (std::vector<uint32_t>{2, 3}));
    CHECK(to_4.size() == 1 && to_4[0].number == 5 && to_4[0].header.routers == (std::vector<uint32_t>{4}));
    CHECK(to_2[0].header.hops == 31 && !to_2[0].header.broadcast && !to_2[0].header.tagged);
    broker.end_links();
    broker.end({sink}, {client, broker.to_2, broker.to_4});
}

TEST(a_copy_that_arrives_is_delivered_here_and_passed_on_to_the_other_routers) {
    LinkedBroker broker;
    const uint32_t client = broker.connect();
    const uint32_t sink = broker.subscribe(client, 0, Policy::PushBack, 1000);
    ForwardHeader header;
    header.hops = 5;
    const auto arrive = [&](const std::vector<uint32_t>& routers, uint32_t number) {
        std::string payload;
        header.routers = routers;
        header.encode(payload);
        broker.feed(broker.to_4, seeds::frame(FrameForward, payload + message(number)));
    };
    arrive({here, 3}, 6);
    CHECK(broker.take(client) == range(6, 7));
    const auto copies = broker.take_copies(broker.to_2);
    CHECK(copies.size() == 1 && copies[0].number == 6 && copies[0].header.routers == std::vector<uint32_t>{3});
    CHECK(copies[0].header.hops == 4 && broker.take_copies(broker.to_4).empty());
    arrive({3}, 7);
    CHECK(broker.take(client).empty() && broker.take_copies(broker.to_2).size() == 1);
    header.hops = 0;
    arrive({here, 2, 3}, 8);
    CHECK(broker.take(client) == range(8, 9) && broker.take_copies(broker.to_2).empty());
    CHECK(broker.forwarder.network().stats.no_hops == 2 && broker.forwarder.network().stats.arrived == 3);
    broker.end_links();
    broker.end({sink}, {client, broker.to_2, broker.to_4});
}
