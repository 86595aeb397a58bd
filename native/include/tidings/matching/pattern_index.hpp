// Finds the patterns and long INs that a value satisfies. Done once for each new value; the answer is kept
// (value_blocks.hpp).
//
// Each pattern is filed under a literal piece that a matching text must have: at its start (PREFIX, TOPIC's first
// levels, LIKE's head), at its end (SUFFIX), or anywhere (CONTAINS, LIKE's longest fragment). A text is then asked for
// its own pieces of exactly the lengths that are present: one probe a length at the ends, positions x lengths inside.
// Pieces are cut to 32 bytes, inside to 8, so that no pattern and no text makes this dearer than some constants times
// the text's length. A hit whose pattern is longer or more than its piece is verified.
//
// How many are verified, and over how long a text, is chosen by clients, so all of this has a budget (budget.hpp). In
// long texts patterns that cost less are verified first, of equal ones those with lower numbers, which are mostly the
// older ones: many that come later cannot displace them. A search for pieces that is given up leaves those patterns
// unknown whose pieces were not yet found, except that shorter pieces have been looked for first.
#pragma once
#include <algorithm>
#include <bit>
#include <utility>

#include "tidings/forwarding/overruns.hpp"
#include "tidings/matching/constraint_table.hpp"

namespace tidings {

class PatternIndex {
public:
    PatternIndex(ConstraintTable& table, Budget& budget, Overruns& overruns)
        : table_(table),
          budget_(budget),
          overruns_(overruns) {}

    void add(uint32_t number) {
        Interned& one = table_[number];
        if (one.op == Op::In) return add_members(number);
        AttributeRecord& attribute = table_.attribute(one.attribute);
        if (one.op == Op::Like) note_key(*one.held);
        const Key key = key_of(one);
        if (key.family == keyless) {
            one.next = attribute.keyless;
            attribute.keyless = number;
            return;
        }
        if (!attribute.keys) attribute.keys = std::make_unique<PatternKeys>();
        KeyLengths& lengths = attribute.keys->lengths[key.family];
        if (++lengths.counts[key.text.size()] == 1) lengths.mask |= 1ull << key.text.size();
        const uint64_t hash = hash_of(attribute.hash, key.family, key.text);
        const uint32_t head = find(hash, one.attribute, key);
        one.next = head;
        if (head == none && key.family == inside) sift(one.attribute, key.text);
        if (head == none) heads_.insert(hash, number);
        else heads_.replace(hash, head, number);
    }

    void remove(uint32_t number) {
        Interned& one = table_[number];
        if (one.op == Op::In) return remove_members(number);
        AttributeRecord& attribute = table_.attribute(one.attribute);
        const Key key = key_of(one);
        if (key.family == keyless) return unlink(attribute.keyless, number);
        KeyLengths& lengths = attribute.keys->lengths[key.family];
        if (--lengths.counts[key.text.size()] == 0) {
            lengths.mask &= ~(1ull << key.text.size());
            if (key.family == inside) attribute.keys->sieves[key.text.size()].reset();
        }
        const uint64_t hash = hash_of(attribute.hash, key.family, key.text);
        const uint32_t head = find(hash, one.attribute, key);
        uint32_t first = head;
        unlink(first, number);
        if (first == none) heads_.erase(hash, head);
        else if (first != head) heads_.replace(hash, head, first);
    }

    // Appends the satisfied patterns and INs, each once.
    void find_satisfied(uint32_t attribute_number, const Value& value, uint64_t hash, std::vector<uint32_t>& found) {
        const AttributeRecord& attribute = table_.attribute(attribute_number);
        const size_t start = found.size();
        if (value.kind() == Kind::String) {
            pieces_.clear();
            if (attribute.keys) {
                find_at_ends(attribute_number, value.s, prefix);
                find_at_ends(attribute_number, value.s, suffix);
                find_inside(attribute_number, value.s, found);
            }
            if (attribute.keyless != none) pieces_.push_back(attribute.keyless);
            value.s.size() < long_bytes ? verify_all(value, found) : verify_in_order(value, found);
        }
        for (uint32_t i = find_member(attribute_number, value, hash); i != none; i = members_[i].next)
            if (std::find(found.begin() + static_cast<ptrdiff_t>(start), found.end(), members_[i].number) ==
                found.end())
                found.push_back(members_[i].number);
    }

