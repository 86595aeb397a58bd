// LIKE patterns, topic patterns and substring search; none of them ever goes back in the text.
//
// A LIKE pattern is a row of runs divided by `%`. The first run is anchored at the start of the text, the last at its
// end, and each run between may take its leftmost hit. A run of plain characters is found by memmem. A run with `_`
// (one code point) is found by following all ways to match at once: bit i of the state says "the first i + 1 elements
// match what was just read", one shift per code point (Baeza-Yates and Gonnet 1992). The bits that accept a character
// are kept only for the words of 64 elements it occurs in, so a pattern of n characters takes memory in the order of n,
// whatever its alphabet. A code point costs one step, and one for each word up to the last that has a bit set: a run of
// up to 64 elements is linear in the text, one of the longest (4096) takes 64 steps a code point at worst. Whoever
// evaluates for others gives a budget (budget.hpp) for them. The same answers as src/tidings/model/like.py.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tidings/codec/utf8.hpp"
#include "tidings/matching/budget.hpp"

namespace tidings {

inline constexpr size_t no_hit = static_cast<size_t>(-1);

inline constexpr size_t search_bytes = 1 << 14;  // between two looks at the budget
inline constexpr uint64_t search_steps = 4;  // for a byte, with texts and needles made to be slow; mostly it takes less

namespace detail {

// In pieces, between which the budget is looked at.
[[gnu::noinline]] inline size_t find_in_long(std::string_view text, std::string_view needle, size_t start, size_t end,
                                             Budget& budget) {
    const size_t stride = std::max(search_bytes, 4 * needle.size());
    while (end - start >= needle.size()) {
        const size_t bytes = std::min(end - start, stride + needle.size() - 1);
        const void* hit = ::memmem(text.data() + start, bytes, needle.data(), needle.size());
        const size_t at = hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : no_hit;
        if (!budget.take(needle.size() + search_steps * (hit ? at - start : bytes))) return no_hit;
        if (hit || bytes < stride + needle.size() - 1) return at;
        start += stride;
    }
    return no_hit;
}

}  // namespace detail

// Leftmost hit of `needle` in text[start, end), in linear time whatever the two are; no_hit if the budget is exhausted.
inline size_t find_text(std::string_view text, std::string_view needle, size_t start, size_t end, Budget& budget) {
    if (needle.empty()) return start;
    if (end - start > search_bytes) [[unlikely]]
        return detail::find_in_long(text, needle, start, end, budget);
    if (end - start < needle.size()) return no_hit;
    const char* const first = text.data() + start;
    const auto* const hit = static_cast<const char*>(::memmem(first, end - start, needle.data(), needle.size()));
    if (!budget.take(needle.size() + search_steps * (hit ? static_cast<size_t>(hit - first) : end - start)) || !hit)
        return no_hit;
    return static_cast<size_t>(hit - text.data());
}

inline bool contains_text(std::string_view text, std::string_view needle, Budget& budget) {
    return find_text(text, needle, 0, text.size(), budget) != no_hit;
}

// The elements of a run with `_` that accept each character.
class LikeTable {
public:
    static constexpr uint32_t any = 0xFFFFFFFF;

    explicit LikeTable(const std::vector<uint32_t>& elements)
        : wild_((elements.size() + 63) / 64),
          size_(elements.size()) {
        std::map<uint32_t, std::vector<Word>> accepting;
        for (size_t i = 0; i < elements.size(); ++i) {
            const uint64_t bit = 1ull << (i % 64);
            if (elements[i] == any) {
                wild_[i / 64] |= bit;
                continue;
            }
            std::vector<Word>& words = accepting[elements[i]];
            if (words.empty() || words.back().index != i / 64) words.push_back({i / 64, 0});
            words.back().bits |= bit;
        }
        ascii_.fill(unknown);
        for (const auto& [point, words] : accepting) {
            if (point < ascii_.size()) ascii_[point] = static_cast<uint8_t>(points_.size());  // these come first
            points_.push_back(point);
            firsts_.push_back(words_.size());
            words_.insert(words_.end(), words.begin(), words.end());
        }
        firsts_.push_back(words_.size());
    }

    size_t words() const { return wild_.size(); }

