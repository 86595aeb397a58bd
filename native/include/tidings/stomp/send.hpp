// SEND frames become messages: the bytes of a native PUBLISH frame, which then takes the path of all others. What each
// header means is in docs/protocols.md. The plain Python of the same is hardening.support.stomp.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tidings/codec/frames.hpp"
#include "tidings/matching/like.hpp"
#include "tidings/stomp/destination.hpp"
#include "tidings/stomp/receipts.hpp"
#include "tidings/stomp/send_template.hpp"

namespace tidings {

enum class StompType : uint8_t { Text, String, Int, Float, Bool };

// Types that the configuration declares for properties of some destinations.
class StompTypes {
public:
    struct Rule {
        std::string pattern;
        bool queue;
        std::string name;
        StompType type;
    };

    void set(std::vector<Rule> rules) {
        rules_ = std::move(rules);
        known_.clear();
        ++version_;
    }
    // A frame that was made by other rules is not to be made again.
    uint32_t version() const { return version_; }
    bool empty() const { return rules_.empty(); }

    StompType find(bool queue, std::string_view destination, std::string_view name) {
        for (const size_t i : rules_of(queue, destination))
            if (rules_[i].name == name) return rules_[i].type;
        return StompType::Text;
    }

private:
    static constexpr size_t known_max = 10'000;

    const std::vector<size_t>& rules_of(bool queue, std::string_view destination) {
        key_.assign(1, queue ? 'q' : 't').append(destination);
        if (const auto found = known_.find(key_); found != known_.end()) return found->second;
        if (known_.size() >= known_max) known_.clear();
        std::vector<size_t>& fitting = known_[key_];
        for (size_t i = 0; i < rules_.size(); ++i)
            if (rules_[i].queue == queue && topic_matches(rules_[i].pattern, destination)) fitting.push_back(i);
        return fitting;
    }

    std::vector<Rule> rules_;
    uint32_t version_ = 0;
    std::unordered_map<std::string, std::vector<size_t>> known_;
    std::string key_;
};

// The state of a connection that speaks STOMP, besides a Connection.
struct StompState {
    enum class Acks : uint8_t { None, Each, Cumulative };  // what its acknowledgements mean
    struct Label {
        std::string begin;  // of each of its frames
        Acks acks = Acks::None;
    };
    StompVersion version = StompVersion::V12;
    size_t searched = 0;                 // see StompFramer
    uint32_t publisher = 0, broker = 0;  // of the ids of its messages
    int64_t last_ms = 0;
    uint16_t counter = 0;
    std::string temporary;                       // what the names of its temporary destinations begin with
    StompReceipts receipts;                      // not answered yet
    StompSendTemplates send_templates;           // of its SEND frames
    uint32_t asked = 0;                          // the receipt of the frame that Python is asked about
    std::unordered_map<uint32_t, Label> labels;  // by subscription
    std::vector<std::pair<std::string, uint16_t>> transactions;  // by the client's name: session

    std::string_view label(uint32_t subscription) const {
        const auto found = labels.find(subscription);
        return found == labels.end() ? std::string_view("MESSAGE\n") : found->second.begin;
    }
};

enum class StompHeader : uint8_t {
    Destination,
    CorrelationId,
    Type,
    ReplyTo,
    Timestamp,
    Expires,
    Delay,
    Priority,
    Persistent,
    Receipt,
    Transaction,
    Meaning,   // of SEND
    Dropped,   // of MESSAGE
    Schedule,  // what other brokers understand and this one does not
    Property,
};

// The headers of SEND. Those that only MESSAGE has are ignored, but copies of received messages have them.
inline StompHeader stomp_header(std::string_view name) {
    switch (name.size()) {
        case 3: return name == "ack" ? StompHeader::Dropped : StompHeader::Property;
        case 4: return name == "type" ? StompHeader::Type : StompHeader::Property;
        case 7:
            return name == "expires"   ? StompHeader::Expires
                   : name == "receipt" ? StompHeader::Receipt
                                       : StompHeader::Property;
        case 8:
            return name == "priority"   ? StompHeader::Priority
                   : name == "reply-to" ? StompHeader::ReplyTo
                                        : StompHeader::Property;
        case 9: return name == "timestamp" ? StompHeader::Timestamp : StompHeader::Property;
        case 10:
            if (name == "persistent") return StompHeader::Persistent;
            return name == "message-id" || name == "receipt-id" ? StompHeader::Dropped : StompHeader::Property;
        case 11:
            if (name == "destination") return StompHeader::Destination;
            if (name == "transaction") return StompHeader::Transaction;
            return name == "redelivered" ? StompHeader::Dropped : StompHeader::Property;
        case 12: return name == "subscription" ? StompHeader::Dropped : StompHeader::Property;
        case 14:
            if (name == "correlation-id") return StompHeader::CorrelationId;
            return name == "content-length" ? StompHeader::Dropped : StompHeader::Property;
        case 18: return name == "AMQ_SCHEDULED_CRON" ? StompHeader::Schedule : StompHeader::Property;
        case 19: return name == "AMQ_SCHEDULED_DELAY" ? StompHeader::Delay : StompHeader::Property;
        case 20:
            return name == "AMQ_SCHEDULED_PERIOD" || name == "AMQ_SCHEDULED_REPEAT" ? StompHeader::Schedule
                                                                                    : StompHeader::Property;
        default: return StompHeader::Property;
    }
}

inline constexpr std::string_view stomp_attribute_prefix =
    "attribute/";  // before attributes that are called like a header

class StompSender {
public:
    StompTypes types;

