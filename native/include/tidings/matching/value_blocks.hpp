// The effect of one attribute value, remembered: the listed constraints that it satisfies, and the subscribers reached
// through them, copied side by side. A message is then ten look-ups and ten streams instead of hundreds of short lists.
//
// A value that satisfies nothing has a block too while its attribute has few values: to know that is worth as much. So
// do the lone bounds that admit a number, if its line has not too many.
//
// Lists beyond a few dozen entries are contiguous anyway and are referred to, not copied, so a block stays small and a
// popular constraint may change without touching any block. A change to a short list marks the blocks it occurs in as
// stale: one for an equality; for a pattern, those of the attribute's blocks whose value satisfies it. A stale block is
// filled again when it is next met. The number and the bytes of blocks are bounded: beyond them a hand goes round and
// drops those not used since its last visit (the clock algorithm, Corbato 1968), so that publishers with endless new
// values cost time, not memory.
#pragma once
#include "tidings/matching/bound_list.hpp"
#include "tidings/matching/pattern_index.hpp"
#include "tidings/matching/subscriber_table.hpp"
#include "tidings/support/simd.hpp"

namespace tidings {

// A block's variable part, in one piece of memory: this header, words, the value's text. Whole cache lines, of which
// the first holds the header and the constraints of most values.
struct Payload {
    // Constraints are set `satisfied_step` at a time (the last one repeated), subscribers copied `words_step` at a time
    // (what follows them is read along): with lists this short, a loop that nearly always ends after one turn is the
    // fastest.
    static constexpr uint32_t satisfied_step = 4, words_step = 8;
    static constexpr size_t line_bytes = 64;

    uint32_t line = 0, position = position_low;  // the value's place; without a line, on line 0, which has no bounds
    uint32_t satisfied = 0, plain = 0, marked = 0, long_lists = 0, candidates = 0;
    uint32_t text_bytes : 31 = 0;
    uint32_t bounds_copied : 1 = 0;         // the subscribers of lone bounds are among those below
    uint32_t next = none, previous = none;  // blocks of the same attribute
    uint64_t hash = 0;                      // of name and value

    const uint32_t* satisfied_data() const { return reinterpret_cast<const uint32_t*>(this + 1); }
    const uint32_t* satisfied_end() const {
        return satisfied_data() + (satisfied + satisfied_step - 1) / satisfied_step * satisfied_step;
    }
    const uint32_t* plain_data() const { return satisfied_end(); }
    const uint32_t* marked_data() const { return plain_data() + plain; }
    const uint32_t* long_data() const { return marked_data() + marked; }
    const Candidate* candidate_data() const { return reinterpret_cast<const Candidate*>(long_data() + long_lists); }
    const char* text() const { return reinterpret_cast<const char*>(candidate_data() + candidates); }
    size_t bytes() const {
        const size_t read_along = marked ? (words_step - 1) * sizeof(uint32_t) : 0;
        const auto used = static_cast<size_t>(text() - reinterpret_cast<const char*>(this));
        return (used + std::max<size_t>(text_bytes, read_along) + line_bytes - 1) / line_bytes * line_bytes;
    }
};
static_assert(sizeof(Payload) + Payload::satisfied_step * sizeof(uint32_t) == Payload::line_bytes);

// The key of a look-up: an attribute's name and value in words of fixed size, so that no branch depends on the length
// of a text or on the type of a value. Of longer texts it holds the last 16 bytes; then the rest must be compared too.
struct ValueKey {
    typedef uint64_t Words __attribute__((vector_size(16), aligned(8)));  // Clang drops `aligned` of a `using`
    static constexpr size_t short_bytes = sizeof(Words);

    Words name{}, value{};
    uint64_t shape = 0;  // the sizes and the type

