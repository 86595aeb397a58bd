// What one attribute value means, remembered: which listed constraints it satisfies, and everybody who is reached through
// them, copied side by side. A message is then ten look-ups and ten streams instead of hundreds of short lists.
//
// Lists beyond a few dozen entries are contiguous anyway and are referred to, not copied, so a block stays small and a popular
// constraint may change without touching any block. A change to a short list marks the blocks it occurs in as stale: one
// for an equality; for a pattern, those of the attribute's blocks whose value satisfies it. A stale block is filled again when
// it is next met. The number and the bytes of blocks are bounded: beyond them a hand goes round and drops those not used
// since its last visit (the clock algorithm, Corbato 1968), so that publishers with endless new values cost time, not memory.
#pragma once
#include "tidings/pattern_index.hpp"

namespace tidings {

// A block's variable part, in one piece of memory: this header, the value's text (padded), then words.
struct Payload {
    uint32_t position = 0;
    uint32_t next = none, previous = none;  // blocks of the same attribute
    uint32_t satisfied = 0, plain = 0, marked = 0, long_lists = 0, candidates = 0;
    uint32_t text_words = 0;

    const uint32_t* satisfied_data() const { return reinterpret_cast<const uint32_t*>(this + 1) + text_words; }
    const uint32_t* plain_data() const { return satisfied_data() + satisfied; }
    const uint32_t* marked_data() const { return plain_data() + plain; }
    const uint32_t* long_data() const { return marked_data() + marked; }
    const Candidate* candidate_data() const { return reinterpret_cast<const Candidate*>(long_data() + long_lists); }
    size_t bytes() const {
        return sizeof(Payload) + (size_t{text_words} + satisfied + plain + marked + long_lists) * 4 + candidates * sizeof(Candidate);
    }
};

// One cache line: what a look-up compares, and where the rest is.
struct alignas(64) Block {
    enum class State : uint8_t { Free, Fresh, ListsStale, Stale };

    uint64_t hash = 0;
    Value value;  // its text lies in the payload
    Payload* payload = nullptr;
    uint32_t attribute = none, equality = none, generation = 0;
    State state = State::Free;
    bool used = false;
};
static_assert(sizeof(Block) == 64);

// Texts are mostly short: two overlapping loads compare them faster than a call.
inline bool same_text(std::string_view a, std::string_view b) {
    const size_t size = a.size();
    if (size != b.size()) return false;
    if (size > 16) return std::memcmp(a.data(), b.data(), size) == 0;
    const auto differ = [&]<class Word>(Word, size_t offset) {
        Word x, y;
        std::memcpy(&x, a.data() + offset, sizeof(Word));
        std::memcpy(&y, b.data() + offset, sizeof(Word));
        return x ^ y;
    };
    if (size >= 8) return (differ(uint64_t{}, 0) | differ(uint64_t{}, size - 8)) == 0;
    if (size >= 4) return (differ(uint32_t{}, 0) | differ(uint32_t{}, size - 4)) == 0;
    return size == 0 || ((a[0] ^ b[0]) | (a[size / 2] ^ b[size / 2]) | (a[size - 1] ^ b[size - 1])) == 0;
}

inline bool same_value(const Value& a, const Value& b) {
    if (a.type != b.type) return equal(a, b);
    if (a.type >= Type::String) return same_text(a.s, b.s);
    return a.type == Type::Float ? a.d == b.d : a.i == b.i;
}

class ValueBlocks {
public:
    struct Limits {
        size_t blocks = 1 << 15, bytes = 32u << 20;
        size_t copied = 32;   // longer lists are referred to
        size_t checked = 1024;  // an attribute with more blocks has them all marked when a pattern changes
    };

    ValueBlocks(ConstraintTable& table, PatternIndex& patterns) : table_(table), patterns_(patterns) {}
    ~ValueBlocks() {
        for (uint32_t i = 0; i < blocks_.end(); ++i) std::free(static_cast<void*>(blocks_[i].payload));
    }
    ValueBlocks(const ValueBlocks&) = delete;
    ValueBlocks& operator=(const ValueBlocks&) = delete;

