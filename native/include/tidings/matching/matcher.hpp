// The exact matcher: finds the subscribers whose predicates a message satisfies.
//
// A predicate is a disjunction of conjunctions; a conjunction is satisfied if all its constraints are. The paper's
// workload (10 attributes, a million conjunctions) leaves 25 microseconds for the 5000 subscribers that a message then
// has, so nothing may be done per conjunction, little per constraint, and memory must be read in streams or ahead of
// time.
//
//   message ── attribute ─► value block ── satisfied constraints ─► a set of bits
//                 │            ├────────── lone subscribers ──────► copied out
//                 │            └────────── candidates ────────────► rest checked ─► out
//                 ├─ equalities, two by two ─► bitmap ─► pair table ─► rest checked ─► out
//                 └─ numbers on their lines ─► sorted bounds (lone) and columns of intervals (groups) ─► out
//
// Every conjunction is filed under one *access*, the most selective thing it has:
//   one constraint                 its own list of subscribers; a lone bound: a sorted list, cut at the value
//   two or more equalities         the pair of its two rarest (Access::Pair)
//   an equality, IN or a pattern   the list of candidates of that constraint (Access::List)
//   bounds                         the group of rows on the same lines, compared eight at a time (Access::Range)
//   only negations                 candidates of the attribute's presence; only MISSING: looked at always
// Checking the rest of a candidate is mostly one bit test: everything listed that the message satisfies is in the set.
// Bounds compare 32-bit positions (position.hpp); what positions cannot decide, and negations, are evaluated on the
// values.
//
// Equal constraints and equal conjunctions are stored once, with counts and lists of their users, so everything can
// change at any time: an addition or removal touches a few lists and marks the value blocks that copied them. Hashes
// find things, but values are always compared. Hash tables grow by segments, arenas by pages: no pause grows with the
// whole.
//
// What clients can make expensive (patterns over long texts, negations, programs) has a budget for each message
// (budget.hpp); the ordinary path, which only looks up blocks and bits, knows nothing of it.
//
// Not done: counting satisfied constraints per conjunction (60 times slower at 100 000), trees over attributes,
// resetting anything per message in proportion to the number of conjunctions. References: Fabret et al., "Filtering
// algorithms and implementation for very fast publish/subscribe systems", SIGMOD 2001 (access predicates, prefetching);
// Carzaniga and Wolf, "Forwarding in a content-based network", SIGCOMM 2003 (counting).
#pragma once
#include "tidings/codec/batch.hpp"
#include "tidings/matching/matcher_index.hpp"
#include "tidings/matching/met_values.hpp"

namespace tidings {

// Ids of the subscribers of each message: those of message i are ids[offsets[i]] to ids[offsets[i + 1] - 1].
struct Matches {
    Column<uint32_t> offsets, ids;
};

class Matcher {
public:
    void add(uint32_t id, std::string_view predicate) {
        index_.add(id, predicate);
        seen_.resize(std::max(seen_.size(), size_t{std::min(id, SubscriberTable::direct_ids - 1)} / 64 + 1));
    }
    void remove(uint32_t id) { index_.remove(id); }

    // Each subscriber once a message, in no particular order. Entries of the batch that are no messages match no
    // subscriber.
    void match(const MessageBatch& batch, Matches& matches) {
        prepare();
        matches.offsets.clear();
        matches.offsets.reserve(batch.size() + 1);
        matches.offsets.push_back(0);
        begin(matches.ids);
        last_ = batch.last_attribute();
        for (size_t i = 0; i < batch.size(); ++i) {
            const Entry& far = batch[std::min(i + entries_ahead, batch.size() - 1)];
            __builtin_prefetch(&far.status);
            __builtin_prefetch(&far.message.attributes);
            if (batch[i].status == Entry::Status::Message) match_safely(batch[i].message);
            matches.offsets.push_back(static_cast<uint32_t>(count_));
        }
        end(matches.ids);
    }

    void match(const MessageView& message, Column<uint32_t>& ids) {
        prepare();
        begin(ids);
        last_ = nullptr;
        match_safely(message);
        end(ids);
    }

    size_t size() const { return index_.size(); }
    size_t conjunctions() const { return index_.conjunctions(); }
    // The derived attributes that batches must be decoded with (bits of Derived).
    uint8_t derived() const { return index_.derived(); }
    bool reads_texts() const { return index_.table.reads_texts(); }  // whether they need the readings of untyped texts
    ValueBlocks& blocks() { return index_.blocks; }