    // `inside`: it is one of the wire's, or the reading of one, which is no text. Then name and text lie in the
    // message's bytes, which MessageDecoder takes only with the whole header before them: 16 bytes before either's end
    // are bytes of the same message, wherever that begins.
    static_assert(message_header_bytes >= short_bytes);
    static ValueKey of(const Attribute& attribute, bool inside) {
        const Value& value = attribute.value;
        const bool is_text = value.type >= Type::String;
        static_assert(offsetof(Value, i) == 8);  // so that 16 bytes can be read before a number's end as well
        const char* const ends[] = {reinterpret_cast<const char*>(&value.i + 1), value.s.data() + value.s.size()};
        const size_t sizes[] = {sizeof(value.i), value.s.size()};
        ValueKey key;
        key.shape = static_cast<uint64_t>(value.type) | attribute.name.size() << 8 | value.s.size() << 32;
        if (inside) [[likely]] {
            key.name = tail(attribute.name.data() + attribute.name.size(), attribute.name.size());
            key.value = tail(ends[is_text], sizes[is_text]);
        } else {
            key.name = alone(attribute.name);
            key.value = is_text ? alone(value.s) : tail(ends[0], sizes[0]);
        }
        return key;
    }

    bool operator==(const ValueKey& other) const {
        const Words differ = (name ^ other.name) | (value ^ other.value);
        return (differ[0] | differ[1] | (shape ^ other.shape)) == 0;
    }
    Type type() const { return static_cast<Type>(shape & 255); }
    size_t name_size() const { return shape >> 8 & 0xFFFFFF; }
    size_t text_size() const { return shape >> 32; }
    bool is_short() const { return name_size() <= short_bytes && text_size() <= short_bytes; }

private:
    // The last `size` of the 16 bytes before `end`, what lies before them cut away.
    static Words tail(const char* end, size_t size) {
        static constexpr std::array<uint8_t, 2 * short_bytes> masks = [] {
            std::array<uint8_t, 2 * short_bytes> made{};
            std::fill(made.begin() + short_bytes, made.end(), 0xFF);
            return made;
        }();
        Words words, mask;
        std::memcpy(&words, end - short_bytes, short_bytes);
        std::memcpy(&mask, masks.data() + std::min(size, short_bytes), short_bytes);
        return words & mask;
    }
    // The same of a text with nothing before it that may be read. By loads alone: a copy of variable length that is
    // read at once as a whole makes the processor wait until it has reached the cache.
    static Words alone(std::string_view text) {
        const size_t size = text.size();
        const char* const end = text.data() + size;
        if (size >= short_bytes) return tail(end, short_bytes);
        if (size == 0) return Words{};
        if (size < 8) return Words{0, load_tail(text.data(), size, false) << (8 * (8 - size))};
        uint64_t first, last;
        std::memcpy(&first, text.data(), 8);
        std::memcpy(&last, end - 8, 8);
        return Words{size == 8 ? 0 : first << (8 * (16 - size)), last};
    }
};

// One cache line: what a look-up compares, and where the rest is.
struct alignas(64) ValueBlock {
    enum class State : uint8_t { Free, Fresh, ListsStale, Stale };

    ValueKey key;
    Payload* payload = nullptr;
    uint32_t attribute = none, equality = none, generation = 0;
    State state = State::Free;
    bool used = false;

    // As it is in messages.
    Value value() const {
        Value made;
        made.type = key.type();
        if (made.type >= Type::String) made.s = {payload->text(), key.text_size()};
        else made.i = static_cast<int64_t>(key.value[1]);  // or the bits of a float
        return made;
    }
};
static_assert(sizeof(ValueBlock) == 64);

class ValueBlocks {
public:
    struct Limits {
        size_t blocks = 1 << 15, bytes = 32u << 20;
        size_t copied = 32;          // longer lists are referred to
        size_t copied_bounds = 256;  // on a line; what is copied of more would be no shorter to read than the list
        size_t checked = 1024;       // an attribute with more blocks has them all marked when a pattern changes, and
        // gets no more blocks for values that satisfy nothing
    };

    ValueBlocks(ConstraintTable& table, PatternIndex& patterns, const std::vector<BoundLists>& bounds, Budget& budget,
                Overruns& overruns)
        : table_(table),
          patterns_(patterns),
          bounds_(bounds),
          budget_(budget),
          overruns_(overruns) {}
    ~ValueBlocks() {
        for (uint32_t i = 0; i < blocks_.end(); ++i) std::free(static_cast<void*>(blocks_[i].payload));
    }
    ValueBlocks(const ValueBlocks&) = delete;
    ValueBlocks& operator=(const ValueBlocks&) = delete;