    // The end of the leftmost hit in text[start, end), or no_hit; that as well if the budget is exhausted.
    size_t search(std::string_view text, size_t start, size_t end, Budget& budget) const {
        return words() == 1 ? search_word(text, start, end, budget) : search_words(text, start, end, budget);
    }

private:
    struct Word {
        size_t index;
        uint64_t bits;
    };
    static constexpr uint8_t unknown = 0xFF;
    static constexpr size_t points_at_once = 256;  // between two looks at the budget

    size_t search_word(std::string_view text, size_t start, size_t end, Budget& budget) const {
        const uint64_t goal = 1ull << (size_ - 1), wild = wild_[0];
        uint64_t state = 0;
        while (start < end) {
            const size_t first = start, last = std::min(end, start + points_at_once);
            for (; start < last && !(state & goal);) {
                const size_t length = utf8_length(text[start]), found = find(text.data() + start, length);
                state = (state << 1 | 1) & (wild | (found < points_.size() ? words_[found].bits : 0));
                start += length;
            }
            if (!budget.take(2 * (start - first))) return no_hit;
            if (state & goal) return start;
        }
        return no_hit;
    }

    size_t search_words(std::string_view text, size_t start, size_t end, Budget& budget) const {
        std::array<uint64_t, 64> states;
        std::vector<uint64_t> more;
        if (words() > states.size()) more.resize(words());
        uint64_t* const state = more.empty() ? states.data() : more.data();
        std::fill_n(state, words(), 0);
        const uint64_t goal = 1ull << ((size_ - 1) % 64);
        size_t active = 1;  // words, of which all behind have no bit set
        while (start < end) {
            uint64_t steps = 0;
            const size_t last = std::min(end, start + points_at_once);
            for (; start < last && !(state[words() - 1] & goal);) {
                const size_t length = utf8_length(text[start]);
                active = step(state, active, find(text.data() + start, length));
                steps += 2 + active;
                start += length;
            }
            if (!budget.take(steps)) return no_hit;
            if (state[words() - 1] & goal) return start;
        }
        return no_hit;
    }

    // The place of a character among points_, or something beyond.
    size_t find(const char* at, size_t length) const {
        if (length == 1) return ascii_[static_cast<uint8_t>(*at)];
        const uint32_t point = utf8_decode(at, length);
        const auto found = std::lower_bound(points_.begin(), points_.end(), point);
        return found != points_.end() && *found == point ? static_cast<size_t>(found - points_.begin()) : no_hit;
    }

    // One more character; the number of words that are active then.
    size_t step(uint64_t* states, size_t active, size_t found) const {
        const bool known = found < points_.size();
        const Word* word = words_.data() + (known ? firsts_[found] : 0);
        const Word* const last = words_.data() + (known ? firsts_[found + 1] : 0);
        uint64_t carry = 1;  // a match may begin at every character
        size_t used = 1;
        for (size_t i = 0; i < active || (carry && i < words()); ++i) {
            uint64_t accepts = wild_[i];
            if (word != last && word->index == i) accepts |= word++->bits;
            const uint64_t shifted = states[i] << 1 | carry;
            carry = states[i] >> 63;
            states[i] = shifted & accepts;
            if (states[i]) used = i + 1;
        }
        return used;
    }

    std::array<uint8_t, 128> ascii_;  // places among points_
    std::vector<uint32_t> points_;    // the characters, sorted; points_[i] is accepted by the elements in
    std::vector<size_t> firsts_;      // words_[firsts_[i]] to words_[firsts_[i + 1] - 1]
    std::vector<Word> words_;
    std::vector<uint64_t> wild_;
    size_t size_;
};

class LikeRun {
public:
    void add(std::string_view character) {
        if (elements_.empty()) literal_ += character;
        else elements_.push_back(utf8_decode(character.data(), character.size()));
    }

    // The first `_` turns a plain run into a row of elements.
    void add_any() {
        for (size_t i = 0; i < literal_.size();) {
            const size_t length = utf8_length(literal_[i]);
            elements_.push_back(utf8_decode(literal_.data() + i, length));
            i += length;
        }
        literal_.clear();
        elements_.push_back(LikeTable::any);
    }

    bool empty() const { return literal_.empty() && elements_.empty(); }

    // Only runs that are searched for need the table.
    void finish(bool searched) {
        if (searched && !elements_.empty()) table_ = std::make_unique<LikeTable>(elements_);
    }

