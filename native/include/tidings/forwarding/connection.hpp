// One connection as the forwarder knows it: a client's, or a link to another broker.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tidings/codec/message_reader.hpp"
#include "tidings/forwarding/allowances.hpp"
#include "tidings/forwarding/backlogged.hpp"
#include "tidings/forwarding/event_form.hpp"
#include "tidings/forwarding/output.hpp"
#include "tidings/forwarding/read_ahead.hpp"
#include "tidings/stomp/send.hpp"

namespace tidings {

struct alignas(64) Connection {
    static constexpr size_t allowed_max = 10'000;  // remembered destinations; beyond that Python is asked again

    // Fields that every delivery reads are together: of many connections, one cache line each.
    Output output;
    size_t output_bytes_max = 0;  // what is beyond it waits in the sinks' backlogs
    uint32_t subscriber = 0;      // the tracker's number for the receiver of the deliveries; 0: they are not recorded
    uint32_t number = 0;
    uint8_t protocol = 0;  // index into the counts by protocol
    bool dirty = false;    // in the list of connections with output
    bool open = false;
    bool logged_in = false;
    bool stranger = true;  // neither logged in nor a link yet: there is little memory for all of these together
    bool broken = false;   // its stream cannot be read any further
    bool waiting = false;  // Python has something of it to handle before parsing goes on
    bool held = false;     // Python wants its publishers to wait
    bool choked = false;   // it does not read the answers to what it sends
    bool tired = false;    // its input has had its share of this turn
    bool spent = false;    // it has published as much as its user may for now
    bool leaving = false;  // Python was told to disconnect it
    bool blocked = false;  // the driver was told to stop reading
    bool writable = true;
    bool wants_room = false;  // Python has deliveries for it and waits for room in the output
    bool checks_destinations = false;
    uint32_t pushed_back = 0;  // number of sinks that hold it up, memory counted as one
    size_t frame_bytes_max = 0;
    size_t taken_bytes = 0;          // by the last `take`
    size_t parked_bytes = 0;         // taken, and still with a socket that takes no more
    int64_t moved_ms = 0;            // when output was last taken, or was last seen to be empty
    int64_t written_ms = 0;          // when there was output to take last
    int socket = -1;                 // where the driver has output written without asking it; -1: it wants to be asked
    uint32_t neighbour = 0;          // the router at the other end, if this is a link that is up
    int64_t skew_ms_max = -1;        // its messages' times must not be off by more; negative: not watched
    Output tail;                     // input not parsed yet
    ReadAhead ahead;                 // what was looked through of it
    size_t partial_bytes = 0;        // of it: a large frame that is not all there
    uint32_t unread_notices = 0;     // of dropped messages, since output was last taken
    std::vector<uint32_t> receipts;  // to be answered at the end of this feed
    std::vector<uint16_t> transacted;               // sessions in a transaction: few
    std::unordered_map<uint32_t, uint32_t> direct;  // subscription number -> sink
    Backlogged backlogged;
    std::unordered_set<std::string> allowed;
    std::string last_allowed;              // most publishers send to one destination
    std::unique_ptr<StompState> stomp;     // if it speaks STOMP
    std::unique_ptr<EventForms> events;    // of the types that it advertises, if any
    std::shared_ptr<Allowance> allowance;  // of its user, if there is a limit

    bool has_room() const { return output.size() < output_bytes_max; }  // for deliveries
    bool reading() const {
        return open && !broken && !waiting && !held && !choked && !tired && !spent && pushed_back == 0;
    }
    // The answer to PublishCheck: from now on messages to this destination, "topic:" or "queue:" and its name, pass.
    void allow(std::string_view destination) {
        if (allowed.size() >= allowed_max) allowed.clear();
        last_allowed = *allowed.emplace(destination).first;
    }

    // A topic and a queue may have the same name and different rights.
    bool allows(const MessageView& message, std::string& scratch) const {
        scratch.assign(message.flags & MessageView::Queue ? "queue:" : "topic:").append(message.destination);
        return scratch == last_allowed || allowed.contains(scratch);
    }

    void published(size_t size) {
        if (allowance) [[unlikely]]
            spent = allowance->spend(number, size);
    }

    void set_transacted(uint16_t session, bool on) {
        std::erase(transacted, session);
        if (on) transacted.push_back(session);
    }

    bool in_transaction(uint16_t session) const { return std::ranges::find(transacted, session) != transacted.end(); }

    // True if its clock is watched and the time in its message is off by too much; once, until it is watched again.
    bool finds_drift(const MessageView& message, int64_t now_ms) {
        if (skew_ms_max < 0 || std::abs(now_ms - id_time_ms(message.id)) <= skew_ms_max) return false;
        skew_ms_max = -1;
        return true;
    }

    // Events to this topic that fit this form are forwarded at once; until `withdraw_event`.
    void advertise_event(std::string topic, EventForm form) {
        if (!events) events = std::make_unique<EventForms>();
        events->set(std::move(topic), std::move(form));
    }

    void withdraw_event(std::string_view topic) {
        if (events) events->drop(topic);
    }

    void note_receipt(uint32_t receipt) {
        if (receipt) receipts.push_back(receipt);
    }
};

}  // namespace tidings
