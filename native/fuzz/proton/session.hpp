// A session of ours in C++: what src/tidings/protocols/amqp/session.py makes of the events of a connection. Objects of
// Proton's that the Python code holds are held here too, for as long.
#pragma once
#include <sanitizer/asan_interface.h>

#include "links.hpp"

namespace amqp_fuzz {

class Session {
public:
    explicit Session(uint8_t choice) : late_(choice & 2), garbage_(choice & 4) {
        pn_connection_collect(connection_, collector_);
        pn_connection_set_container(connection_, "tidings");
        put_symbols(pn_connection_offered_capabilities(connection_), {"ANONYMOUS-RELAY", "SHARED-SUBS"});
        pn_transport_set_server(transport_);
        pn_transport_set_max_frame(transport_, 64 << 10);
        pn_transport_set_channel_max(transport_, 255);
        pn_transport_set_idle_timeout(transport_, 60000);
        pn_logger_set_log_sink(
            pn_transport_logger(transport_), [](intptr_t, pn_log_subsystem_t, pn_log_level_t, const char*) {}, 0);
        FUZZ_CHECK(pn_transport_bind(transport_, connection_) == 0);
    }

    Session(const Session&) = delete;

    ~Session() {
        pn_collector_free(collector_);
        if (garbage_) broker_.holds.let_go_of_all();
        our_connection_.reset();
        our_transport_.reset();
        links_.clear();
        sessions_.clear();
        broker_.ending.clear();
        broker_.asked.clear();
    }

    bool open() const { return !closed_; }

    void receive(std::string_view data) {
        try {
            while (!data.empty() && !closed_) {
                const size_t used = push(data);
                if (used == 0) break;
                data.remove_prefix(used);
                settle();
            }
            if (!late_ || ++pieces_ % 2 == 0) answer();
        } catch (const Refused&) {
            fail();
        }
        take_output();
    }

    // The connection is lost. Returns all that the client was sent.
    std::string finish() {
        try {
            answer();
            pn_transport_tick(transport_, 1000);
            settle();
        } catch (const Refused&) {
            fail();
        }
        take_output();
        closed_ = true;
        abandon(nullptr);
        sessions_.clear();
        return output_;
    }

private:
    // As pn_transport_push does it, but what lies behind the bytes may not be read.
    size_t push(std::string_view data) {
        const ssize_t capacity = pn_transport_capacity(transport_);
        if (capacity <= 0) return 0;
        const size_t size = std::min(data.size(), static_cast<size_t>(capacity));
        char* const tail = pn_transport_tail(transport_);
        std::memcpy(tail, data.data(), size);
        ASAN_POISON_MEMORY_REGION(tail + size, static_cast<size_t>(capacity) - size);
        const int error = pn_transport_process(transport_, size);
        ASAN_UNPOISON_MEMORY_REGION(tail + size, static_cast<size_t>(capacity) - size);
        if (error < 0) throw Refused{};
        return size;
    }

    void take_output() {
        for (ssize_t pending; (pending = pn_transport_pending(transport_)) > 0;) {
            const size_t size = static_cast<size_t>(pending), before = output_.size();
            output_.resize(before + size);
            FUZZ_CHECK(pn_transport_peek(transport_, output_.data() + before, size) == pending);
            pn_transport_pop(transport_, size);
            if (pn_connection_state(connection_) & PN_LOCAL_ACTIVE) pn_transport_set_idle_timeout(transport_, 0);
        }
    }

    // The broker's answers to what it was asked.
    void answer() {
        for (int rounds = 0; rounds < 3 && !broker_.asked.empty(); ++rounds) {
            for (const Asked& one : std::exchange(broker_.asked, {})) {
                one.then();
            }
            settle();
        }
    }

    void fail() {
        closed_ = true;
        if (pn_connection_state(connection_) & PN_LOCAL_UNINIT) pn_connection_open(connection_);
        if (pn_connection_state(connection_) & PN_LOCAL_ACTIVE) {
            set_condition(pn_connection_condition(connection_));
            pn_connection_close(connection_);
        }
    }

    void settle() {
        while (pn_event_t* event = pn_collector_peek(collector_)) {
            if (!closed_) handle(event);
            pn_collector_pop(collector_);
        }
    }

