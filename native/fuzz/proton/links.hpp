// Links as src/tidings/protocols/amqp/consumer.py and amqp_producer.py treat them. What the broker would be asked is
// answered later, as it is there: by then a link may have ended, or its session may be gone.
#pragma once
#include <proton/connection.h>
#include <proton/delivery.h>
#include <proton/disposition.h>
#include <proton/event.h>
#include <proton/link.h>
#include <proton/logger.h>
#include <proton/object.h>
#include <proton/session.h>
#include <proton/terminus.h>
#include <proton/transport.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "values.hpp"

namespace amqp_fuzz {

constexpr uint64_t declared = 0x33, transactional = 0x34;
constexpr int producer_credit = 500, slice = 256;

struct Refused {};

// References from Python's objects to Proton's. They are released one by one, or, when the garbage collector finds
// them, all at once in the order in which they were made.
class Holds {
public:
    template <class T>
    std::shared_ptr<T> hold(T* one) {
        pn_incref(one);
        return adopt(one);
    }

    // One that is ours already.
    template <class T>
    std::shared_ptr<T> adopt(T* one) {
        const auto at = held_.emplace(next_++, one).first;
        return {one, [this, number = at->first](T*) { let_go(number); }};
    }

    void let_go_of_all() {
        while (!held_.empty()) let_go(held_.begin()->first);
    }

private:
    void let_go(uint64_t number) {
        const auto found = held_.find(number);
        if (found == held_.end()) return;
        void* const one = found->second;
        held_.erase(found);
        pn_decref(one);
    }

    std::map<uint64_t, void*> held_;
    uint64_t next_ = 0;
};

// Python refuses what is not UTF-8: here, roughly.
inline void check_text(const char* text) {
    for (; text && *text; ++text)
        if (*text & 0x80) throw Refused{};
}

inline void set_condition(pn_condition_t* condition) {
    pn_condition_set_name(condition, "amqp:not-allowed");
    pn_condition_set_description(condition, "E_FUZZ: no; do otherwise");
}

inline void put_symbols(pn_data_t* data, std::initializer_list<const char*> names) {
    pn_data_put_array(data, false, PN_SYMBOL);
    pn_data_enter(data);
    for (const char* name : names) pn_data_put_symbol(data, pn_bytes(std::strlen(name), name));
    pn_data_exit(data);
}

class Link;

// A question to the broker, and the link that asked it.
struct Asked {
    std::function<void()> then;
    std::shared_ptr<Link> who;
};

struct Broker {
    Holds holds;
    std::vector<Asked> asked;
    std::vector<std::shared_ptr<Link>> ending;               // detached, and waiting for the broker's word
    std::string message = std::string("\0Sw\xA1\4text", 9);  // what consumers get: the last that a producer sent
};

class Link : public std::enable_shared_from_this<Link> {
public:
    // A consumer's link holds its session, too, and lets go of it last.
    Link(pn_link_t* link, Broker& broker)
        : session_(pn_link_is_sender(link) ? broker.holds.hold(pn_link_session(link)) : nullptr),
          link(broker.holds.hold(link)),
          broker_(broker) {}
    virtual ~Link() = default;

    virtual bool attach() = 0;  // false: refused
    virtual void refuse() = 0;
    virtual void end(bool closed) = 0;
    virtual void abandon() = 0;
    virtual void flow() {}
    virtual void updated(pn_delivery_t* delivery) = 0;

    pn_session_t* session() const { return session_ ? session_.get() : pn_link_session(link.get()); }

    // The session around it is gone, before the broker's word has come.
    void drift() {
        adrift_ = true;
        link.reset();
    }

private:
    const std::shared_ptr<pn_session_t> session_;

public:
    std::shared_ptr<pn_link_t> link;
    bool waits_to_end = false;

protected:
    virtual void let_go() {
        pn_link_free(link.get());
        link.reset();
    }

    void close(bool closed) {
        if (closed) pn_link_close(link.get());
        else pn_link_detach(link.get());
        let_go();
    }

    void ask(std::function<void()> then) { broker_.asked.push_back({std::move(then), shared_from_this()}); }

    bool ended_ = false, adrift_ = false;
    Broker& broker_;
};

class Consumer : public Link {
public:
    using Link::Link;