    // Three steps of reading ahead, each for what the one before has brought in: the slot, the block, its payload. They
    // look only at the first slot, where nearly all blocks are, and may fetch another's.
    void prefetch_slot(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask()]); }
    void prefetch_block(uint64_t hash) const {
        const uint32_t block = slots_[hash & mask()].block;
        if (block != none) __builtin_prefetch(&blocks_[block]);
    }
    void prefetch_payload(uint64_t hash) const {
        const uint32_t block = slots_[hash & mask()].block;
        if (block != none) __builtin_prefetch(blocks_[block].payload);
    }

    // The attribute's block, or nullptr if it must be made. Blocks stay where they are until trim().
    const Block* find(const Attribute& attribute) {
        const uint32_t number = lookup(attribute.hash, attribute.name, attribute.value);
        if (number == none) return nullptr;
        Block& block = blocks_[number];
        block.used = true;
        if (block.state != Block::State::Fresh || block.generation != generations_[block.attribute]) refill(block);
        return &block;
    }

    // A block for a value of a known attribute; nullptr if it satisfies nothing worth remembering.
    const Block* make(uint32_t attribute_number, const Attribute& attribute) {
        const uint32_t equality = table_.find_equality(attribute_number, attribute.value, attribute.hash);
        if (equality == none && table_.attribute(attribute_number).patterns == 0 && !patterns_.has_member(attribute_number, attribute))
            return nullptr;
        const uint32_t number = blocks_.take();
        Block& block = blocks_[number];
        block.hash = attribute.hash;
        block.value = attribute.value;
        block.attribute = attribute_number;
        if ((count_ + 1) * 4 > slots_.size()) grow();  // sparse, so that the first slot is mostly the right one
        refill(block);
        link(number);
        put(number);
        ++count_;
        return &block;
    }

    // To be called between messages.
    void trim() {
        while (count_ > limits_.blocks || payload_bytes_ > limits_.bytes) {
            hand_ = (hand_ + 1) % blocks_.end();
            Block& block = blocks_[hand_];
            if (block.state == Block::State::Free) continue;
            if (!block.used) drop(hand_);
            else block.used = false;
        }
    }

    // A listed constraint came or went (`lists_only`: only who is reached through it changed).
    void touch(uint32_t number, bool lists_only) {
        const Interned& one = table_[number];
        AttributeRecord& attribute = table_.attribute(one.attribute);
        const Block::State state = lists_only ? Block::State::ListsStale : Block::State::Stale;
        if (attribute.blocks == 0) return;
        if (one.op == Op::Eq) {
            const uint32_t block = lookup(hash_value(one.value, attribute.hash), attribute.name, one.value);
            if (block != none && blocks_[block].state < state) blocks_[block].state = state;
        } else if (attribute.blocks > limits_.checked) {
            ++generations_[one.attribute];
        } else {
            const Constraint constraint = table_.view(one);
            for (uint32_t block = attribute.first_block; block != none; block = blocks_[block].payload->next)
                if (blocks_[block].state < state && holds(constraint, blocks_[block].value)) blocks_[block].state = state;
        }
    }

    bool copies(const Lists& lists) const { return lists.size() <= limits_.copied; }

    // Before an attribute is forgotten.
    void drop_attribute(uint32_t attribute) {
        while (table_.attribute(attribute).first_block != none) drop(table_.attribute(attribute).first_block);
    }

    Limits& limits() { return limits_; }
    size_t size() const { return count_; }
    size_t bytes() const { return blocks_.bytes() + payload_bytes_ + slots_.capacity() * sizeof(Slot); }

