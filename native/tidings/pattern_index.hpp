// Which patterns and long INs does this value satisfy? Asked once for each new value, the answer is kept (value_blocks.hpp).
//
// Each pattern is filed under a literal piece that a matching text must have: at its start (PREFIX, TOPIC's first levels,
// LIKE's head), at its end (SUFFIX), or anywhere (CONTAINS, LIKE's longest fragment). A text is then asked for its own pieces of
// exactly the lengths that are present: one probe a length at the ends, positions x lengths inside. Pieces are cut to 32
// bytes, inside to 8, so that no pattern and no text makes this dearer than some constants times the text's length. A hit
// whose pattern is longer or more than its piece is verified.
#pragma once
#include <algorithm>
#include <bit>

#include "tidings/constraint_table.hpp"

namespace tidings {

class PatternIndex {
public:
    explicit PatternIndex(ConstraintTable& table) : table_(table) {}

    void add(uint32_t number) {
        Interned& one = table_[number];
        if (one.op == Op::In) return add_members(number);
        AttributeRecord& attribute = table_.attribute(one.attribute);
        const Key key = key_of(one);
        if (key.family == keyless) {
            one.next = attribute.keyless;
            attribute.keyless = number;
            return;
        }
        if (!attribute.lengths) attribute.lengths = std::make_unique<std::array<KeyLengths, 3>>();
        KeyLengths& lengths = (*attribute.lengths)[key.family];
        if (++lengths.counts[key.text.size()] == 1) lengths.mask |= 1ull << key.text.size();
        const uint64_t hash = hash_of(attribute.hash, key.family, key.text);
        const uint32_t head = find(hash, one.attribute, key);
        one.next = head;
        if (head == none) heads_.insert(hash, number);
        else heads_.replace(hash, head, number);
    }

    void remove(uint32_t number) {
        Interned& one = table_[number];
        if (one.op == Op::In) return remove_members(number);
        AttributeRecord& attribute = table_.attribute(one.attribute);
        const Key key = key_of(one);
        if (key.family == keyless) return unlink(attribute.keyless, number);
        KeyLengths& lengths = (*attribute.lengths)[key.family];
        if (--lengths.counts[key.text.size()] == 0) lengths.mask &= ~(1ull << key.text.size());
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
            if (attribute.lengths) {
                pieces_.clear();
                find_at_ends(attribute_number, value.s, 0);
                find_at_ends(attribute_number, value.s, 1);
                find_inside(attribute_number, value.s);
                std::sort(pieces_.begin(), pieces_.end());
                pieces_.erase(std::unique(pieces_.begin(), pieces_.end()), pieces_.end());
                for (const uint32_t head : pieces_) verify(head, value, found);
            }
            verify(attribute.keyless, value, found);
        }
        for (uint32_t i = find_member(attribute_number, value, hash); i != none; i = members_[i].next)
            if (std::find(found.begin() + static_cast<ptrdiff_t>(start), found.end(), members_[i].number) == found.end())
                found.push_back(members_[i].number);
    }

    bool has_member(uint32_t attribute_number, const Attribute& attribute) const {
        return find_member(attribute_number, attribute.value, attribute.hash) != none;
    }

    size_t bytes() const { return heads_.bytes() + member_heads_.bytes() + members_.bytes(); }

private:
    static constexpr unsigned prefix = 0, suffix = 1, inside = 2, keyless = 3;
    static constexpr size_t end_bytes_max = KeyLengths::length_max, inside_bytes_max = 8;

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
            case Op::Suffix: return {suffix, text.size() > end_bytes_max ? text.substr(text.size() - end_bytes_max) : text};
            case Op::Contains: return {inside, text.substr(0, inside_bytes_max)};
            case Op::Topic: {
                size_t end = 0;  // after the last dot before the first wildcard
                for (size_t start = 0; text[start] != '*' && text[start] != '>';) end = start = text.find('.', start) + 1;
                return end ? Key{prefix, text.substr(0, std::min(end, end_bytes_max))} : Key{keyless, {}};
            }
            default: return like_key(one.held->constraint.value.s);
        }
    }

    // The literal head if it is worth it, otherwise the longest fragment without wildcards and escapes.
    static Key like_key(std::string_view pattern) {
        std::string_view longest, head;
        for (size_t start = 0; start <= pattern.size();) {
            const size_t end = std::min(pattern.find_first_of("%_\\", start), pattern.size());
            const std::string_view fragment = pattern.substr(start, end - start);
            if (start == 0) head = fragment;
            if (fragment.size() > longest.size()) longest = fragment;
            start = end + (end < pattern.size() && pattern[end] == '\\' ? 2 : 1);
        }
        if (longest.empty()) return {keyless, {}};
        if (head.size() >= std::min<size_t>(longest.size(), 3)) return {prefix, head.substr(0, end_bytes_max)};
        return {inside, longest.substr(0, inside_bytes_max)};
    }

    static uint64_t hash_of(uint64_t attribute_hash, unsigned family, std::string_view text) {
        const uint64_t seed = attribute_hash + (family + 1) * 0x9E3779B97F4A7C15ull;
        if (text.size() > 8) return hash64(text, seed);
        uint64_t word = 0;
        std::memcpy(&word, text.data(), text.size());
        return mix64((seed ^ word) + text.size());
    }

    uint32_t find(uint64_t hash, uint32_t attribute, const Key& key) const {
        return heads_.find(hash, [&](uint32_t number) {
            if (table_[number].attribute != attribute) return false;
            const Key other = key_of(table_[number]);
            return other.family == key.family && other.text == key.text;
        });
    }

    void look(uint32_t attribute, const Key& key) {
        const uint32_t head = find(hash_of(table_.attribute(attribute).hash, key.family, key.text), attribute, key);
        if (head != none) pieces_.push_back(head);
    }

    void find_at_ends(uint32_t attribute, std::string_view text, unsigned family) {
        for (uint64_t mask = (*table_.attribute(attribute).lengths)[family].mask; mask; mask &= mask - 1) {
            const size_t length = static_cast<size_t>(std::countr_zero(mask));
            if (length > text.size()) break;
            look(attribute, {family, text.substr(family == prefix ? 0 : text.size() - length, length)});
        }
    }

    void find_inside(uint32_t attribute, std::string_view text) {
        for (uint64_t mask = (*table_.attribute(attribute).lengths)[inside].mask; mask; mask &= mask - 1) {
            const size_t length = static_cast<size_t>(std::countr_zero(mask));
            if (length > text.size()) break;
            const size_t last = length ? text.size() - length : 0;  // the empty piece is everywhere: once is enough
            for (size_t at = 0; at <= last; ++at) look(attribute, {inside, text.substr(at, length)});
        }
    }

    void verify(uint32_t head, const Value& value, std::vector<uint32_t>& found) const {
        for (uint32_t number = head; number != none; number = table_[number].next) {
            const Interned& one = table_[number];
            const bool proven = one.op == Op::Contains ? one.value.s.size() <= inside_bytes_max
                                                       : one.op <= Op::Suffix && one.value.s.size() <= end_bytes_max;
            if (proven || table_.holds(one, &value)) found.push_back(number);
        }
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
    HashIndex heads_, member_heads_;
    Pages<Member> members_;
    std::vector<uint32_t> pieces_;
};

}  // namespace tidings