    // The end of the run if it matches text[start, ...), or no_hit.
    size_t match_at(std::string_view text, size_t start, size_t end) const {
        if (elements_.empty()) {
            const bool same = text.substr(start, end - start).starts_with(literal_);
            return same ? start + literal_.size() : no_hit;
        }
        for (const uint32_t element : elements_) {
            if (start >= end) return no_hit;
            const size_t length = utf8_length(text[start]);
            if (element != LikeTable::any && utf8_decode(text.data() + start, length) != element) return no_hit;
            start += length;
        }
        return start;
    }

    // The start of a run that ends the text, if it fits there; match_at decides if it matches.
    size_t start_before(std::string_view text, size_t start, size_t end) const {
        if (elements_.empty()) return end - start < literal_.size() ? no_hit : end - literal_.size();
        for (size_t i = 0; i < elements_.size(); ++i) {
            if (end <= start) return no_hit;
            do --end;
            while (utf8_continues(text[end]));
        }
        return end;
    }

    // The end of the leftmost hit in text[start, end), or no_hit; that as well if the budget is exhausted.
    size_t search(std::string_view text, size_t start, size_t end, Budget& budget) const {
        if (table_) return table_->search(text, start, end, budget);
        const size_t hit = find_text(text, literal_, start, end, budget);
        return hit == no_hit ? no_hit : hit + literal_.size();
    }

    // The elements that match_at looks at, and the words that a search takes for each character.
    size_t size() const { return literal_.size() + elements_.size(); }
    size_t words() const { return table_ ? table_->words() : 0; }

private:
    std::string literal_;             // of a plain run
    std::vector<uint32_t> elements_;  // of one with `_`: code points, or any
    std::unique_ptr<const LikeTable> table_;
};

class Like {
public:
    // The pattern is valid UTF-8. After a backslash any character stands for itself; so does a backslash at the very
    // end.
    explicit Like(std::string_view pattern) : runs_(1) {
        for (size_t i = 0; i < pattern.size();) {
            if (pattern[i] == '%') {
                if (runs_.size() == 1 || !runs_.back().empty()) runs_.emplace_back();  // %% says no more than %
                ++i;
            } else if (pattern[i] == '_') {
                runs_.back().add_any();
                ++i;
            } else {
                if (pattern[i] == '\\' && i + 1 < pattern.size()) ++i;
                const size_t length = utf8_length(pattern[i]);
                runs_.back().add(pattern.substr(i, length));
                i += length;
            }
        }
        for (size_t i = 0; i < runs_.size(); ++i) runs_[i].finish(i > 0 && i + 1 < runs_.size());
    }

    // The text is valid UTF-8. No answer if the budget is exhausted.
    bool matches(std::string_view text, Budget& budget) const {
        if (!budget.take(2 * std::min(text.size(), runs_.front().size() + runs_.back().size()))) return false;
        size_t start = runs_.front().match_at(text, 0, text.size());
        if (runs_.size() == 1 || start == no_hit) return start == text.size();
        const size_t end = runs_.back().start_before(text, start, text.size());
        if (end == no_hit || runs_.back().match_at(text, end, text.size()) == no_hit) return false;
        for (size_t i = 1; i + 1 < runs_.size(); ++i) {
            start = runs_[i].search(text, start, end, budget);
            if (start == no_hit) return false;
        }
        return true;
    }
    bool matches(std::string_view text) const {
        Budget budget(Budget::unlimited);
        return matches(text, budget);
    }

    // The most words of 64 elements that a character of the text may take: what it costs beside others.
    size_t words() const {
        size_t most = 0;
        for (const LikeRun& run : runs_) most = std::max(most, run.words());
        return most;
    }

private:
    std::vector<LikeRun> runs_;
};

// `*` stands for exactly one level, `>` (only at the end) for one or more.
inline bool topic_matches(std::string_view pattern, std::string_view topic) {
    for (;;) {
        if (pattern == ">") return true;
        const size_t want = std::min(pattern.find('.'), pattern.size()), have = std::min(topic.find('.'), topic.size());
        const std::string_view level = pattern.substr(0, want);
        if (level != "*" && level != topic.substr(0, have)) return false;
        if (want == pattern.size() || have == topic.size()) return want == pattern.size() && have == topic.size();
        pattern.remove_prefix(want + 1);
        topic.remove_prefix(have + 1);
    }
}

}  // namespace tidings