    // If a frame fits the template of those before: the bytes of input it takes. 0: it does not, `write` it.
    size_t write_again(std::string_view data, size_t bytes_max, StompState& state, int64_t now_ms, Scratch& out) const {
        const size_t start = out.size();
        const StompSendTemplate* const filled = state.send_templates.fill(data, bytes_max, types.version(), out);
        if (!filled) return 0;
        if (filled->receipt().size() > StompReceipts::name_bytes_max)
            return out.cut(start), size_t{0};  // `write` says what is wrong
        char* const place = out.data() + start + frame_header_bytes;
        const uint32_t receipt = filled->receipt().data() ? state.receipts.add(filled->receipt()) : 0;
        std::memcpy(place, &receipt, 4);
        write_id(state, now_ms, place + 4 + 4);
        return filled->size();
    }

    // Appends a PUBLISH frame to `out`. Throws CodecError with a position in the frame.
    void write(const StompFrame& frame, StompState& state, int64_t now_ms, Scratch& out) {
        sort_headers(frame, state);
        publish_.assign(frame_header_bytes + 4, '\0');
        const uint16_t session = value(StompHeader::Transaction) ? session_of(state) : uint16_t{0};
        write_message(frame, state, now_ms);
        const uint32_t receipt = value(StompHeader::Receipt) ? note_receipt(state) : 0;
        char* place = write_frame_header(publish_.data(), static_cast<uint32_t>(publish_.size() - frame_header_bytes),
                                         FramePublish);
        std::memcpy(place - 2, &session, 2);
        std::memcpy(place, &receipt, 4);
        out.put(publish_);
        if (!session && !value(StompHeader::Delay) &&
            frame.bytes.size() - frame.body.size() <= StompSendTemplate::head_bytes_max)
            learn(frame, state);
    }

    // The receipt that the frame at hand asks for, for an error that comes before it has a number.
    uint32_t receipt_of(const StompFrame& frame, StompState& state) {
        const std::optional<std::string_view> name = frame.find("receipt");
        return name && name->size() <= StompReceipts::name_bytes_max ? state.receipts.add(*name) : 0;
    }

private:
    struct Property {
        std::string_view name, value;
        size_t line;
    };

    static constexpr size_t index(StompHeader header) { return static_cast<size_t>(header); }
    static constexpr size_t no_line = SIZE_MAX;
    static constexpr int64_t delay_ms_max = 10ll * 366 * 24 * 3'600'000;
    struct Hash {
        size_t operator()(std::string_view text) const { return hash_name(text); }
    };

    void sort_headers(const StompFrame& frame, const StompState& state) {
        for (Found& one : found_) one.line = no_line;
        properties_.clear();
        plain_names_ = true;
        const size_t bytes = frame.bytes.size() - frame.body.size();
        if (const size_t wrong = utf8_error(frame.bytes.substr(0, bytes)); wrong != utf8_valid)
            refuse("E_STOMP_UTF8", "the headers are not UTF-8", wrong);
        unescape_.begin(state.version, bytes);
        for (size_t i = 0; i < frame.lines.size(); ++i) {
            const StompLine& line = frame.lines[i];
            const std::string_view name = unescape_(line.name);
            plain_names_ &= name.data() == line.name.data() && name.size() == line.name.size();
            const StompHeader header = stomp_header(name);
            if (header == StompHeader::Property) {
                properties_.push_back({name, unescape_(line.value), i});
            } else if (header == StompHeader::Schedule) {
                refuse("E_STOMP_HEADER", "repeated delivery is not supported: use AMQ_SCHEDULED_DELAY alone", 0);
            } else if (header < StompHeader::Meaning && found_[index(header)].line == no_line) {
                found_[index(header)] = {i, unescape_(line.value)};
            }
        }
        drop_repeated();
    }

