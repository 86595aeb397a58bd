// SEND frames become messages: the bytes of a native PUBLISH frame, which then takes the path of all others. What each header
// means is in docs/protocols.md. The plain Python of the same is tidings.testing.stomp.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tidings/frames.hpp"
#include "tidings/like.hpp"
#include "tidings/stomp_frame.hpp"
#include "tidings/writer.hpp"

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
    // What was made by other rules is not to be made again.
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

// What a connection that speaks STOMP has besides.
struct StompState {
    StompVersion version = StompVersion::V12;
    size_t searched = 0;                                  // see StompFramer
    uint32_t publisher = 0, broker = 0;                   // of the ids of its messages
    int64_t last_ms = 0;
    uint16_t counter = 0;
    std::string temporary;                                // what the names of its temporary destinations begin with
    uint32_t next_receipt = 1;
    std::unordered_map<uint32_t, std::string> receipts;   // not answered yet: how its client calls them
    std::string last_head, last_publish;                  // a SEND frame up to its body, and what it became
    size_t last_length = 0;                               // of its body, if it said so; otherwise SIZE_MAX
    uint32_t last_types = 0;                              // under which rules
    uint32_t asked = 0;                                   // the receipt of the frame that Python is asked about
    std::unordered_map<uint32_t, std::string> labels;     // by subscription: how its frames begin
    std::vector<std::pair<std::string, uint16_t>> transactions;  // by the client's name: session

    std::string_view label(uint32_t subscription) const {
        const auto found = labels.find(subscription);
        return found == labels.end() ? std::string_view("MESSAGE\n") : found->second;
    }
};

enum class StompHeader : uint8_t {
    Destination, CorrelationId, Type, ReplyTo, Timestamp, Expires, Priority, Persistent, Receipt, Transaction, Meaning,  // of SEND
    Dropped,                                                                                                            // of MESSAGE
    Property,
};

// What a header of SEND is. Those that only MESSAGE has mean nothing here, but copies of received messages have them.
inline StompHeader stomp_header(std::string_view name) {
    switch (name.size()) {
        case 3: return name == "ack" ? StompHeader::Dropped : StompHeader::Property;
        case 4: return name == "type" ? StompHeader::Type : StompHeader::Property;
        case 7: return name == "expires" ? StompHeader::Expires : name == "receipt" ? StompHeader::Receipt : StompHeader::Property;
        case 8: return name == "priority" ? StompHeader::Priority : name == "reply-to" ? StompHeader::ReplyTo : StompHeader::Property;
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
        default: return StompHeader::Property;
    }
}

inline constexpr std::string_view stomp_attribute_prefix = "attribute/";  // before attributes that are called like a header

class StompSender {
public:
    StompTypes types;

    // Publishers often say the same again but for the body. If a frame begins like the last one that asked for neither a receipt
    // nor a transaction, what that one became is copied. Returns how much of the input the frame takes; 0: not so, read it.
    size_t write_again(std::string_view data, size_t bytes_max, StompState& state, int64_t now_ms, std::string& out) const {
        const std::string& head = state.last_head;
        if (state.last_types != types.version() || head.empty() || data.size() <= head.size() || std::memcmp(data.data(), head.data(), head.size()) != 0) return 0;
        size_t size = state.last_length;
        if (size == SIZE_MAX) {
            const void* const end = std::memchr(data.data() + head.size(), 0, data.size() - head.size());
            if (!end) return 0;
            size = static_cast<size_t>(static_cast<const char*>(end) - data.data()) - head.size();
        }
        if (size > bytes_max || data.size() - head.size() <= size || data[head.size() + size] != 0) return 0;
        const size_t start = out.size(), kept = state.last_publish.size();
        out.append(state.last_publish).append(data.substr(head.size(), size));
        char* const place = out.data() + start;
        const auto payload = static_cast<uint32_t>(kept + size - frame_header_bytes);
        std::memcpy(place, &payload, 4);
        write_id(state, now_ms, place + frame_header_bytes + 4 + 4);
        return head.size() + size + 1;
    }

