// Every distinct constraint once, with a reference count, and the names of the attributes they speak of.
//
// A constraint is first brought into normal form, so that different spellings share one entry: a whole float becomes an
// int, a LIKE or TOPIC pattern without wildcards an equality, `abc%` a prefix, an IN of one value an equality. Its form
// says how a message satisfies it: *listed* ones are found from the attribute's value and kept in a set while a message
// is matched;
// *bounds* compare positions; *direct* ones (negations, <>, EXISTS, MISSING) are true too often to be listed: ask them.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/message_reader.hpp"
#include "tidings/codec/predicate.hpp"
#include "tidings/matching/column.hpp"
#include "tidings/matching/hash_index.hpp"
#include "tidings/matching/position.hpp"

namespace tidings {

enum class Form : uint8_t { Listed, Upper, Lower, Direct };

// A constraint's number with its form in front, as rows keep it.
using Reference = uint32_t;
inline constexpr unsigned form_shift = 30;
inline constexpr uint32_t number_mask = (1u << form_shift) - 1;
inline Form form_of(Reference reference) { return static_cast<Form>(reference >> form_shift); }
inline uint32_t number_of(Reference reference) { return reference & number_mask; }

// A conjunction waiting for the rest of its constraints to be checked. `tag` is the first of them: a listed
// constraint's reference, or a bound's form with the number of its line (then `bound` is the position), or a direct
// one's reference.
inline constexpr uint32_t candidate_more = 1u << 31;  // in `row`: there is more to check than the tag
struct Candidate {
    uint32_t token, row, tag, bound;
};

// The subscribers reached through a constraint: those that need nothing else, and candidates.
struct Lists {
    Column<uint32_t> plain;   // sorted tokens without flags
    Column<uint32_t> marked;  // sorted tokens with flags
    Column<Candidate> candidates;

    bool empty() const { return plain.empty() && marked.empty() && candidates.empty(); }
    size_t size() const { return size_t{plain.size()} + marked.size() + candidates.size(); }
    size_t bytes() const { return sizeof(Lists) + plain.bytes() + marked.bytes() + candidates.bytes(); }
};

// Needed by IN and LIKE besides a value: the constraint as it was read, over bytes of its own.
struct Held {
    std::string bytes;
    Constraint constraint;
    uint32_t key_start = 0, key_bytes = 0;  // of LIKE: the piece of the pattern that it is filed under
    bool key_is_head = false;

    explicit Held(std::string_view blob) : bytes(blob) {
        Reader reader(bytes);
        constraint = detail::read_constraint(reader);
        constraint.bytes = bytes;
    }
};

struct Interned {
    Value value;  // its text is owned by the table
    uint32_t attribute = none, references = 0;
    uint32_t line = none, bound = 0;  // of bounds
    uint32_t next = none;             // the next pattern with the same access key
    Op op = Op::Exists;
    bool negated = false;
    Form form = Form::Direct;
    std::unique_ptr<Lists> lists;
    std::unique_ptr<Held> held;

    bool is_pattern() const { return form == Form::Listed && op >= Op::Prefix; }
};

// Patterns are found by the lengths of access keys that are present: bit n for n bytes.
struct KeyLengths {
    static constexpr size_t length_max = 32;
    uint64_t mask = 0;
    std::array<uint32_t, length_max + 1> counts{};
};

// Most pieces of a long text are no pattern's: a bit for each key of one length, by a hash, says so without a look at
// the index. A key that goes leaves its bit behind until the sieve is rebuilt, by the next key that finds it too full.
class Sieve {
public:
    template <class InUse>
    void add(uint64_t word, InUse&& in_use) {
        if (words_.size() * bits_each >= bits_.size() * 64) {
            std::sort(words_.begin(), words_.end());
            words_.erase(std::unique(words_.begin(), words_.end()), words_.end());
            std::erase_if(words_, [&](uint64_t one) { return !in_use(one); });
            bits_.assign(std::max(bits_.size(), std::bit_ceil(words_.size() * bits_each / 32)), 0);
            for (const uint64_t one : words_) set(one);
        }
        words_.push_back(word);
        set(word);
    }
    bool may_have(uint64_t word) const { return bits_[slot(word) / 64] >> (slot(word) & 63) & 1; }
    static uint64_t hash(uint64_t word) { return (word ^ word >> 29) * 0x9E3779B97F4A7C15ull; }

private:
    static constexpr size_t bits_each = 16;