    // The most steps for one message, and what a filter counts as that was given up because they were used up.
    void limit(uint64_t steps, bool in_doubt) {
        index_.budget.set_steps(steps);
        index_.overruns.in_doubt = in_doubt;
    }
    uint64_t steps() const { return index_.budget.taken(); }       // in all
    uint64_t overruns() const { return index_.overruns.count(); }  // filters given up, each once a message
    // Ids concerned since the last call, and for how many messages; looks through all.
    std::vector<std::pair<uint32_t, uint64_t>> take_overruns() { return index_.take_overruns(); }
    size_t bytes() const {
        return index_.bytes() + satisfied_.capacity() + seen_.capacity() * 8 + (low_.capacity() + high_.capacity()) * 4;
    }

private:
    // Room for every constraint, line and attribute there is; between messages everything in it is reset.
    void prepare() {
        const auto fit = [](auto& column, size_t size, auto value) {
            if (column.size() < size) column.resize(size + size / 8, value);
        };
        fit(satisfied_, index_.table.end(), uint8_t{0});
        fit(low_, index_.table.line_end(), position_low);
        fit(high_, index_.table.line_end(), position_high);
        fit(present_, index_.table.attribute_end(), static_cast<const Value*>(nullptr));
        low_[0] = high_[0] = position_low;
        if (index_.subscribers.has_aliases())
            fit(seen_, (SubscriberTable::direct_ids + index_.subscribers.alias_end()) / 64 + 1, uint64_t{0});
    }

    // If memory runs out inside a message, its partial results must not reach the next.
    void match_safely(const MessageView& message) {
        try {
            match_one(message);
        } catch (...) {
            std::fill(low_.begin(), low_.end(), position_low);
            std::fill(high_.begin(), high_.end(), position_high);
            std::fill(present_.begin(), present_.end(), nullptr);
            std::fill(seen_.begin(), seen_.end(), 0);
            programs_.clear();
            gathered_ = 0;
            marked_met_ = present_known_ = false;
            throw;
        }
    }

    // While an attribute is met, memory brings what later ones of the batch will need, each step for what the one
    // before has brought in. They stand one after the other, so this goes on across messages. Farther ahead is not
    // better: what arrives too early has left the first-level cache again when it is used.
    TIDINGS_INLINE void read_ahead(const Attribute& attribute) const {
        const auto ahead = [&](ptrdiff_t distance) { return std::min(&attribute + distance, last_); };
        __builtin_prefetch(&ahead(32)->hash);
        index_.blocks.prefetch_slot(ahead(18)->hash);
        index_.blocks.prefetch_block(ahead(12)->hash);
        index_.blocks.prefetch_payload(ahead(6)->hash);
    }

    void match_one(const MessageView& message) {
        const size_t start = count_;
        index_.budget.begin_message();
        meet(message);
        begin_epoch();
        uint8_t* const satisfied = satisfied_.data();
        const uint8_t epoch = epoch_;
        for (size_t i = 0; i < counts_.satisfying; ++i) {
            const Payload* block = met_[i].satisfying;
            const uint32_t *number = block->satisfied_data(), *const end = block->satisfied_end();
            for (; number != end; number += Payload::satisfied_step)
                for (size_t j = 0; j < Payload::satisfied_step; ++j) satisfied[number[j]] = epoch;
        }
        emit_alone();
        check_candidates();
        index_.pairs.find_pairs(
            counts_.equalities, [this](size_t i) { return met_[i].equality; },
            [this](const Candidate* first, const Candidate* last) { check(first, last); });
        emit_gathered(gathered_);
        match_bounds();
        if (message.reading_count && index_.table.mixed()) drop_doubles(start);
        if (!programs_.empty()) run_programs(message);
        reset(start);
        if (index_.subscribers.has_aliases())
            for (size_t i = start; i < count_; ++i) out_[i] = index_.subscribers.id_of(out_[i]);
        index_.blocks.trim();
    }

    // Entries of the message before in `satisfied_` are out of date, not cleared.
    void begin_epoch() {
        if (++epoch_) return;
        std::fill(satisfied_.begin(), satisfied_.end(), 0);
        epoch_ = 1;
    }

    // ---- from attributes to blocks, lines and presence