    bool attach() override {
        pn_terminus_t* const remote = pn_link_remote_source(link.get());
        const char* const address = pn_terminus_get_address(remote);
        check_text(address);
        copies_ = pn_terminus_get_distribution_mode(remote) == PN_DIST_MODE_COPY;
        if ((!address || !*address) && !pn_terminus_is_dynamic(remote)) {
            pn_terminus_t* const source = pn_link_source(link.get());
            pn_terminus_set_address(source, pn_link_name(link.get()));
            pn_terminus_set_durability(source, PN_DELIVERIES);
            pn_terminus_set_expiry_policy(source, PN_EXPIRE_NEVER);
            pn_link_open(link.get());
            return true;
        }
        look_at_first(pn_terminus_capabilities(remote));
        look_at_first(pn_terminus_filter(remote));
        if (!encodable(pn_terminus_filter(remote))) return false;
        if (address && *address == '!') return false;
        presettled_ = pn_link_remote_snd_settle_mode(link.get()) == PN_SND_SETTLED;
        if (copies_) subscribed();
        else ask([this] { subscribed(); });
        return true;
    }

    void refuse() override { ended_ = true; }

    void end(bool closed) override {
        if (ended_) {
            let_go();
            return;
        }
        unsettled_.clear();
        ended_ = true;
        if (copies_) {
            close(closed);
            return;
        }
        waits_to_end = true;
        ask([this, closed] {
            waits_to_end = false;
            if (adrift_) return;
            if (pn_link_state(link.get()) & PN_LOCAL_UNINIT) pn_link_open(link.get());
            close(closed);
        });
    }

    void abandon() override {
        ended_ = true;
        let_go();
    }

    void flow() override {
        const int allowed = std::min(std::max(pn_link_credit(link.get()), 0), slice);
        if (!active_ || ended_ || asked_) return;
        if (allowed > 0 && pn_session_outgoing_bytes(session()) < 1 << 20) {
            asked_ = true;
            ask([this, allowed] { deliver(allowed); });
        }
    }

    void updated(pn_delivery_t* delivery) override {
        const auto found = unsettled_.find(delivery);
        if (found == unsettled_.end()) return;
        const auto kept = found->second;
        const uint64_t state = pn_delivery_remote_state(delivery);
        pn_disposition_t* const remote = pn_delivery_remote(delivery);
        if (state == transactional) look_at_first(pn_disposition_data(remote));
        if (state == PN_MODIFIED) seen = pn_disposition_is_failed(remote) + pn_disposition_is_undeliverable(remote);
        const bool decided = state == transactional || (state >= PN_ACCEPTED && state <= PN_MODIFIED);
        if (!decided && !pn_delivery_settled(delivery)) return;
        unsettled_.erase(found);
        if (!pn_delivery_settled(delivery) && state != transactional) pn_delivery_update(delivery, state);
        pn_delivery_settle(delivery);
    }

private:
    void let_go() override {
        unsettled_.clear();
        Link::let_go();
    }

    void subscribed() {
        if (ended_) return;
        active_ = true;
        pn_terminus_t *const source = pn_link_source(link.get()), *const remote = pn_link_remote_source(link.get());
        if (pn_terminus_is_dynamic(remote)) pn_terminus_set_address(source, "queue://tmp.1.2.3");
        pn_data_clear(pn_terminus_filter(source));
        pn_data_copy(pn_terminus_filter(source), pn_terminus_filter(remote));
        pn_link_set_snd_settle_mode(link.get(), presettled_ ? PN_SND_SETTLED : PN_SND_UNSETTLED);
        pn_link_set_rcv_settle_mode(link.get(), pn_link_remote_rcv_settle_mode(link.get()));
        pn_link_open(link.get());
        flow();
    }

    // A few messages, and the end of the queue: what is left of a credit that drains is taken back.
    void deliver(int allowed) {
        asked_ = false;
        if (ended_) return;
        for (int i = 0; i < std::min(allowed, 3) && sent_ < 20; ++i) {
            const std::string tag = std::to_string(++sent_);
            pn_delivery_t* const delivery = pn_delivery(link.get(), pn_dtag(tag.data(), tag.size()));
            const auto kept = broker_.holds.hold(delivery);
            pn_link_send(link.get(), broker_.message.data(), broker_.message.size());
            pn_link_advance(link.get());
            if (presettled_) pn_delivery_settle(delivery);
            else unsettled_[delivery] = kept;
        }
        if (pn_link_get_drain(link.get())) pn_link_drained(link.get());
    }

    bool active_ = false, asked_ = false, presettled_ = false, copies_ = false;
    int sent_ = 0;
    std::map<pn_delivery_t*, std::shared_ptr<pn_delivery_t>> unsettled_;
};

class Producer : public Link {
public:
    using Link::Link;