    size_t slot(uint64_t word) const { return (hash(word) >> 32) & (bits_.size() * 64 - 1); }
    void set(uint64_t word) { bits_[slot(word) / 64] |= 1ull << (slot(word) & 63); }

    std::vector<uint64_t> bits_ = std::vector<uint64_t>(8), words_;
};

// Of one attribute's patterns, by family (pattern_index.hpp).
struct PatternKeys {
    static constexpr size_t inside_bytes_max = 8;
    std::array<KeyLengths, 3> lengths;
    std::array<std::unique_ptr<Sieve>, inside_bytes_max + 1> sieves;  // of those inside, by length
};

struct AttributeRecord {
    std::string name;
    uint64_t hash = 0;
    uint32_t references = 0;
    uint32_t listed = 0, patterns = 0;                      // constraints of that form, and patterns among them
    uint32_t presence = none;                               // the number of its EXISTS, if that is in use
    std::array<uint32_t, 4> lines{none, none, none, none};  // by kind
    std::unique_ptr<PatternKeys> keys;                      // once there is a pattern
    uint32_t keyless = none;                                // first pattern without an access key
    uint32_t first_block = none, blocks = 0;
};

// One attribute's values of one kind, where bounds exist.
struct Line {
    uint32_t attribute = none, references = 0;
    Kind kind = Kind::Bool;
};

class ConstraintTable {
public:
    ConstraintTable() { lines_.take(); }  // line 0 belongs to no attribute: its bounds always hold

    const Interned& operator[](uint32_t number) const { return constraints_[number]; }
    Interned& operator[](uint32_t number) { return constraints_[number]; }
    uint32_t end() const { return constraints_.end(); }
    uint32_t line_end() const { return lines_.end(); }
    uint32_t attribute_end() const { return attributes_.end(); }
    size_t presences() const { return presences_; }  // attributes whose EXISTS is in use
    bool alone_on_line(const Interned& one) const { return one.line != none && lines_[one.line].references == 1; }
    AttributeRecord& attribute(uint32_t number) { return attributes_[number]; }
    const AttributeRecord& attribute(uint32_t number) const { return attributes_[number]; }

    // True if there are INs over several kinds of values.
    bool mixed() const { return mixed_ != 0; }
    // True if a number or boolean that a text reads as could satisfy anything listed, or a bound.
    bool reads_texts() const { return reading_ != 0; }

    uint32_t find_attribute(std::string_view name, uint64_t hash) const {
        return names_.find(hash, [&](uint32_t number) { return attributes_[number].name == name; });
    }

    // The equality with this value of an attribute, or none. `hash` is that of the pair, as decoded messages carry it.
    uint32_t find_equality(uint32_t attribute, const Value& value, uint64_t hash) const {
        return index_.find(hash, [&](uint32_t number) {
            const Interned& one = constraints_[number];
            return one.op == Op::Eq && !one.negated && one.attribute == attribute && equal(one.value, value);
        });
    }