    // Three steps of reading ahead, each for what the one before has brought in: the slot, the block, its payload. They
    // look only at the first slot, where nearly all blocks are, and may fetch another's. Inlined by force: gcc takes a
    // function that only prefetches for one without effect and drops the call.
    TIDINGS_INLINE void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask()]); }
    TIDINGS_INLINE void prefetch_block(uint64_t hash) const { __builtin_prefetch(slots_[hash & mask()].block()); }
    TIDINGS_INLINE void prefetch_payload(uint64_t hash) const {
        const Slot slot = slots_[hash & mask()];
        if (slot.empty()) return;
        const char* const payload = reinterpret_cast<const char*>(slot.block()->payload);
        __builtin_prefetch(payload);
        __builtin_prefetch(payload + Payload::line_bytes);
    }

    // The attribute's block, or nullptr if it must be made. Blocks stay where they are until trim().
    const ValueBlock* find(const Attribute& attribute, const ValueKey& key) {
        for (size_t i = attribute.hash & mask(); !slots_[i].empty(); i = (i + 1) & mask()) {
            if (!slots_[i].may_be(attribute.hash)) continue;
            ValueBlock& block = *slots_[i].block();
            if (!(block.key == key) || !(key.is_short() || same_text(block, attribute))) continue;
            block.used = true;
            if (block.state != ValueBlock::State::Fresh || block.generation != generations_[block.attribute])
                [[unlikely]]
                refill(block, block.value(), attribute.hash);
            return &block;
        }
        return nullptr;
    }

    // A block for a value of a known attribute; nullptr if it satisfies nothing and its attribute has too many values.
    const ValueBlock* make(uint32_t attribute_number, const Attribute& attribute, const ValueKey& key) {
        const AttributeRecord& record = table_.attribute(attribute_number);
        if (record.blocks >= limits_.checked && record.patterns == 0 &&
            table_.find_equality(attribute_number, attribute.value, attribute.hash) == none &&
            !patterns_.has_member(attribute_number, attribute))
            return nullptr;
        const uint32_t number = blocks_.take();
        ValueBlock& block = blocks_[number];
        block.key = key;
        block.attribute = attribute_number;
        if ((count_ + 1) * 8 > slots_.size()) grow();  // sparse, so that the first slot is mostly the right one
        refill(block, attribute.value, attribute.hash);
        link(number);
        put(number);
        ++count_;
        return &block;
    }

    // To be called between messages.
    void trim() {
        while (count_ > limits_.blocks || payload_bytes_ > limits_.bytes) {
            hand_ = (hand_ + 1) % blocks_.end();
            ValueBlock& block = blocks_[hand_];
            if (block.state == ValueBlock::State::Free) continue;
            if (!block.used) drop(hand_);
            else block.used = false;
        }
    }

    // A listed constraint came or went (`lists_only`: only the subscribers reached through it changed).
    void touch(uint32_t number, bool lists_only) {
        const Interned& one = table_[number];
        AttributeRecord& attribute = table_.attribute(one.attribute);
        const ValueBlock::State state = lists_only ? ValueBlock::State::ListsStale : ValueBlock::State::Stale;
        if (attribute.blocks == 0) return;
        if (one.op == Op::Eq) {
            // Equal numbers of different types have a block each, under the same hash.
            const uint64_t hash = hash_value(one.value, attribute.hash);
            for (size_t i = hash & mask(); !slots_[i].empty(); i = (i + 1) & mask()) {
                ValueBlock& block = *slots_[i].block();
                if (block.payload->hash == hash && block.state < state) block.state = state;
            }
        } else if (attribute.blocks > limits_.checked) {
            ++generations_[one.attribute];
        } else {
            const Constraint constraint = table_.view(one);
            Budget budget(check_steps);
            for (uint32_t block = attribute.first_block; block != none; block = blocks_[block].payload->next) {
                if (blocks_[block].state >= state) continue;
                const bool satisfied = holds(constraint, blocks_[block].value(), budget);
                if (budget.exhausted()) return void(++generations_[one.attribute]);
                if (satisfied) blocks_[block].state = state;
            }
        }
    }

    // An attribute's values of some kind stand on a line now, or no longer, or what is copied of it changed.
    void touch_line(uint32_t attribute) {
        if (table_.attribute(attribute).blocks) ++generations_[attribute];
    }

    bool copies(const Lists& lists) const { return lists.size() <= limits_.copied; }
    bool copies(const BoundLists& lists) const { return lists.size() <= limits_.copied_bounds; }

    // Before an attribute is forgotten.
    void drop_attribute(uint32_t attribute) {
        while (table_.attribute(attribute).first_block != none) drop(table_.attribute(attribute).first_block);
    }

    size_t size() const { return count_; }
    size_t bytes() const { return blocks_.bytes() + payload_bytes_ + slots_.capacity() * sizeof(Slot); }