    // Of several headers with one name the first counts.
    void drop_repeated() {
        for (Property& one : properties_)
            if (one.name.starts_with(stomp_attribute_prefix)) one.name.remove_prefix(stomp_attribute_prefix.size());
        if (properties_.size() < 2) return;
        size_t kept = 0;
        if (properties_.size() <= few) {
            for (const Property& one : properties_) {
                size_t i = 0;
                while (i < kept && properties_[i].name != one.name) ++i;
                if (i == kept) properties_[kept++] = one;
            }
        } else {
            seen_.clear();
            for (const Property& one : properties_)
                if (seen_.insert(one.name).second) properties_[kept++] = one;
        }
        properties_.resize(kept);
    }

    // For the frames that follow. Which attribute a line's value has become is clear for texts; the others must stay
    // the same.
    void learn(const StompFrame& frame, StompState& state) {
        using Role = StompSendTemplate::Role;
        uses_.assign(frame.lines.size(), {Role::Nothing});
        for (const Found& one : found_)
            if (one.line != no_line) uses_[one.line].role = Role::Same;
        uses_[found_[index(StompHeader::Destination)].line].role = Role::Destination;
        if (const Found& receipt = found_[index(StompHeader::Receipt)]; receipt.line != no_line)
            uses_[receipt.line].role = Role::Receipt;
        uint32_t attribute = 0;
        for (const StompHeader header : {StompHeader::CorrelationId, StompHeader::Type})
            if (const Found& one = found_[index(header)]; one.line != no_line)
                uses_[one.line] = {Role::Value, attribute++};
        attribute = attributes_ - static_cast<uint32_t>(properties_.size());
        for (const Property& one : properties_) uses_[one.line] = {Role::Value, attribute++};
        for (size_t i = 0; i < frame.lines.size(); ++i)
            if (frame.lines[i].name == "content-length") {
                uses_[i].role = Role::Length;
                break;
            }
        state.send_templates.next().learn(frame, uses_, publish_, state.version, types.version(),
                                          plain_names_ && types.empty());
    }

    std::optional<std::string_view> value(StompHeader header) const {
        const Found& one = found_[index(header)];
        return one.line == no_line ? std::nullopt : std::optional(one.value);
    }

    void write_message(const StompFrame& frame, StompState& state, int64_t now_ms) {
        if (!value(StompHeader::Destination)) refuse("E_STOMP_HEADER", "SEND without a destination", 0);
        const bool queue = read_stomp_destination(*value(StompHeader::Destination), state.temporary, destination_);
        const std::optional<int64_t> expires = time(StompHeader::Expires,
                                                    "expires is not a time in milliseconds since 1970");
        const std::optional<int64_t> timestamp = time(StompHeader::Timestamp,
                                                      "timestamp is not a time in milliseconds since 1970");
        const std::optional<int64_t> delay = time(StompHeader::Delay,
                                                  "AMQ_SCHEDULED_DELAY is not a number of milliseconds");
        const bool ends = expires && *expires > 0, later = delay && *delay > 0;
        if (later && *delay > delay_ms_max) refuse("E_STOMP_HEADER", "AMQ_SCHEDULED_DELAY is more than ten years", 0);
        const int flags = persistent() * MessageView::Persistent | queue * MessageView::Queue |
                          ends * MessageView::Expires | later * MessageView::Delayed;
        char id[16];
        write_id(state, now_ms, id);
        MessageWriter writer(publish_);
        writer.begin(static_cast<uint8_t>(flags), priority(), {id, sizeof id}, destination_);
        if (const auto one = value(StompHeader::CorrelationId))
            writer.attribute("JMSCorrelationID", Value::string(*one));
        if (const auto one = value(StompHeader::Type)) writer.attribute("JMSType", Value::string(*one));
        if (const auto one = value(StompHeader::ReplyTo)) {
            const bool reply_queue = read_stomp_destination(*one, state.temporary, reply_to_);
            reply_to_.insert(0, reply_queue ? "queue:" : "topic:");
            writer.attribute("JMSReplyTo", Value::string(reply_to_));
        }
        if (timestamp) writer.attribute("JMSTimestamp", Value::integer(*timestamp));
        if (ends) writer.attribute("JMSExpiration", Value::integer(*expires));
        if (later) writer.attribute("JMSDeliveryTime", Value::integer(now_ms + *delay));
        for (const auto& [name, text, line] : properties_) {
            if (name.empty() || name.size() > 255)
                refuse("E_STOMP_HEADER", "the name of a header has 1 to 255 bytes", 0);
            if (name[0] == '@' || (name.starts_with("JMS") && !name.starts_with("JMSX")))
                refuse("E_STOMP_HEADER", "names that begin with @ or JMS are reserved", 0);
            writer.attribute(name, types.empty() ? Value::text(text) : typed(queue, name, text));
        }
        attributes_ = static_cast<uint32_t>(writer.count());
        writer.finish(frame.body);
    }