    // Appends a PUBLISH frame to `out`. Throws CodecError with a position in the frame.
    void write(const StompFrame& frame, StompState& state, int64_t now_ms, std::string& out) {
        sort_headers(frame, state);
        const size_t start = out.size();
        out.append(frame_header_bytes + 4, '\0');
        const uint16_t session = found_[index(StompHeader::Transaction)] ? session_of(state) : uint16_t{0};
        write_message(frame, state, now_ms, out);
        const uint32_t receipt = found_[index(StompHeader::Receipt)] ? note_receipt(state) : 0;
        char* place = write_frame_header(out.data() + start, static_cast<uint32_t>(out.size() - start - frame_header_bytes), frame_publish);
        std::memcpy(place - 2, &session, 2);
        std::memcpy(place, &receipt, 4);
        if (!receipt && !session) remember(frame, state, std::string_view(out).substr(start));
    }

    // The receipt that the frame at hand asks for, for an error that comes before it has a number.
    uint32_t receipt_of(const StompFrame& frame, StompState& state) {
        const std::optional<std::string_view> name = frame.find("receipt");
        if (!name || name->size() > name_bytes_max) return 0;
        const uint32_t receipt = take_number(state);
        state.receipts.emplace(receipt, *name);
        return receipt;
    }

private:
    static constexpr size_t name_bytes_max = 1024, remembered_bytes_max = 4096;

    void remember(const StompFrame& frame, StompState& state, std::string_view publish) const {
        const std::string_view head = frame.bytes.substr(0, frame.bytes.size() - frame.body.size());
        if (head.size() > remembered_bytes_max) return;
        state.last_head = head;
        state.last_types = types.version();
        state.last_length = frame.find("content-length") ? frame.body.size() : SIZE_MAX;
        state.last_publish = publish.substr(0, publish.size() - frame.body.size());
    }
    static constexpr size_t index(StompHeader header) { return static_cast<size_t>(header); }
    struct Hash {
        size_t operator()(std::string_view text) const { return hash_name(text); }
    };

    void sort_headers(const StompFrame& frame, const StompState& state) {
        for (std::optional<std::string_view>& one : found_) one.reset();
        properties_.clear();
        const size_t bytes = frame.bytes.size() - frame.body.size();
        if (const size_t wrong = utf8_error(frame.bytes.substr(0, bytes)); wrong != utf8_valid)
            refuse("E_STOMP_UTF8", "the headers are not UTF-8", wrong);
        unescape_.begin(state.version, bytes);
        for (const StompLine& line : frame.lines) {
            const std::string_view name = unescape_(line.name);
            const StompHeader header = stomp_header(name);
            if (header == StompHeader::Property) {
                properties_.emplace_back(name, unescape_(line.value));
            } else if (header < StompHeader::Meaning && !found_[index(header)]) {
                found_[index(header)] = unescape_(line.value);
            }
        }
        drop_repeated();
    }

    // Of several headers with one name the first counts.
    void drop_repeated() {
        for (auto& [name, value] : properties_)
            if (name.starts_with(stomp_attribute_prefix)) name.remove_prefix(stomp_attribute_prefix.size());
        if (properties_.size() < 2) return;
        size_t kept = 0;
        if (properties_.size() <= few) {
            for (const auto& one : properties_) {
                size_t i = 0;
                while (i < kept && properties_[i].first != one.first) ++i;
                if (i == kept) properties_[kept++] = one;
            }
        } else {
            seen_.clear();
            for (const auto& one : properties_)
                if (seen_.insert(one.first).second) properties_[kept++] = one;
        }
        properties_.resize(kept);
    }

    std::optional<std::string_view> value(StompHeader header) const { return found_[index(header)]; }