    void meet(const MessageView& message) {
        const size_t count = message.attributes.size();
        if (met_.size() < count) met_.resize(count);
        lists_.clear();
        counts_ = MetCounts{};
        MetCounts counts;
        for (size_t i = 0; i < count; ++i) {
            const Attribute& attribute = message.attributes[i];
            if (last_) read_ahead(attribute);
            const ValueKey key = ValueKey::of(attribute, i < message.wire_count + message.reading_count);
            const ValueBlock* block = index_.blocks.find(attribute, key);
            if (!block) [[unlikely]] {
                const uint32_t number = index_.table.find_attribute(attribute.name, attribute.name_hash);
                if (number == none) continue;
                block = index_.blocks.make(number, attribute, key);
                if (!block) meet_unknown(number, attribute, counts);
            }
            if (block) [[likely]]
                meet_block(*block, attribute, counts);
            if (message.reading_count && message.is_reading(i))
                --counts.attributes;  // the text itself is there already
        }
        counts_ = counts;
        if (index_.table.presences()) meet_presences();
        if (!index_.always.empty()) lists_.push_back(&index_.always);
    }

    TIDINGS_INLINE void meet_block(const ValueBlock& block, const Attribute& attribute, MetCounts& counts) {
        const Payload& payload = *block.payload;
        MetValue* const met = met_.data();
        met[counts.satisfying].satisfying = met[counts.reaching].reaching = met[counts.proposing].proposing = &payload;
        counts.satisfying += payload.satisfied != 0;
        counts.reaching += (payload.plain | payload.marked) != 0;
        counts.proposing += payload.candidates != 0;
        met[counts.attributes].value = &attribute.value;
        met[counts.attributes++].attribute = block.attribute;
        met[counts.equalities].equality = block.equality;
        counts.equalities += block.equality != none;
        meet_line(payload.line, payload.position, payload.bounds_copied, counts);
        for (uint32_t i = 0; i < payload.long_lists; ++i)
            lists_.push_back(index_.table[payload.long_data()[i]].lists.get());
    }

    // A value that satisfies nothing listed.
    TIDINGS_INLINE void meet_unknown(uint32_t number, const Attribute& attribute, MetCounts& counts) {
        met_[counts.attributes].value = &attribute.value;
        met_[counts.attributes++].attribute = number;
        const uint32_t line = index_.table.attribute(number).lines[static_cast<size_t>(attribute.value.kind())];
        if (line != none) meet_line(line, position(attribute.value), false, counts);
    }

    // Line 0 may be met, too: that it changes nothing costs less than to ask.
    TIDINGS_INLINE void meet_line(uint32_t line, uint32_t position, bool bounds_copied, MetCounts& counts) {
        low_[line] = high_[line] = position;
        met_[counts.lines].line = met_[counts.bounded].bounded = line;
        counts.lines += line != 0;
        counts.bounded += (line != 0) & !bounds_copied;
    }

    void meet_presences() {
        for (size_t i = 0; i < counts_.attributes; ++i) {
            const uint32_t presence = index_.table.attribute(met_[i].attribute).presence;
            if (presence != none && index_.table[presence].lists) lists_.push_back(index_.table[presence].lists.get());
        }
    }

    // An IN over several kinds may be satisfied by a text and by what it reads as.
    void drop_doubles(size_t start) {
        uint32_t* const first = out_.data() + start;
        std::sort(first, out_.data() + count_);
        count_ = static_cast<size_t>(std::unique(first, out_.data() + count_) - out_.data());
    }

    void reset(size_t start) {
        for (size_t i = 0; i < counts_.lines; ++i)
            low_[met_[i].line] = position_low, high_[met_[i].line] = position_high;
        if (present_known_)
            for (size_t i = 0; i < counts_.attributes; ++i) present_[met_[i].attribute] = nullptr;
        present_known_ = false;
        if (!marked_met_) return;
        marked_met_ = false;
        if ((count_ - start) * 4 > seen_.size()) return std::fill(seen_.begin(), seen_.end(), 0);
        for (size_t i = start; i < count_; ++i) seen_[out_[i] >> 6] = 0;
    }

    // ---- output: straight into the caller's storage