    bool has_member(uint32_t attribute_number, const Attribute& attribute) const {
        return find_member(attribute_number, attribute.value, attribute.hash) != none;
    }

    size_t bytes() const { return heads_.bytes() + member_heads_.bytes() + members_.bytes(); }

private:
    static constexpr unsigned prefix = 0, suffix = 1, inside = 2, keyless = 3;
    static constexpr size_t end_bytes_max = KeyLengths::length_max, inside_bytes_max = PatternKeys::inside_bytes_max;
    static constexpr size_t long_bytes = 256;             // of a text with which the order of patterns may matter
    static constexpr size_t recent_bytes = 64;            // of a text in which pieces are likely to come again
    static constexpr size_t positions_at_once = 1 << 12;  // between two looks at the budget
    static constexpr uint64_t probe_steps = 24;

    struct Key {
        unsigned family;
        std::string_view text;
    };
    struct Member {
        uint32_t number = none, next = none;
        Value value;
    };

    static Key key_of(const Interned& one) {
        const std::string_view text = one.value.s;
        switch (one.op) {
            case Op::Prefix: return {prefix, text.substr(0, end_bytes_max)};
            case Op::Suffix:
                return {suffix, text.size() > end_bytes_max ? text.substr(text.size() - end_bytes_max) : text};
            case Op::Contains: return {inside, text.substr(0, inside_bytes_max)};
            case Op::Topic: {
                size_t end = 0;  // after the last dot before the first wildcard
                for (size_t start = 0; text[start] != '*' && text[start] != '>';)
                    end = start = text.find('.', start) + 1;
                return end ? Key{prefix, text.substr(0, std::min(end, end_bytes_max))} : Key{keyless, {}};
            }
            default: return like_key(*one.held);
        }
    }

    // Asked for at every place of a text where the hashes agree, so it is found once.
    static Key like_key(const Held& held) {
        if (held.key_bytes == 0) return {keyless, {}};
        return {held.key_is_head ? prefix : inside, held.constraint.value.s.substr(held.key_start, held.key_bytes)};
    }

    // The literal head if it is worth it, otherwise the longest fragment without wildcards and escapes.
    static void note_key(Held& held) {
        const std::string_view pattern = held.constraint.value.s;
        std::string_view longest, head;
        for (size_t start = 0; start <= pattern.size();) {
            const size_t end = std::min(pattern.find_first_of("%_\\", start), pattern.size());
            const std::string_view fragment = pattern.substr(start, end - start);
            if (start == 0) head = fragment;
            if (fragment.size() > longest.size()) longest = fragment;
            start = end + (end < pattern.size() && pattern[end] == '\\' ? 2 : 1);
        }
        held.key_is_head = !longest.empty() && head.size() >= std::min<size_t>(longest.size(), 3);
        const std::string_view key = held.key_is_head ? head.substr(0, end_bytes_max)
                                                      : longest.substr(0, inside_bytes_max);
        held.key_start = key.empty() ? 0 : static_cast<uint32_t>(key.data() - pattern.data());
        held.key_bytes = static_cast<uint32_t>(key.size());
    }

    // Up to 8 bytes, padded with zeros.
    static uint64_t word_of(std::string_view text) {
        uint64_t word = 0;
        std::memcpy(&word, text.data(), text.size());
        return word;
    }

    static uint64_t hash_of(uint64_t attribute_hash, unsigned family, std::string_view text) {
        const uint64_t seed = attribute_hash + (family + 1) * 0x9E3779B97F4A7C15ull;
        if (text.size() > 8) return hash64(text, seed);
        return mix64((seed ^ word_of(text)) + text.size());
    }

