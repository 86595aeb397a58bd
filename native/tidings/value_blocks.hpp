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

struct Block {
    enum class State : uint8_t { Free, Fresh, ListsStale, Stale };

    uint64_t hash = 0;
    Value value;  // its text lies at the end of the payload
    char* payload = nullptr;  // candidates, satisfied, plain, marked, references, text
    uint32_t attribute = none, equality = none, position = 0, generation = 0;
    uint32_t candidates = 0, satisfied = 0, plain = 0, marked = 0, long_lists = 0, payload_bytes = 0;
    uint32_t next = none, previous = none;  // blocks of the same attribute
    State state = State::Free;
    bool used = false;

    // The candidates stand first because they need the widest alignment.
    const Candidate* candidate_data() const { return reinterpret_cast<const Candidate*>(payload); }
    const uint32_t* satisfied_data() const { return reinterpret_cast<const uint32_t*>(payload + candidates * sizeof(Candidate)); }
    const uint32_t* plain_data() const { return satisfied_data() + satisfied; }
    const uint32_t* marked_data() const { return plain_data() + plain; }
    const uint32_t* long_data() const { return marked_data() + marked; }
};

class ValueBlocks {
public:
    struct Limits {
        size_t blocks = 1 << 15, bytes = 32u << 20;
        size_t copied = 32;   // longer lists are referred to
        size_t checked = 1024;  // an attribute with more blocks has them all marked when a pattern changes
    };

    ValueBlocks(ConstraintTable& table, PatternIndex& patterns) : table_(table), patterns_(patterns) {}
    ~ValueBlocks() {
        for (uint32_t i = 0; i < blocks_.end(); ++i) std::free(blocks_[i].payload);
    }
    ValueBlocks(const ValueBlocks&) = delete;
    ValueBlocks& operator=(const ValueBlocks&) = delete;

    void prefetch(uint64_t hash) const { __builtin_prefetch(&slots_[hash & mask()]); }
    // The block that stands first where this hash would be; it may be another's.
    void prefetch_block(uint64_t hash) const {
        const Slot& slot = slots_[hash & mask()];
        if (slot.block != none) __builtin_prefetch(&blocks_[slot.block]);
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
        block.position = position(attribute.value);
        if ((count_ + 1) * 2 > slots_.size()) grow();
        link(number);
        refill(block);
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
            if (block != none) mark(blocks_[block], state);
        } else if (attribute.blocks > limits_.checked) {
            ++generations_[one.attribute];
        } else {
            for (uint32_t block = attribute.first_block; block != none; block = blocks_[block].next)
                if (table_.holds(one, &blocks_[block].value)) mark(blocks_[block], state);
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
            if (block.hash == hash && equal(block.value, value) && table_.attribute(block.attribute).name == name) return slots_[i].block;
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
        payload_bytes_ -= blocks_[number].payload_bytes;
        std::free(blocks_[number].payload);
        blocks_.release(number);
    }

    void link(uint32_t number) {
        Block& block = blocks_[number];
        AttributeRecord& attribute = table_.attribute(block.attribute);
        if (generations_.size() <= block.attribute) generations_.resize(block.attribute + 1);
        block.next = attribute.first_block;
        if (block.next != none) blocks_[block.next].previous = number;
        attribute.first_block = number;
        ++attribute.blocks;
    }

    void unlink(uint32_t number) {
        const Block& block = blocks_[number];
        AttributeRecord& attribute = table_.attribute(block.attribute);
        if (block.next != none) blocks_[block.next].previous = block.previous;
        (block.previous == none ? attribute.first_block : blocks_[block.previous].next) = block.next;
        --attribute.blocks;
    }

    static void mark(Block& block, Block::State state) {
        if (block.state < state) block.state = state;
    }

    void refill(Block& block) {
        satisfied_.clear();
        if (block.state == Block::State::ListsStale && block.generation == generations_[block.attribute]) {
            satisfied_.assign(block.satisfied_data(), block.satisfied_data() + block.satisfied);
        } else {
            block.equality = table_.find_equality(block.attribute, block.value, block.hash);
            if (block.equality != none) satisfied_.push_back(block.equality);
            patterns_.find_satisfied(block.attribute, block.value, block.hash, satisfied_);
        }
        block.generation = generations_[block.attribute];
        block.state = Block::State::Fresh;
        block.used = true;
        long_.clear();
        size_t candidates = 0, plain = 0, marked = 0;
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists) continue;
            if (!copies(*lists)) long_.push_back(number);
            else candidates += lists->candidates.size(), plain += lists->plain.size(), marked += lists->marked.size();
        }
        lay_out(block, candidates, plain, marked);
    }

    void lay_out(Block& block, size_t candidates, size_t plain, size_t marked) {
        const size_t words = satisfied_.size() + plain + marked + long_.size();
        const size_t text = block.value.s.size(), bytes = candidates * sizeof(Candidate) + words * 4 + text;
        char* const payload = static_cast<char*>(std::malloc(bytes ? bytes : 1));
        if (!payload) throw std::bad_alloc();
        auto* candidate = reinterpret_cast<Candidate*>(payload);
        auto* word = std::copy(satisfied_.begin(), satisfied_.end(), reinterpret_cast<uint32_t*>(candidate + candidates));
        uint32_t *plain_at = word, *marked_at = plain_at + plain;
        for (const uint32_t number : satisfied_) {
            const Lists* lists = table_[number].lists.get();
            if (!lists || !copies(*lists)) continue;
            candidate = std::copy(lists->candidates.begin(), lists->candidates.end(), candidate);
            plain_at = std::copy(lists->plain.begin(), lists->plain.end(), plain_at);
            marked_at = std::copy(lists->marked.begin(), lists->marked.end(), marked_at);
        }
        char* const end = reinterpret_cast<char*>(std::copy(long_.begin(), long_.end(), marked_at));
        if (text) std::memcpy(end, block.value.s.data(), text);
        block.value.s = {text ? end : nullptr, text};
        std::free(block.payload);
        payload_bytes_ += bytes - block.payload_bytes;
        block.payload = payload;
        block.payload_bytes = static_cast<uint32_t>(bytes);
        block.candidates = static_cast<uint32_t>(candidates);
        block.satisfied = static_cast<uint32_t>(satisfied_.size());
        block.plain = static_cast<uint32_t>(plain);
        block.marked = static_cast<uint32_t>(marked);
        block.long_lists = static_cast<uint32_t>(long_.size());
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