    Value typed(bool queue, std::string_view name, std::string_view text) {
        const StompType type = types.find(queue, destination_, name);
        if (type == StompType::Text) return Value::text(text);
        if (type == StompType::String) return Value::string(text);
        const std::optional<Value> read = reading(text);
        if (read && type == StompType::Bool && read->type == Type::Bool) return *read;
        if (read && type == StompType::Int && read->type == Type::Int) return *read;
        if (read && type == StompType::Float && read->kind() == Kind::Number)
            return Value::real(read->type == Type::Int ? static_cast<double>(read->i) : read->d);
        refuse("E_STOMP_TYPE", "a header is not of the type that is declared for this destination", 0);
    }

    std::optional<int64_t> time(StompHeader header, const char* reason) const {
        const std::optional<std::string_view> text = value(header);
        if (!text) return std::nullopt;
        int64_t ms = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), ms);
        if (text->empty() || error != std::errc{} || end != text->data() + text->size() || ms < 0)
            refuse("E_STOMP_HEADER", reason, 0);
        return ms;
    }

    uint8_t priority() const {
        const std::optional<std::string_view> text = value(StompHeader::Priority);
        if (!text) return 4;
        if (text->size() != 1 || (*text)[0] < '0' || (*text)[0] > '9')
            refuse("E_STOMP_HEADER", "priority is a number from 0 to 9", 0);
        return static_cast<uint8_t>((*text)[0] - '0');
    }

    bool persistent() const {
        const std::optional<std::string_view> text = value(StompHeader::Persistent);
        if (!text) return false;
        const std::optional<Value> read = reading(*text);
        if (!read || read->type != Type::Bool) refuse("E_STOMP_HEADER", "persistent is true or false", 0);
        return read->i != 0;
    }

    // Publisher, broker, milliseconds and a counter, as in docs/wire.md. Times never go back, so no id comes twice.
    static void write_id(StompState& state, int64_t now_ms, char* id) {
        if (now_ms > state.last_ms) {
            state.last_ms = now_ms;
            state.counter = 0;
        } else if (++state.counter == 0) {
            ++state.last_ms;
        }
        const uint64_t high = uint64_t{state.publisher} << 32 | state.broker;
        const uint64_t low = static_cast<uint64_t>(state.last_ms) << 16 | state.counter;
        for (int i = 0; i < 8; ++i) {
            id[i] = static_cast<char>(high >> (56 - 8 * i));
            id[8 + i] = static_cast<char>(low >> (56 - 8 * i));
        }
    }

    uint32_t note_receipt(StompState& state) const {
        const std::string_view name = *value(StompHeader::Receipt);
        if (name.size() > StompReceipts::name_bytes_max)
            refuse("E_STOMP_HEADER", "a receipt has at most 1024 bytes", 0);
        return unescape_.made(name) ? state.receipts.add_copy(name) : state.receipts.add(name);
    }

    uint16_t session_of(const StompState& state) const {
        for (const auto& [name, session] : state.transactions)
            if (name == *value(StompHeader::Transaction)) return session;
        refuse("E_STOMP_TRANSACTION", "SEND in a transaction that has not begun", 0);
    }

    static constexpr size_t few = 32;

    StompUnescaper unescape_;
    struct Found {
        size_t line = no_line;
        std::string_view value;
    };
    Found found_[static_cast<size_t>(StompHeader::Meaning)];
    std::vector<Property> properties_;
    bool plain_names_ = true;  // all names mean what stands there
    uint32_t attributes_ = 0;  // of the message, properties last
    std::vector<StompSendTemplate::Use> uses_;
    std::string publish_;
    std::unordered_set<std::string_view, Hash> seen_;
    std::string destination_, reply_to_;
};

}  // namespace tidings