    void begin(Column<uint32_t>& ids) {
        out_.swap(ids);
        out_.clear();
        count_ = 0;
    }
    void end(Column<uint32_t>& ids) {
        out_.set_size(count_);
        out_.swap(ids);
    }
    void need(size_t more) {
        if (count_ + more > UINT32_MAX)
            throw UsageError{"E_MATCHER_LIMIT", "a batch has more matches than can be counted"};
        out_.reserve(count_ + more);
    }

    void emit_plain(const uint32_t* tokens, size_t count) {
        if (count == 0) return;
        need(count);
        std::memcpy(out_.data() + count_, tokens, count * sizeof(uint32_t));
        count_ += count;
    }

    // Tokens of any kind: those that may come again are let through once, those with a program wait for the end.
    void emit_marked(const uint32_t* tokens, size_t count) {
        if (count == 0) return;
        need(count);
        marked_met_ = true;
        uint32_t* out = out_.data() + count_;
        uint64_t* const seen = seen_.data();
        for (size_t i = 0; i < count; ++i) {
            if (tokens[i] & (token_program | token_crowd)) [[unlikely]] {
                count_ = static_cast<size_t>(out - out_.data());
                emit_special(tokens[i]);
                need(count - i);
                out = out_.data() + count_;
                continue;
            }
            const uint32_t plain = tokens[i] & token_mask;
            const uint64_t bit = 1ull << (plain & 63), word = seen[plain >> 6];
            *out = plain;
            out += !(word & bit);
            seen[plain >> 6] = word | bit;
        }
        count_ = static_cast<size_t>(out - out_.data());
    }

    // Short lists and single finds come together first: one loop over all of them is foreseen better than many short
    // ones.
    void gather(const uint32_t* tokens, size_t count) {
        if (count > found_max - gathered_) [[unlikely]] {
            emit_gathered(gathered_);
            if (count > found_max) return emit_marked(tokens, count);
        }
        for (size_t i = 0; i < count; i += Payload::words_step)
            std::memcpy(found_.data() + gathered_ + i, tokens + i, Payload::words_step * sizeof(uint32_t));
        gathered_ += count;
        if (gathered_ == found_max) [[unlikely]]
            emit_gathered(gathered_);
    }
    void emit_gathered(size_t count) {
        gathered_ = 0;
        emit_marked(found_.data(), count);
    }

    void emit_special(uint32_t token) {
        if (token & token_crowd) {
            const Lists& crowd = index_.crowds[token & ~token_crowd];
            emit_plain(crowd.plain.data(), crowd.plain.size());
            emit_marked(crowd.marked.data(), crowd.marked.size());
            return;
        }
        const uint32_t plain = token & token_mask;
        uint64_t& word = seen_[plain >> 6];
        if (!(word >> (plain & 63) & 1)) programs_.push_back(plain);
        word |= 1ull << (plain & 63);
    }

    void emit_one(uint32_t token) {
        if (token & ~token_mask) emit_marked(&token, 1);
        else emit_plain(&token, 1);
    }

    void emit_alone() {
        for (size_t i = 0; i < counts_.reaching; ++i) {
            const Payload* block = met_[i].reaching;
            emit_plain(block->plain_data(), block->plain);
            gather(block->marked_data(), block->marked);
        }
        for (const Lists* lists : lists_) {
            emit_plain(lists->plain.data(), lists->plain.size());
            emit_marked(lists->marked.data(), lists->marked.size());
        }
    }

    [[gnu::noinline]] void run_programs(const MessageView& message) {
        finder_.set(message);
        for (const uint32_t plain : programs_) {
            seen_[plain >> 6] = 0;
            index_.budget.begin_filter();
            const Truth truth = index_.subscribers.program_of(plain).evaluate(finder_, index_.budget);
            if (!(index_.budget.exhausted() ? index_.overruns.give_up_program(plain) : truth == Truth::True)) continue;
            need(1);
            out_[count_++] = plain;
        }
        programs_.clear();
    }

    // ---- candidates

    void check_candidates() {
        for (size_t i = 0; i < counts_.proposing; ++i) {
            const Candidate* first = met_[i].proposing->candidate_data();
            check(first, first + met_[i].proposing->candidates);
        }
        for (const Lists* lists : lists_) check(lists->candidates.begin(), lists->candidates.end());
    }

    void check(const Candidate* first, const Candidate* last) {
        size_t count = gathered_;
        for (; first != last; ++first) {
            found_[count] = first->token;
            count += holds(*first);
            if (count == found_max) [[unlikely]]
                emit_gathered(count), count = 0;
        }
        gathered_ = count;
    }