private:
    // A block's address (48 bits in user space) and, in front of it, the hash's leading 16 bits: one load finds both.
    class Slot {
    public:
        Slot() = default;
        Slot(uint64_t hash, ValueBlock& block)
            : word_(hash >> address_bits << address_bits | reinterpret_cast<uintptr_t>(&block)) {}
        bool empty() const { return word_ == 0; }
        bool may_be(uint64_t hash) const { return (word_ ^ hash) >> address_bits == 0; }
        ValueBlock* block() const { return reinterpret_cast<ValueBlock*>(word_ & ((uint64_t{1} << address_bits) - 1)); }

    private:
        static constexpr unsigned address_bits = 48;
        uint64_t word_ = 0;
    };

    static constexpr uint64_t check_steps = 1 << 16;  // to find out which blocks a change concerns; beyond it: all

    size_t mask() const { return slots_.size() - 1; }

    // Of those with equal keys.
    bool same_text(const ValueBlock& block, const Attribute& attribute) const {
        return std::string_view(table_.attribute(block.attribute).name) == attribute.name &&
               block.value().s == attribute.value.s;
    }

    void put(uint32_t number) {
        const uint64_t hash = blocks_[number].payload->hash;
        size_t i = hash & mask();
        while (!slots_[i].empty()) i = (i + 1) & mask();
        slots_[i] = Slot(hash, blocks_[number]);
    }

    void grow() {
        slots_.assign(slots_.size() * 2, Slot{});
        for (uint32_t i = 0; i < blocks_.end(); ++i)
            if (blocks_[i].state != ValueBlock::State::Free) put(i);
    }

    void drop(uint32_t number) {
        size_t gap = blocks_[number].payload->hash & mask();
        while (slots_[gap].block() != &blocks_[number]) gap = (gap + 1) & mask();
        for (size_t i = gap;;) {
            i = (i + 1) & mask();
            if (slots_[i].empty()) break;
            if (((i - slots_[i].block()->payload->hash) & mask()) >= ((i - gap) & mask())) {
                slots_[gap] = slots_[i];
                gap = i;
            }
        }
        slots_[gap] = Slot{};
        --count_;
        unlink(number);
        payload_bytes_ -= blocks_[number].payload->bytes();
        std::free(static_cast<void*>(blocks_[number].payload));
        blocks_.release(number);
    }

    void link(uint32_t number) {
        AttributeRecord& attribute = table_.attribute(blocks_[number].attribute);
        Payload& payload = *blocks_[number].payload;
        payload.next = attribute.first_block;
        if (payload.next != none) blocks_[payload.next].payload->previous = number;
        attribute.first_block = number;
        ++attribute.blocks;
    }

    void unlink(uint32_t number) {
        const Payload& payload = *blocks_[number].payload;
        AttributeRecord& attribute = table_.attribute(blocks_[number].attribute);
        if (payload.next != none) blocks_[payload.next].payload->previous = payload.previous;
        (payload.previous == none ? attribute.first_block : blocks_[payload.previous].payload->next) = payload.next;
        --attribute.blocks;
    }

    void refill(ValueBlock& block, const Value& value, uint64_t hash) {
        if (generations_.size() <= block.attribute) generations_.resize(block.attribute + 1);
        satisfied_.clear();
        const uint64_t given_up = overruns_.count();
        if (block.state == ValueBlock::State::ListsStale && block.generation == generations_[block.attribute]) {
            const uint32_t* known = block.payload->satisfied_data();
            satisfied_.assign(known, known + block.payload->satisfied);
        } else {
            block.equality = table_.find_equality(block.attribute, value, hash);
            if (block.equality != none) satisfied_.push_back(block.equality);
            patterns_.find_satisfied(block.attribute, value, hash, satisfied_);
        }
        block.generation = generations_[block.attribute];
        block.used = true;
        Payload header = sizes();
        header.hash = hash;
        if (const uint32_t line = table_.attribute(block.attribute).lines[static_cast<size_t>(value.kind())];
            line != none)
            header.line = line, header.position = position(value);
        header.text_bytes = static_cast<uint32_t>(value.s.size());
        if (block.payload) header.next = block.payload->next, header.previous = block.payload->previous;
        if (header.line && copies(bounds_[header.line])) {
            find_bounds(value, bounds_[header.line]);
            header.bounds_copied = true;
            header.plain += bound_plain_.size();
            header.marked += bound_marked_.size();
        }
        lay_out(block, header, value.s);
        // Undecided constraints are evaluated again with the next message.
        block.state = overruns_.count() == given_up ? ValueBlock::State::Fresh : ValueBlock::State::Stale;
    }

    // The part that will be copied; longer lists are noted in long_.
    Payload sizes() {
        Payload made;
        made.satisfied = static_cast<uint32_t>(satisfied_.size());
        long_.clear();
        bound_plain_.clear();
        bound_marked_.clear();
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists) continue;
            if (!copies(*lists)) long_.push_back(number);
            else
                made.candidates += lists->candidates.size(), made.plain += lists->plain.size(),
                    made.marked += lists->marked.size();
        }
        made.long_lists = static_cast<uint32_t>(long_.size());
        return made;
    }

    // Subscribers of the lone bounds that admit the value.
    void find_bounds(const Value& value, const BoundLists& lists) {
        const auto emit = [&](const uint32_t* tokens, size_t count) {
            for (size_t i = 0; i < count; ++i)
                (tokens[i] & ~token_mask ? bound_marked_ : bound_plain_).push_back(tokens[i]);
        };
        const auto doubt = [&](uint32_t token, uint32_t number) {
            budget_.begin_filter();
            const bool holds = table_.holds(table_[number], &value, budget_);
            if (budget_.exhausted() ? overruns_.give_up_constraint(number) : holds) emit(&token, 1);
        };
        lists.upper.above(position(value), emit, doubt);
        lists.lower.below(position(value), emit, doubt);
    }

    void lay_out(ValueBlock& block, const Payload& header, std::string_view text) {
        auto* const payload = static_cast<Payload*>(std::aligned_alloc(Payload::line_bytes, header.bytes()));
        if (!payload) throw std::bad_alloc();
        *payload = header;
        if (!text.empty()) std::memcpy(const_cast<char*>(payload->text()), text.data(), text.size());
        auto* plain = std::copy(satisfied_.begin(), satisfied_.end(), const_cast<uint32_t*>(payload->satisfied_data()));
        while (plain != payload->plain_data()) *plain++ = satisfied_.back();
        auto *marked = plain + header.plain,
             *candidates = std::copy(long_.begin(), long_.end(), marked + header.marked);
        auto *const first = reinterpret_cast<Candidate*>(candidates), *candidate = first;
        plain = std::copy(bound_plain_.begin(), bound_plain_.end(), plain);
        marked = std::copy(bound_marked_.begin(), bound_marked_.end(), marked);
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists || !copies(*lists)) continue;
            plain = std::copy(lists->plain.begin(), lists->plain.end(), plain);
            marked = std::copy(lists->marked.begin(), lists->marked.end(), marked);
            candidate = std::copy(lists->candidates.begin(), lists->candidates.end(), candidate);
        }
        // Those that are checked the same way side by side: the processor foresees the kind of the next check.
        std::sort(first, candidate, [](const Candidate& a, const Candidate& b) { return a.tag < b.tag; });
        if (block.payload) payload_bytes_ -= block.payload->bytes();
        payload_bytes_ += header.bytes();
        std::free(static_cast<void*>(block.payload));
        block.payload = payload;
    }

    ConstraintTable& table_;
    PatternIndex& patterns_;
    const std::vector<BoundLists>& bounds_;
    Budget& budget_;
    Overruns& overruns_;
    Limits limits_;
    Pages<ValueBlock, 8> blocks_;
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    std::vector<uint32_t> generations_;                                    // by attribute
    std::vector<uint32_t> satisfied_, long_, bound_plain_, bound_marked_;  // while a block is filled
    size_t count_ = 0, payload_bytes_ = 0;
    uint32_t hand_ = 0;
};

}  // namespace tidings