    bool attach() override {
        pn_terminus_t *const target = pn_link_target(link.get()), *const remote = pn_link_remote_target(link.get());
        coordinates_ = pn_terminus_get_type(remote) == PN_COORDINATOR;
        check_text(pn_terminus_get_address(remote));
        look_at_first(pn_terminus_capabilities(remote));
        if (pn_terminus_is_dynamic(remote)) pn_terminus_set_address(target, "queue://tmp.1.2.4");
        else if (const char* address = pn_terminus_get_address(remote); address && *address == '!') return false;
        pn_link_set_snd_settle_mode(link.get(), pn_link_remote_snd_settle_mode(link.get()));
        pn_link_set_rcv_settle_mode(link.get(), PN_RCV_FIRST);
        pn_link_set_max_message_size(link.get(), 1 << 20);
        if (coordinates_) {
            pn_terminus_set_type(target, PN_COORDINATOR);
            pn_data_clear(pn_terminus_capabilities(target));
            put_symbols(pn_terminus_capabilities(target), {"amqp:local-transactions", "amqp:multi-txns-per-ssn"});
        }
        pn_link_open(link.get());
        pn_link_flow(link.get(), producer_credit);
        return true;
    }

    void refuse() override { discards_ = true; }

    void end(bool closed) override {
        ended_ = true;
        close(closed);
    }

    void abandon() override {
        ended_ = true;
        let_go();
    }

    void updated(pn_delivery_t* delivery) override {
        if (pn_delivery_aborted(delivery)) {
            content_.clear();
            pn_delivery_settle(delivery);
            return;
        }
        if (!pn_delivery_readable(delivery)) return;
        if (const size_t pending = pn_delivery_pending(delivery)) {
            const auto part = std::make_unique<char[]>(pending);
            const ssize_t got = pn_link_recv(link.get(), part.get(), pending);
            if (got > 0 && !discards_) content_.append(part.get(), static_cast<size_t>(got));
        }
        if (pn_delivery_partial(delivery)) return;
        const std::string content = std::exchange(content_, {});
        pn_link_advance(link.get());
        if (discards_) {
            pn_delivery_settle(delivery);
            return;
        }
        under_way_[++taken_] = broker_.holds.hold(delivery);
        take(content, delivery);
    }

private:
    void let_go() override {
        under_way_.clear();
        Link::let_go();
    }

    void take(const std::string& content, pn_delivery_t* delivery) {
        const uint64_t state = pn_delivery_remote_state(delivery);
        if (state == transactional) look_at_first(pn_disposition_data(pn_delivery_remote(delivery)));
        if (!decode_values(content)) {
            settled(taken_, false, 0);
            return;
        }
        if (!coordinates_) broker_.message = content;
        const uint64_t outcome = coordinates_ ? declared : state == transactional ? transactional : PN_ACCEPTED;
        ask([this, number = taken_, outcome] { settled(number, true, outcome); });
    }

    // The broker has decided.
    void settled(int number, bool accepted, uint64_t outcome) {
        if (ended_) return;
        const auto kept = under_way_.extract(number).mapped();
        pn_delivery_t* const delivery = kept.get();
        const bool presettled = pn_delivery_settled(delivery);
        if (!accepted && presettled && !discards_) {
            discards_ = true;
            set_condition(pn_link_condition(link.get()));
            pn_link_close(link.get());
        } else if (!accepted && !presettled) {
            set_condition(pn_disposition_condition(pn_delivery_local(delivery)));
            pn_delivery_update(delivery, PN_REJECTED);
        } else if (!presettled) {
            if (outcome != PN_ACCEPTED) put_transaction(pn_disposition_data(pn_delivery_local(delivery)), outcome);
            pn_delivery_update(delivery, outcome);
        }
        pn_delivery_settle(delivery);
        const int credit = pn_link_credit(link.get());
        if (credit < 0 || credit > producer_credit) {  // the delivery count leaves the credit given
            if (!discards_) {
                discards_ = true;
                set_condition(pn_link_condition(link.get()));
                pn_link_close(link.get());
            }
            return;
        }
        const int more = producer_credit - credit - static_cast<int>(under_way_.size());
        if (more * 2 >= producer_credit && !discards_) pn_link_flow(link.get(), more);
    }

    static void put_transaction(pn_data_t* data, uint64_t outcome) {
        pn_data_put_list(data);
        pn_data_enter(data);
        pn_data_put_binary(data, pn_bytes(2, "\0\1"));
        if (outcome == transactional) {
            pn_data_put_described(data);
            pn_data_enter(data);
            pn_data_put_ulong(data, PN_ACCEPTED);
            pn_data_put_list(data);
            pn_data_exit(data);
        }
        pn_data_exit(data);
    }

    bool coordinates_ = false, discards_ = false;
    int taken_ = 0;
    std::map<int, std::shared_ptr<pn_delivery_t>> under_way_;
    std::string content_;
};

}  // namespace amqp_fuzz
