// The network part of the forwarding plane: which copies of a message leave by which links (B-DRP, docs/networks.md).
//
//   enters here:   match against PREDICATES, once ──► D ──┬─ few: divide D by next hop, one copy ⟨Di, m⟩ a link
//                                                         └─ many: broadcast along reverse paths
//   ⟨D, m⟩ arrives: am I in D? then deliver; divide the rest by next hop
//
// A destination is in at most one copy at any time, so no subscriber gets a message twice. Broadcasts, where this
// argument does not hold, are known again by their message's id. Under flooding, the scheme to compare with, interests
// belong to neighbours and every broker matches again.
//
// src/tidings/routing/forwarding.py says the same in plain Python.
#pragma once
#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tidings/codec/forward_frame.hpp"
#include "tidings/encoding/interests.hpp"
#include "tidings/forwarding/event_trees.hpp"
#include "tidings/forwarding/output_queues.hpp"
#include "tidings/tracking/recent_ids.hpp"

namespace tidings {

struct NetworkOptions {
    uint32_t router = 0;
    bool flooding = false;
    bool hands_up = false;                     // what is not persistent is carried by a scheme in Python (covering)
    uint32_t broadcast_above = 0;              // destinations; 0: never broadcast
    uint8_t hops_max = 32;                     // links that a message may cross
    size_t backlog_bytes_max = 8 << 20;        // of what waits for one link
    size_t output_bytes_max = 256 << 10;       // of what is ahead of a heartbeat
    size_t far_bytes_max = 0;                  // a full sink takes this of other brokers beyond its limit
    size_t frame_bytes_max = size_t{2} << 30;  // whatever another broker takes from its clients must pass
};

// Messages that did not arrive, by reason, and what it took to bring the others.
struct NetworkStats {
    uint64_t entered = 0;       // matched some other router
    uint64_t destinations = 0;  // how many in all
    uint64_t copies = 0, copy_bytes = 0;
    uint64_t arrived = 0;  // copies from other brokers
    uint64_t relayed = 0;  // of these, to be passed on
    uint64_t in_vain = 0;  // brought here, wanted by no subscriber: the price of encoding
    uint64_t no_route = 0, no_hops = 0, duplicates = 0, wrong_path = 0, expired = 0;
};

class Network {
public:
    Network(const NetworkOptions& options, Interests interests, OutputQueues& out)
        : interests(std::move(interests)),
          options_(options),
          out_(out) {
        out.congestion.far_bytes_max = options.far_bytes_max;
    }

    // ---- tables

    void set_routes(std::unordered_map<uint32_t, uint32_t> next_hops) { next_hops_ = std::move(next_hops); }

    // Of each neighbour the origins whose broadcasts it takes from here. One that is not named may take all.
    void set_reverse_paths(const std::unordered_map<uint32_t, std::vector<uint32_t>>& origins) {
        takes_.clear();
        for (const auto& [neighbour, some] : origins) takes_[neighbour].insert(some.begin(), some.end());
    }

    void link(uint32_t connection, uint32_t neighbour) {
        if (links_.contains(neighbour)) throw UsageError{"E_LINK_TWICE", "the neighbour is linked already"};
        links_[neighbour] = out_.add_link(connection, options_.backlog_bytes_max, options_.output_bytes_max);
        out_.prelogin_memory.admit(out_.at(connection));
        out_.at(connection).neighbour = neighbour;
        out_.at(connection).frame_bytes_max = options_.frame_bytes_max;
    }

    void unlink(uint32_t neighbour) {
        const auto found = links_.find(neighbour);
        if (found == links_.end()) throw UsageError{"E_NO_LINK", "the neighbour is not linked"};
        out_.at(out_.sink_at(found->second).connection).neighbour = 0;
        out_.remove_sink(found->second);
        links_.erase(found);
    }

    // Bytes that wait for a link.
    size_t waiting(uint32_t neighbour) {
        const auto found = links_.find(neighbour);
        if (found == links_.end()) return 0;
        const Sink& sink = out_.sink_at(found->second);
        return sink.backlog_bytes + out_.at(sink.connection).output.size();
    }

    // A publisher waits whose message is for a congested destination.
    void hold_back(const std::vector<uint32_t>& routers, uint32_t publisher) {
        if (!out_.congestion.any() || publisher == OutputQueues::nobody || options_.flooding) return;
        for (const uint32_t router : routers)
            if (out_.congestion.holds(router, publisher)) out_.hold_up(out_.at(publisher));
    }

    void set_congested(const std::vector<uint32_t>& routers) {
        for (const uint32_t publisher : out_.congestion.set(routers)) out_.unblock(publisher);
    }

    // Neighbours whose links are full of what other brokers send.
    std::vector<uint32_t> full_links() {
        std::vector<uint32_t> full;
        for (const auto& [neighbour, sink] : links_)
            if (out_.sink_at(sink).congested) full.push_back(neighbour);
        return full;
    }