private:
    struct Slot {
        uint32_t tag = 0, block = none;
    };

    size_t mask() const { return slots_.size() - 1; }

    uint32_t lookup(uint64_t hash, std::string_view name, const Value& value) const {
        const uint32_t tag = static_cast<uint32_t>(hash >> 32);
        for (size_t i = hash & mask();; i = (i + 1) & mask()) {
            if (slots_[i].block == none) return none;
            if (slots_[i].tag != tag) continue;
            const Block& block = blocks_[slots_[i].block];
            if (block.hash == hash && same_value(block.value, value) && same_text(table_.attribute(block.attribute).name, name)) return slots_[i].block;
        }
    }

    void put(uint32_t number) {
        const uint64_t hash = blocks_[number].hash;
        size_t i = hash & mask();
        while (slots_[i].block != none) i = (i + 1) & mask();
        slots_[i] = {static_cast<uint32_t>(hash >> 32), number};
    }

    void grow() {
        slots_.assign(slots_.size() * 2, Slot{});
        for (uint32_t i = 0; i < blocks_.end(); ++i)
            if (blocks_[i].state != Block::State::Free) put(i);
    }

    void drop(uint32_t number) {
        size_t gap = blocks_[number].hash & mask();
        while (slots_[gap].block != number) gap = (gap + 1) & mask();
        for (size_t i = gap;;) {
            i = (i + 1) & mask();
            if (slots_[i].block == none) break;
            if (((i - blocks_[slots_[i].block].hash) & mask()) >= ((i - gap) & mask())) {
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

    void refill(Block& block) {
        if (generations_.size() <= block.attribute) generations_.resize(block.attribute + 1);
        satisfied_.clear();
        if (block.state == Block::State::ListsStale && block.generation == generations_[block.attribute]) {
            const uint32_t* known = block.payload->satisfied_data();
            satisfied_.assign(known, known + block.payload->satisfied);
        } else {
            block.equality = table_.find_equality(block.attribute, block.value, block.hash);
            if (block.equality != none) satisfied_.push_back(block.equality);
            patterns_.find_satisfied(block.attribute, block.value, block.hash, satisfied_);
        }
        block.generation = generations_[block.attribute];
        block.state = Block::State::Fresh;
        block.used = true;
        lay_out(block, sizes(block));
    }

    // What will be copied; longer lists are noted in long_.
    Payload sizes(const Block& block) {
        Payload made;
        if (block.payload) made.next = block.payload->next, made.previous = block.payload->previous;
        made.position = position(block.value);
        made.text_words = static_cast<uint32_t>((block.value.s.size() + 3) / 4);
        made.satisfied = static_cast<uint32_t>(satisfied_.size());
        long_.clear();
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists) continue;
            if (!copies(*lists)) long_.push_back(number);
            else made.candidates += lists->candidates.size(), made.plain += lists->plain.size(), made.marked += lists->marked.size();
        }
        made.long_lists = static_cast<uint32_t>(long_.size());
        return made;
    }

    void lay_out(Block& block, const Payload& header) {
        auto* const payload = static_cast<Payload*>(std::malloc(header.bytes()));
        if (!payload) throw std::bad_alloc();
        *payload = header;
        if (char* text = reinterpret_cast<char*>(payload + 1); !block.value.s.empty()) {
            std::memcpy(text, block.value.s.data(), block.value.s.size());
            block.value.s = {text, block.value.s.size()};
        }
        auto* plain = std::copy(satisfied_.begin(), satisfied_.end(), const_cast<uint32_t*>(payload->satisfied_data()));
        auto *marked = plain + header.plain, *candidates = std::copy(long_.begin(), long_.end(), marked + header.marked);
        auto* candidate = reinterpret_cast<Candidate*>(candidates);
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists || !copies(*lists)) continue;
            plain = std::copy(lists->plain.begin(), lists->plain.end(), plain);
            marked = std::copy(lists->marked.begin(), lists->marked.end(), marked);
            candidate = std::copy(lists->candidates.begin(), lists->candidates.end(), candidate);
        }
        if (block.payload) payload_bytes_ -= block.payload->bytes();
        payload_bytes_ += header.bytes();
        std::free(static_cast<void*>(block.payload));
        block.payload = payload;
    }

    ConstraintTable& table_;
    PatternIndex& patterns_;
    Limits limits_;
    Pages<Block, 8> blocks_;
    std::vector<Slot> slots_ = std::vector<Slot>(64);
    std::vector<uint32_t> generations_;  // by attribute
    std::vector<uint32_t> satisfied_, long_;
    size_t count_ = 0, payload_bytes_ = 0;
    uint32_t hand_ = 0;
};

}  // namespace tidings