    uint32_t find(uint64_t hash, uint32_t attribute, const Key& key) const {
        return heads_.find(hash, [&](uint32_t number) {
            if (table_[number].attribute != attribute) return false;
            const Key other = key_of(table_[number]);
            return other.family == key.family && other.text == key.text;
        });
    }

    // A new key inside.
    void sift(uint32_t attribute, std::string_view key) {
        const AttributeRecord& record = table_.attribute(attribute);
        std::unique_ptr<Sieve>& sieve = record.keys->sieves[key.size()];
        if (!sieve) sieve = std::make_unique<Sieve>();
        sieve->add(word_of(key), [&](uint64_t word) {
            const std::string_view text(reinterpret_cast<const char*>(&word), key.size());
            return find(hash_of(record.hash, inside, text), attribute, {inside, text}) != none;
        });
    }

    void look(uint32_t attribute, const Key& key) {
        const uint32_t head = find(hash_of(table_.attribute(attribute).hash, key.family, key.text), attribute, key);
        if (head != none) pieces_.push_back(head);
    }

    void find_at_ends(uint32_t attribute, std::string_view text, unsigned family) {
        for (uint64_t mask = table_.attribute(attribute).keys->lengths[family].mask; mask; mask &= mask - 1) {
            const size_t length = static_cast<size_t>(std::countr_zero(mask));
            if (length > text.size()) break;
            look(attribute, {family, text.substr(family == prefix ? 0 : text.size() - length, length)});
        }
    }

    // Appends to `found` only what is in doubt because the search was given up.
    void find_inside(uint32_t attribute, std::string_view text, std::vector<uint32_t>& found) {
        uint64_t mask = table_.attribute(attribute).keys->lengths[inside].mask;
        if (mask & 1) look(attribute, {inside, {}});  // the empty piece is everywhere
        budget_.begin_shared();
        for (mask &= ~1ull; mask; mask &= mask - 1) {
            const size_t length = static_cast<size_t>(std::countr_zero(mask));
            if (length > text.size()) break;
            if (met_.size() <= table_.end() / 64) met_.resize(table_.end() / 64 + 1);
            const size_t first = pieces_.size();
            const bool whole = find_inside_of(attribute, text, length);
            for (size_t i = first; i < pieces_.size(); ++i) met_[pieces_[i] / 64] = 0;
            if (whole) continue;
            give_up_inside(attribute, length, found);
            break;
        }
        budget_.end_shared();
    }

    // Pieces of one length, each once; false if the search was given up.
    bool find_inside_of(uint32_t attribute, std::string_view text, size_t length) {
        const AttributeRecord& record = table_.attribute(attribute);
        const Sieve& sieve = *record.keys->sieves[length];
        const uint64_t cut = ~0ull >> (64 - 8 * length);
        const size_t end = text.size() - length + 1, wide_end = text.size() < 8 ? 0 : text.size() - 7;
        const bool repeats = text.size() >= recent_bytes;
        if (repeats) recent_.fill(~0ull);  // in no valid text
        for (size_t at = 0; at < end;) {
            const size_t start = at, stop = std::min(end, at + positions_at_once);
            size_t probes = 0;
            for (; at < stop; ++at) {
                uint64_t word;
                if (at < wide_end) [[likely]]
                    std::memcpy(&word, text.data() + at, 8);
                else word = word_of(text.substr(at, length));
                word &= cut;
                if (!sieve.may_have(word)) continue;
                if (repeats && std::exchange(recent_[Sieve::hash(word) >> 58], word) == word) continue;
                ++probes;
                const std::string_view piece = text.substr(at, length);
                const uint32_t head = find(hash_of(record.hash, inside, piece), attribute, {inside, piece});
                if (head == none || met_[head / 64] >> (head & 63) & 1) continue;
                met_[head / 64] |= 1ull << (head & 63);
                pieces_.push_back(head);
            }
            if (!budget_.take(2 * (at - start) + probes * probe_steps)) return false;
        }
        return true;
    }