    // ---- messages

    // The other routers that want a message that enters the network here; valid until the next call.
    const std::vector<uint32_t>& destinations(const MessageView& message) {
        interests.match(message, matched_);
        if (!options_.flooding) std::erase(matched_, options_.router);
        stats.entered += !matched_.empty();
        stats.destinations += matched_.size();
        return matched_;
    }

    void enter(const MessageView& message, const std::vector<uint32_t>& routers, uint32_t publisher, int64_t now_ms) {
        if (routers.empty()) return;
        hold_back(routers, publisher);
        const auto hops = static_cast<uint8_t>(options_.hops_max - 1);
        if (options_.flooding) {
            recent_.add(bytes_of(message.id));
            spread(message, routers, {options_.router, hops}, 0, publisher, now_ms);
        } else if (options_.broadcast_above && routers.size() > options_.broadcast_above) {
            spread_everywhere(message, {options_.router, hops}, 0, publisher, now_ms);
        } else {
            divide(message, routers, hops, publisher, now_ms);
        }
    }

    // An event of a type enters here: it goes by the tree of the type, and is known again if it comes back.
    void enter_event(const MessageView& event, uint32_t publisher, int64_t now_ms) {
        recent_.add(bytes_of(event.id));
        const Source source{options_.router, static_cast<uint8_t>(options_.hops_max - 1)};
        pass_event(event, EventTrees::type_of(event.destination), {}, source, 0, publisher, now_ms);
    }

    // One from a neighbour. True: it is to be delivered here, for it did not come by another tree before.
    bool arrive_event(uint32_t neighbour, const ForwardHeader& header, const MessageView& event, int64_t now_ms) {
        ++stats.arrived;
        const bool fresh = !recent_.contains(bytes_of(event.id));
        if (fresh) recent_.add(bytes_of(event.id));
        if (header.hops == 0) {
            ++stats.no_hops;
        } else {
            const Source source{0, static_cast<uint8_t>(header.hops - 1)};
            pass_event(event, header.event_type, header.event, source, neighbour, OutputQueues::nobody, now_ms);
        }
        return fresh;
    }

    // What attributes of messages the tables need that are not in their bytes.
    uint8_t derived() const { return interests.derived() | event_trees.derived(); }

    // One copy of a persistent message, with a tag and numbers, to a neighbour that must acknowledge it. False: no link,
    // or no room in it.
    bool relay(uint32_t neighbour, const ForwardHeader& header, std::string_view message, int64_t now_ms) {
        if (header.numbers.size() != header.routers.size())
            throw UsageError{"E_RELAY", "as many numbers as routers are needed"};
        const auto found = links_.find(neighbour);
        if (found == links_.end() || out_.sink_at(found->second).full()) return false;
        send(neighbour, header, message, OutputQueues::nobody, now_ms);
        return true;
    }

    // A copy from a neighbour. True: it is to be delivered here.
    bool arrive(uint32_t neighbour, ForwardHeader& header, const MessageView& message, int64_t now_ms) {
        ++stats.arrived;
        if (header.broadcast) return arrive_broadcast(neighbour, header, message, now_ms);
        const bool here = std::erase(header.routers, options_.router) > 0;
        if (!header.routers.empty()) {
            ++stats.relayed;
            if (header.hops == 0) stats.no_hops += header.routers.size();
            else divide(message, header.routers, static_cast<uint8_t>(header.hops - 1), OutputQueues::nobody, now_ms);
        }
        return here;
    }

    // True if messages travel with a set of destinations: only then can persistent ones be accounted for.
    bool partitions() const { return !options_.flooding; }

    bool hands_up() const { return options_.hands_up; }

    // A copy that nobody here wanted; some are kept, so that it can be told whose interests they came for.
    void arrive_in_vain(std::string_view message) {
        ++stats.in_vain;
        if (in_vain_.size() < in_vain_max && message.size() <= in_vain_bytes_max) in_vain_.emplace_back(message);
    }

    std::vector<std::string> take_in_vain() { return std::exchange(in_vain_, {}); }

    Interests interests;
    EventTrees event_trees;
    NetworkStats stats;

private:
    struct Source {
        uint32_t origin;
        uint8_t hops;
    };

    bool arrive_broadcast(uint32_t neighbour, const ForwardHeader& header, const MessageView& message, int64_t now_ms) {
        if (header.origin == options_.router || recent_.contains(bytes_of(message.id))) {
            ++stats.duplicates;
            return false;
        }
        const auto way = next_hops_.find(header.origin);
        if (!options_.flooding && (way == next_hops_.end() || way->second != neighbour)) {
            ++stats.wrong_path;
            return false;
        }
        recent_.add(bytes_of(message.id));
        ++stats.relayed;
        const Source source{header.origin, static_cast<uint8_t>(header.hops - (header.hops > 0))};
        if (header.hops == 0) {
            ++stats.no_hops;
        } else if (options_.flooding) {
            interests.match(message, matched_);
            spread(message, matched_, source, neighbour, OutputQueues::nobody, now_ms);
        } else {
            spread_everywhere(message, source, neighbour, OutputQueues::nobody, now_ms);
        }
        return true;
    }