    // The entry for a constraint in normal form, made if it is new; the caller counts references.
    uint32_t intern(const Constraint& constraint, bool& is_new) {
        const uint64_t name_hash = hash_name(constraint.name), hash = hash_of(constraint, name_hash);
        const uint32_t known = find_attribute(constraint.name, name_hash);
        const uint32_t found = known == none ? none : index_.find(hash, [&](uint32_t number) {
            return same(constraints_[number], known, constraint);
        });
        is_new = found == none;
        if (!is_new) return found;
        const uint32_t number = constraints_.take();
        Interned& made = constraints_[number];
        made.attribute = known == none ? add_attribute(constraint.name, name_hash) : known;
        made.op = constraint.op;
        made.negated = constraint.negated;
        made.form = form(constraint);
        if (constraint.op == Op::In || constraint.op == Op::Like) made.held = std::make_unique<Held>(constraint.bytes);
        else made.value = own(constraint.value);
        if (made.form == Form::Upper || made.form == Form::Lower) place_bound(made);
        AttributeRecord& attribute = attributes_[made.attribute];
        ++attribute.references;
        attribute.listed += made.form == Form::Listed;
        attribute.patterns += made.is_pattern();
        if (made.op == Op::Exists) attribute.presence = number, ++presences_;
        mixed_ += is_mixed(made);
        reading_ += reads_texts(made);
        index_.insert(hash, number);
        return number;
    }

    // Forgets a constraint whose last reference is gone. What else points at it must have been cleared before.
    void erase(uint32_t number) {
        Interned& gone = constraints_[number];
        const uint32_t attribute_number = gone.attribute;
        AttributeRecord& attribute = attributes_[attribute_number];
        index_.erase(hash_of(gone), number);
        attribute.listed -= gone.form == Form::Listed;
        attribute.patterns -= gone.is_pattern();
        if (gone.op == Op::Exists) attribute.presence = none, --presences_;
        mixed_ -= is_mixed(gone);
        reading_ -= reads_texts(gone);
        if (gone.line != none) release_line(gone);
        if (!gone.held && !gone.value.s.empty()) {
            text_bytes_ -= gone.value.s.size();
            delete[] gone.value.s.data();
        }
        constraints_.release(number);
        if (--attribute.references == 0) {
            names_.erase(attribute.hash, attribute_number);
            derived_.remove(derived_bit(attribute.name));
            attributes_.release(attribute_number);
        }
    }

    bool holds(const Interned& one, const Value* value, Budget& budget) const {
        if (!value) return one.op == Op::Missing;
        const Condition condition = one.held ? Condition(one.held->constraint) : Condition(one.op, one.value);
        return tidings::holds(condition, *value, budget) != one.negated;
    }
    bool holds(const Interned& one, const Value* value) const {
        Budget budget(Budget::unlimited);
        return holds(one, value, budget);
    }
    // The same as predicates have it, to be asked of many values.
    Constraint view(const Interned& one) const {
        if (one.held) return one.held->constraint;
        Constraint made;
        made.op = one.op;
        made.negated = one.negated;
        made.value = one.value;
        return made;
    }

    // The derived attributes of messages that are constrained (bits of Derived).
    uint8_t derived() const { return derived_.mask(); }

    size_t bytes() const {
        size_t sum = constraints_.bytes() + index_.bytes() + attributes_.bytes() + names_.bytes() + lines_.bytes() +
                     text_bytes_;
        for (uint32_t i = 0; i < constraints_.end(); ++i) {
            const Interned& one = constraints_[i];
            if (one.lists) sum += one.lists->bytes();
            if (one.held)
                sum += sizeof(Held) + one.held->bytes.capacity() + one.held->constraint.list.size() * sizeof(Value);
        }
        return sum;
    }

    ~ConstraintTable() {
        for (uint32_t i = 0; i < constraints_.end(); ++i)
            if (!constraints_[i].held && !constraints_[i].value.s.empty()) delete[] constraints_[i].value.s.data();
    }
    ConstraintTable(const ConstraintTable&) = delete;
    ConstraintTable& operator=(const ConstraintTable&) = delete;

private:
    static bool is_mixed(const Interned& one) {
        if (one.op != Op::In) return false;
        const std::vector<Value>& list = one.held->constraint.list;
        return !list.empty() && list.front().kind() != list.back().kind();
    }