    // Patterns whose keys are of this length or longer are unknown unless they were found before.
    void give_up_inside(uint32_t attribute, size_t length, std::vector<uint32_t>& found) {
        const auto unknown = [&](const Interned& one) {
            const Key key = key_of(one);
            return key.family == inside && key.text.size() >= length;
        };
        for (uint32_t number = 0; number < table_.end(); ++number) {
            const Interned& one = table_[number];
            if (one.references == 0 || one.attribute != attribute || !one.is_pattern() || !unknown(one)) continue;
            if (overruns_.give_up_constraint(number)) found.push_back(number);
        }
        if (overruns_.in_doubt) std::erase_if(pieces_, [&](uint32_t head) { return unknown(table_[head]); });
    }

    void verify_all(const Value& value, std::vector<uint32_t>& found) {
        for (const uint32_t head : pieces_)
            for (uint32_t number = head; number != none; number = table_[number].next) verify(number, value, found);
    }

    void verify_in_order(const Value& value, std::vector<uint32_t>& found) {
        ordered_.clear();
        for (const uint32_t head : pieces_)
            for (uint32_t number = head; number != none; number = table_[number].next)
                ordered_.push_back((proven(table_[number]) ? 0 : words(table_[number]) + 1) << 32 | number);
        std::sort(ordered_.begin(), ordered_.end());
        for (const uint64_t one : ordered_) verify(static_cast<uint32_t>(one), value, found);
    }

    static uint64_t words(const Interned& one) { return one.op == Op::Like ? one.held->constraint.like->words() : 0; }

    static bool proven(const Interned& one) {
        return one.op == Op::Contains ? one.value.s.size() <= inside_bytes_max
                                      : one.op <= Op::Suffix && one.value.s.size() <= end_bytes_max;
    }

    void verify(uint32_t number, const Value& value, std::vector<uint32_t>& found) {
        const Interned& one = table_[number];
        if (proven(one)) return found.push_back(number);
        budget_.begin_filter();
        const bool holds = table_.holds(one, &value, budget_);
        if (budget_.exhausted() ? overruns_.give_up_constraint(number) : holds) found.push_back(number);
    }

    void unlink(uint32_t& head, uint32_t number) {
        uint32_t* at = &head;
        while (*at != number) at = &table_[*at].next;
        *at = table_[number].next;
    }

    uint32_t find_member(uint32_t attribute, const Value& value, uint64_t hash) const {
        return member_heads_.find(hash, [&](uint32_t i) {
            return table_[members_[i].number].attribute == attribute && equal(members_[i].value, value);
        });
    }

    void add_members(uint32_t number) {
        const Interned& one = table_[number];
        for (const Value& value : one.held->constraint.list) {
            const uint64_t hash = hash_value(value, table_.attribute(one.attribute).hash);
            const uint32_t head = find_member(one.attribute, value, hash), made = members_.take();
            members_[made].number = number;
            members_[made].value = value;
            members_[made].next = head;
            if (head == none) member_heads_.insert(hash, made);
            else member_heads_.replace(hash, head, made);
        }
    }

    void remove_members(uint32_t number) {
        const Interned& one = table_[number];
        for (const Value& value : one.held->constraint.list) {
            const uint64_t hash = hash_value(value, table_.attribute(one.attribute).hash);
            const uint32_t head = find_member(one.attribute, value, hash);
            uint32_t first = head;
            uint32_t* at = &first;
            while (members_[*at].number != number) at = &members_[*at].next;
            const uint32_t gone = *at;
            *at = members_[gone].next;
            if (first == none) member_heads_.erase(hash, head);
            else if (first != head) member_heads_.replace(hash, head, first);
            members_.release(gone);
        }
    }

    ConstraintTable& table_;
    Budget& budget_;
    Overruns& overruns_;
    HashIndex heads_, member_heads_;
    Pages<Member> members_;
    std::vector<uint32_t> pieces_;     // first patterns of the keys that a text has
    std::vector<uint64_t> ordered_;    // patterns behind what they cost
    std::array<uint64_t, 64> recent_;  // pieces of a text that were looked up lately, by their hash
    std::vector<uint64_t> met_;        // a bit for each of pieces_ while a text is searched
};

}  // namespace tidings