    void write_message(const StompFrame& frame, StompState& state, int64_t now_ms, std::string& out) {
        if (!value(StompHeader::Destination)) refuse("E_STOMP_HEADER", "SEND without a destination", 0);
        const bool queue = destination(*value(StompHeader::Destination), state, destination_);
        const std::optional<int64_t> expires = time(StompHeader::Expires, "expires is not a time in milliseconds since 1970");
        const std::optional<int64_t> timestamp = time(StompHeader::Timestamp, "timestamp is not a time in milliseconds since 1970");
        const bool ends = expires && *expires > 0;
        const int flags = persistent() * MessageView::Persistent | queue * MessageView::Queue | ends * MessageView::Expires;
        char id[16];
        write_id(state, now_ms, id);
        MessageWriter writer(out);
        writer.begin(static_cast<uint8_t>(flags), priority(), {id, sizeof id}, destination_);
        if (const auto one = value(StompHeader::CorrelationId)) writer.attribute("JMSCorrelationID", Value::string(*one));
        if (const auto one = value(StompHeader::Type)) writer.attribute("JMSType", Value::string(*one));
        if (const auto one = value(StompHeader::ReplyTo)) {
            const bool reply_queue = destination(*one, state, reply_to_);
            reply_to_.insert(0, reply_queue ? "queue:" : "topic:");
            writer.attribute("JMSReplyTo", Value::string(reply_to_));
        }
        if (timestamp) writer.attribute("JMSTimestamp", Value::integer(*timestamp));
        if (ends) writer.attribute("JMSExpiration", Value::integer(*expires));
        for (const auto& [name, text] : properties_) {
            if (name.empty() || name.size() > 255) refuse("E_STOMP_HEADER", "the name of a header has 1 to 255 bytes", 0);
            if (name[0] == '@' || (name.starts_with("JMS") && !name.starts_with("JMSX")))
                refuse("E_STOMP_HEADER", "names that begin with @ or JMS are reserved", 0);
            writer.attribute(name, types.empty() ? Value::text(text) : typed(queue, name, text));
        }
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

    // Returns whether it is a queue; temporary ones get a name that is this connection's.
    static bool destination(std::string_view text, const StompState& state, std::string& name) {
        const auto take = [&](std::string_view prefix) {
            if (!text.starts_with(prefix)) return false;
            text.remove_prefix(prefix.size());
            return true;
        };
        bool queue = true, temporary = false;
        if (take("/topic/")) queue = false;
        else if (take("/temp-topic/")) queue = false, temporary = true;
        else if (take("/temp-queue/")) temporary = true;
        else if (!take("/queue/")) refuse("E_STOMP_DESTINATION", "a destination begins with /topic/, /queue/, /temp-topic/ or /temp-queue/", 0);
        name.assign(temporary ? state.temporary : std::string_view()).append(text);
        try {
            check_destination(name, 0);
        } catch (const CodecError& error) {
            refuse("E_STOMP_DESTINATION", error.reason, error.position);
        }
        return queue;
    }

    std::optional<int64_t> time(StompHeader header, const char* reason) const {
        const std::optional<std::string_view> text = value(header);
        if (!text) return std::nullopt;
        int64_t ms = 0;
        const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), ms);
        if (text->empty() || error != std::errc{} || end != text->data() + text->size() || ms < 0) refuse("E_STOMP_HEADER", reason, 0);
        return ms;
    }

    uint8_t priority() const {
        const std::optional<std::string_view> text = value(StompHeader::Priority);
        if (!text) return 4;
        if (text->size() != 1 || (*text)[0] < '0' || (*text)[0] > '9') refuse("E_STOMP_HEADER", "priority is a number from 0 to 9", 0);
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

    static uint32_t take_number(StompState& state) {
        const uint32_t number = state.next_receipt;
        state.next_receipt = number == INT32_MAX ? 1 : number + 1;  // the session counts its own above
        return number;
    }

    uint32_t note_receipt(StompState& state) const {
        const std::string_view name = *value(StompHeader::Receipt);
        if (name.size() > name_bytes_max) refuse("E_STOMP_HEADER", "a receipt has at most 1024 bytes", 0);
        const uint32_t receipt = take_number(state);
        state.receipts.insert_or_assign(receipt, std::string(name));
        return receipt;
    }

    uint16_t session_of(const StompState& state) const {
        for (const auto& [name, session] : state.transactions)
            if (name == *value(StompHeader::Transaction)) return session;
        refuse("E_STOMP_TRANSACTION", "SEND in a transaction that has not begun", 0);
    }

    static constexpr size_t few = 32;

    StompUnescaper unescape_;
    std::optional<std::string_view> found_[static_cast<size_t>(StompHeader::Meaning)];
    std::vector<std::pair<std::string_view, std::string_view>> properties_;
    std::unordered_set<std::string_view, Hash> seen_;
    std::string destination_, reply_to_;
};

}  // namespace tidings