    void handle(pn_event_t* event) {
        switch (pn_event_type(event)) {
            case PN_CONNECTION_REMOTE_OPEN:
                check_text(pn_connection_remote_container(connection_));
                pn_connection_open(connection_);
                break;
            case PN_CONNECTION_REMOTE_CLOSE:
                abandon(nullptr);
                pn_connection_close(connection_);
                closed_ = true;
                break;
            case PN_SESSION_REMOTE_OPEN: begin(pn_event_session(event)); break;
            case PN_SESSION_REMOTE_CLOSE: end(pn_event_session(event)); break;
            case PN_LINK_REMOTE_OPEN: attach(pn_event_link(event)); break;
            case PN_LINK_REMOTE_CLOSE: detach(pn_event_link(event), true); break;
            case PN_LINK_REMOTE_DETACH: detach(pn_event_link(event), false); break;
            case PN_LINK_FLOW:
                if (Link* ours = find(pn_event_link(event))) ours->flow();
                break;
            case PN_DELIVERY:
                if (Link* ours = find(pn_event_link(event))) ours->updated(pn_event_delivery(event));
                break;
            case PN_TRANSPORT_ERROR: {
                pn_condition_t* const why = pn_transport_condition(transport_);
                check_text(pn_condition_get_name(why));
                check_text(pn_condition_get_description(why));
                closed_ = true;
                throw Refused{};
            }
            default: break;
        }
    }

    void begin(pn_session_t* session) {
        pn_session_set_incoming_capacity(session, 512 * (64 << 10));
        pn_session_open(session);
        sessions_[session] = broker_.holds.hold(session);
    }

    void end(pn_session_t* session) {
        abandon(session);
        const auto kept = broker_.holds.hold(session);
        sessions_.erase(session);
        pn_session_close(session);
        pn_session_free(session);
    }

    // Of this session, or of all.
    void abandon(pn_session_t* session) {
        for (const auto& ending : broker_.ending)
            if (ending->waits_to_end && (!session || ending->session() == session)) ending->drift();
        std::erase_if(broker_.ending, [](const auto& one) { return !one->waits_to_end || !one->link; });
        std::vector<std::shared_ptr<Link>> gone;
        for (const auto& [key, ours] : links_)
            if (!session || ours->session() == session) gone.push_back(ours);
        for (const auto& ours : gone) {
            links_.erase(ours->link.get());
            ours->abandon();
        }
    }

    void attach(pn_link_t* link) {
        const auto ours = pn_link_is_sender(link) ? std::shared_ptr<Link>(std::make_shared<Consumer>(link, broker_))
                                                  : std::shared_ptr<Link>(std::make_shared<Producer>(link, broker_));
        links_[link] = ours;
        pn_terminus_t* const remote = pn_link_remote_source(link);
        const char* const address = pn_terminus_get_address(remote);
        if (pn_link_is_receiver(link) || (address && *address) || pn_terminus_is_dynamic(remote)) {
            pn_terminus_copy(pn_link_source(link), remote);
            pn_terminus_copy(pn_link_target(link), pn_link_remote_target(link));
        }
        const char* const name = pn_link_name(link);
        check_text(name);
        if (!name || !*name || !ours->attach()) {
            ours->refuse();
            pn_terminus_set_type(pn_link_source(link), PN_UNSPECIFIED);
            pn_terminus_set_type(pn_link_target(link), PN_UNSPECIFIED);
            pn_link_open(link);
            set_condition(pn_link_condition(link));
            pn_link_close(link);
        }
    }

    void detach(pn_link_t* link, bool closed) {
        const auto found = links_.find(link);
        if (found == links_.end()) return;
        const auto ours = found->second;
        links_.erase(found);
        ours->end(closed);
        if (ours->waits_to_end) broker_.ending.push_back(ours);
    }

    Link* find(pn_link_t* link) {
        const auto found = links_.find(link);
        return found == links_.end() ? nullptr : found->second.get();
    }

    const bool late_, garbage_;  // whether the broker's answers take their time; in which order Python lets go
    Broker broker_;
    pn_collector_t* const collector_ = pn_collector();
    std::shared_ptr<pn_connection_t> our_connection_ = broker_.holds.adopt(pn_connection());
    std::shared_ptr<pn_transport_t> our_transport_ = broker_.holds.adopt(pn_transport());
    pn_connection_t* const connection_ = our_connection_.get();
    pn_transport_t* const transport_ = our_transport_.get();
    std::map<pn_link_t*, std::shared_ptr<Link>> links_;
    std::map<pn_session_t*, std::shared_ptr<pn_session_t>> sessions_;
    std::string output_;
    unsigned pieces_ = 0;
    bool closed_ = false;
};

}  // namespace amqp_fuzz