    void broadcast_header(const Source& source) {
        header_.hops = source.hops;
        header_.event_type.clear();
        header_.broadcast = true;
        header_.tagged = false;
        header_.origin = source.origin;
    }

    // To these neighbours, except where it came from.
    void spread(const MessageView& message, const std::vector<uint32_t>& neighbours, const Source& source,
                uint32_t except, uint32_t publisher, int64_t now_ms) {
        broadcast_header(source);
        for (const uint32_t neighbour : neighbours)
            if (neighbour != except && links_.contains(neighbour))
                send(neighbour, header_, message.bytes, publisher, now_ms);
    }

    void spread_everywhere(const MessageView& message, const Source& source, uint32_t except, uint32_t publisher,
                           int64_t now_ms) {
        broadcast_header(source);
        for (const auto& [neighbour, sink] : links_)
            if (neighbour != except && takes(neighbour, source.origin))
                send(neighbour, header_, message.bytes, publisher, now_ms);
    }

    bool takes(uint32_t neighbour, uint32_t origin) const {
        const auto found = takes_.find(neighbour);
        return found == takes_.end() || found->second.contains(origin);
    }

    // Dynamic receiver partitioning: one copy for each next hop, with the destinations that lie behind it.
    void divide(const MessageView& message, const std::vector<uint32_t>& routers, uint8_t hops, uint32_t publisher,
                int64_t now_ms) {
        parts_.clear();
        for (const uint32_t router : routers) {
            const auto way = next_hops_.find(router);
            if (way == next_hops_.end() || !links_.contains(way->second)) {
                ++stats.no_route;
                continue;
            }
            parts_.emplace_back(way->second, router);
        }
        std::sort(parts_.begin(), parts_.end());
        header_.hops = hops;
        header_.event_type.clear();
        header_.broadcast = header_.tagged = false;
        for (size_t i = 0; i < parts_.size();) {
            const uint32_t neighbour = parts_[i].first;
            header_.routers.clear();
            for (; i < parts_.size() && parts_[i].first == neighbour; ++i) header_.routers.push_back(parts_[i].second);
            send(neighbour, header_, message.bytes, publisher, now_ms);
        }
    }

    void pass_event(const MessageView& event, std::string_view type, const EventFlags& flags, const Source& source,
                    uint32_t neighbour, uint32_t publisher, int64_t now_ms) {
        const auto pass = [&](std::string_view tree, const std::vector<EventTrees::Copy>& copies) {
            header_.hops = tree == type ? source.hops : static_cast<uint8_t>(options_.hops_max - 1);
            header_.event_type = tree;
            for (const EventTrees::Copy& copy : copies) {
                if (!links_.contains(copy.neighbour)) {
                    ++stats.no_route;
                    continue;
                }
                header_.event = copy.flags;
                send(copy.neighbour, header_, event.bytes, publisher, now_ms);
            }
        };
        stats.no_route += !event_trees.route(event, type, flags, neighbour, pass);
    }

    void send(uint32_t neighbour, const ForwardHeader& header, std::string_view message, uint32_t publisher,
              int64_t now_ms) {
        head_.clear();
        header.encode(head_);
        ++stats.copies;
        if (out_.tracker() && out_.tracker()->forwards()) out_.tracker()->forwarded(id_of(message), neighbour, now_ms);
        stats.copy_bytes += frame_header_bytes + head_.size() + message.size();
        out_.deliver_link(out_.sink_at(links_.at(neighbour)), publisher, FrameForward, head_, message, now_ms);
    }

    static constexpr size_t recent_ids_least = 1 << 16;
    static constexpr size_t in_vain_max = 8, in_vain_bytes_max = 16 << 10;

    static std::string_view bytes_of(const uint8_t* id) {
        return {reinterpret_cast<const char*>(id), RecentIds::id_bytes};
    }

    const NetworkOptions options_;
    OutputQueues& out_;
    std::unordered_map<uint32_t, uint32_t> next_hops_;                  // router -> neighbour
    std::unordered_map<uint32_t, uint32_t> links_;                      // neighbour -> sink
    std::unordered_map<uint32_t, std::unordered_set<uint32_t>> takes_;  // neighbour -> origins of broadcasts
    RecentIds recent_{recent_ids_least};
    ForwardHeader header_;
    std::string head_;
    std::vector<uint32_t> matched_;
    std::vector<std::pair<uint32_t, uint32_t>> parts_;
    std::vector<std::string> in_vain_;  // messages, since they were last taken
};

}  // namespace tidings