    bool holds(const Candidate& candidate) {
        const uint32_t number = number_of(candidate.tag);
        switch (form_of(candidate.tag)) {
            case Form::Listed:
                if (satisfied_[number] != epoch_) return false;
                break;
            case Form::Upper: {
                const uint32_t at = high_[number];
                if (at > candidate.bound) return false;
                if (at == candidate.bound && !exact_position(at)) return row_holds(candidate.row);
                break;
            }
            case Form::Lower: {
                const uint32_t at = low_[number];
                if (at < candidate.bound) return false;
                if (at == candidate.bound && !exact_position(at)) return row_holds(candidate.row);
                break;
            }
            case Form::Direct:
                if (!direct_holds(number)) return false;
        }
        return !(candidate.row & candidate_more) || row_holds(candidate.row);
    }

    bool row_holds(uint32_t row) {
        for (const Reference one : index_.rows[row & ~candidate_more].rest())
            if (!reference_holds(one)) return false;
        return true;
    }

    bool reference_holds(Reference reference) {
        const uint32_t number = number_of(reference);
        if (form_of(reference) == Form::Listed) return satisfied_[number] == epoch_;
        if (form_of(reference) == Form::Direct) return direct_holds(number);
        const Interned& one = index_.table[number];
        const uint32_t at = one.form == Form::Upper ? high_[one.line] : low_[one.line];
        if (at == one.bound) return exact_position(at) || direct_holds(number);
        return (at < one.bound) == (one.form == Form::Upper);
    }

    // Few messages are asked for values, so these are set out by attribute only then.
    bool direct_holds(uint32_t number) {
        if (!present_known_) {
            present_known_ = true;
            for (size_t i = 0; i < counts_.attributes; ++i) present_[met_[i].attribute] = met_[i].value;
        }
        const Interned& one = index_.table[number];
        index_.budget.begin_filter();
        const bool answer = index_.table.holds(one, present_[one.attribute], index_.budget);
        return index_.budget.exhausted() ? index_.overruns.give_up_constraint(number) : answer;
    }

    // ---- bounds

    void match_bounds() {
        const auto slice = [this](const uint32_t* tokens, size_t count) { emit_marked(tokens, count); };
        const auto doubt_alone = [this](uint32_t token, uint32_t number) {
            if (direct_holds(number)) emit_one(token);
        };
        const auto doubt = [this](uint32_t token, uint32_t row) {
            if (row_holds(row)) emit_one(token);
        };
        for (size_t i = 0; i < counts_.bounded; ++i) {
            const uint32_t line = met_[i].bounded;
            index_.bounds[line].upper.above(high_[line], slice, doubt_alone);
            index_.bounds[line].lower.below(low_[line], slice, doubt_alone);
        }
        uint64_t present = 0;
        for (size_t i = 0; i < counts_.lines; ++i) present |= RangeGroups::line_bit(met_[i].line);
        for (size_t i = 0; i < counts_.lines; ++i) {
            const uint32_t line = met_[i].line;
            index_.ranges.match(line, present, low_.data(), high_.data(), slice, doubt);
        }
    }

    static constexpr size_t entries_ahead = 12;

    MatcherIndex index_;
    const Attribute* last_ = nullptr;  // of the batch at hand, if there is one: nothing is read beyond it
    std::vector<uint8_t> satisfied_;   // by listed constraint: the epoch of the last message that satisfied it
    uint8_t epoch_ = 0;
    std::vector<uint32_t> low_, high_;   // by line: the message's position, or what satisfies no bound
    std::vector<const Value*> present_;  // by attribute, once it was needed
    bool present_known_ = false;
    std::vector<uint64_t> seen_;  // a bit for each marked token that was met
    bool marked_met_ = false;
    Column<uint32_t> out_;
    size_t count_ = 0;
    static constexpr size_t found_max = 1024;
    std::array<uint32_t, found_max + Payload::words_step> found_;  // tokens not yet emitted
    size_t gathered_ = 0;
    std::vector<MetValue> met_;
    MetCounts counts_;
    std::vector<const Lists*> lists_;  // besides those in blocks: long ones, presence, always
    std::vector<uint32_t> programs_;
    AttributeFinder finder_;
};

}  // namespace tidings