    static bool reads_texts(const Interned& one) {
        const auto read = [](const Value& value) { return value.kind() == Kind::Bool || value.kind() == Kind::Number; };
        if (one.form == Form::Direct) return false;
        return one.op == Op::In ? std::ranges::any_of(one.held->constraint.list, read)
                                : one.op < Op::In && read(one.value);
    }

    static Form form(const Constraint& constraint) {
        if (constraint.negated) return Form::Direct;
        switch (constraint.op) {
            case Op::Ne:
            case Op::Exists:
            case Op::Missing: return Form::Direct;
            case Op::Lt:
            case Op::Le: return Form::Upper;
            case Op::Gt:
            case Op::Ge: return Form::Lower;
            default: return Form::Listed;
        }
    }

    // An equality's hash is that of the attribute in a message; the others only have to differ from it.
    static uint64_t hash_of(Op op, bool negated, const Value& value, std::string_view bytes, uint64_t name_hash) {
        if (op == Op::Eq && !negated) return hash_value(value, name_hash);
        const uint64_t seed = name_hash + static_cast<uint64_t>(op) * 2 + negated;
        return mix64(bytes.empty() ? hash_value(value, seed) : hash64(bytes, seed));
    }
    static bool keeps_bytes(Op op) { return op == Op::In || op == Op::Like; }
    static uint64_t hash_of(const Constraint& one, uint64_t name_hash) {
        return hash_of(one.op, one.negated, one.value, keeps_bytes(one.op) ? one.bytes : std::string_view(), name_hash);
    }
    uint64_t hash_of(const Interned& one) const {
        return hash_of(one.op, one.negated, one.value,
                       one.held ? std::string_view(one.held->bytes) : std::string_view(),
                       attributes_[one.attribute].hash);
    }

    static bool same(const Interned& one, uint32_t attribute, const Constraint& constraint) {
        if (one.op != constraint.op || one.negated != constraint.negated || one.attribute != attribute) return false;
        return one.held ? one.held->bytes == constraint.bytes : equal(one.value, constraint.value);
    }

    uint32_t add_attribute(std::string_view name, uint64_t hash) {
        const uint32_t number = attributes_.take();
        attributes_[number].name = name;
        attributes_[number].hash = hash;
        names_.insert(hash, number);
        derived_.add(derived_bit(name));
        return number;
    }

    Value own(Value value) {
        if (value.s.empty()) return value;
        char* copy = new char[value.s.size()];
        std::memcpy(copy, value.s.data(), value.s.size());
        text_bytes_ += value.s.size();
        value.s = {copy, value.s.size()};
        return value;
    }

    // The outermost position that may satisfy the bound; at an odd one the values themselves decide.
    void place_bound(Interned& made) {
        const uint32_t at = position(made.value);
        const bool strict = made.op == Op::Lt || made.op == Op::Gt;
        made.bound = !exact_position(at) || !strict ? at : made.form == Form::Upper ? at - 1 : at + 1;
        uint32_t& line = attributes_[made.attribute].lines[static_cast<size_t>(made.value.kind())];
        if (line == none) {
            line = lines_.take();
            lines_[line].attribute = made.attribute;
            lines_[line].kind = made.value.kind();
        }
        made.line = line;
        ++lines_[line].references;
    }

    void release_line(const Interned& gone) {
        Line& line = lines_[gone.line];
        if (--line.references) return;
        attributes_[gone.attribute].lines[static_cast<size_t>(line.kind)] = none;
        lines_.release(gone.line);
    }

    Pages<Interned> constraints_;
    HashIndex index_;
    Pages<AttributeRecord, 5> attributes_;
    HashIndex names_;
    Pages<Line, 5> lines_;
    DerivedCounts derived_;
    size_t text_bytes_ = 0, mixed_ = 0, reading_ = 0, presences_ = 0;
};

}  // namespace tidings
