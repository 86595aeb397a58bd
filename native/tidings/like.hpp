// LIKE patterns, topic patterns and substring search; none of them ever goes back in the text.
//
// A LIKE pattern is a row of runs divided by `%`. The first run is anchored at the start of the text, the last at its end,
// and each run between may take its leftmost hit. A run of plain characters is found by memmem. A run with `_` (one code point)
// is found by following all ways to match at once: bit i of the state says "the first i + 1 elements match what was just read",
// one shift per code point (Baeza-Yates and Gonnet 1992). The bits that accept a character are kept only for the words of 64
// elements it occurs in, so a pattern of n characters takes memory in the order of n, whatever its alphabet.
// The same answers as src/tidings/model/like.py.
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

#include "tidings/utf8.hpp"

namespace tidings {

inline constexpr size_t no_hit = static_cast<size_t>(-1);

// Leftmost hit of `needle` in text[start, end), in linear time whatever the two are.
inline size_t find_text(std::string_view text, std::string_view needle, size_t start, size_t end) {
    if (needle.empty()) return start;
    const void* hit = ::memmem(text.data() + start, end - start, needle.data(), needle.size());
    return hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : no_hit;
}

inline bool contains_text(std::string_view text, std::string_view needle) {
    return find_text(text, needle, 0, text.size()) != no_hit;
}

// Which elements of a run with `_` accept which character.
class LikeTable {
public:
    static constexpr uint32_t any = 0xFFFFFFFF;

    explicit LikeTable(const std::vector<uint32_t>& elements) : wild_((elements.size() + 63) / 64), size_(elements.size()) {
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
        for (const auto& [point, words] : accepting) {
            points_.push_back(point);
            firsts_.push_back(words_.size());
            words_.insert(words_.end(), words.begin(), words.end());
        }
        firsts_.push_back(words_.size());
    }

    // Where the leftmost hit in text[start, end) ends, or no_hit.
    size_t search(std::string_view text, size_t start, size_t end) const {
        std::array<uint64_t, 16> few{};
        std::vector<uint64_t> many;
        if (wild_.size() > few.size()) many.resize(wild_.size());
        uint64_t* const states = many.empty() ? few.data() : many.data();
        const uint64_t goal = 1ull << ((size_ - 1) % 64);
        while (start < end) {
            const size_t length = utf8_length(text[start]);
            step(states, utf8_decode(text.data() + start, length));
            start += length;
            if (states[wild_.size() - 1] & goal) return start;
        }
        return no_hit;
    }

private:
    struct Word {
        size_t index;
        uint64_t bits;
    };

    void step(uint64_t* states, uint32_t point) const {
        const size_t found = static_cast<size_t>(std::lower_bound(points_.begin(), points_.end(), point) - points_.begin());
        const bool known = found < points_.size() && points_[found] == point;
        const Word* word = words_.data() + (known ? firsts_[found] : 0);
        const Word* const last = words_.data() + (known ? firsts_[found + 1] : 0);
        uint64_t carry = 1;  // a match may begin at every character
        for (size_t i = 0; i < wild_.size(); ++i) {
            uint64_t accepts = wild_[i];
            if (word != last && word->index == i) accepts |= word++->bits;
            const uint64_t shifted = states[i] << 1 | carry;
            carry = states[i] >> 63;
            states[i] = shifted & accepts;
        }
    }

    std::vector<uint32_t> points_;  // the characters, sorted; points_[i] is accepted by the elements in
    std::vector<size_t> firsts_;    // words_[firsts_[i]] to words_[firsts_[i + 1] - 1]
    std::vector<Word> words_;
    std::vector<uint64_t> wild_;
    size_t size_;
};

class LikeRun {
public:
    void add(std::string_view character) {
        if (elements_.empty())
            literal_ += character;
        else
            elements_.push_back(utf8_decode(character.data(), character.size()));
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

    // Where the run ends if it matches text[start, ...), or no_hit.
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

    // Where a run that ends the text begins, if it fits there; whether it matches is for match_at to say.
    size_t start_before(std::string_view text, size_t start, size_t end) const {
        if (elements_.empty()) return end - start < literal_.size() ? no_hit : end - literal_.size();
        for (size_t i = 0; i < elements_.size(); ++i) {
            if (end <= start) return no_hit;
            do --end;
            while (utf8_continues(text[end]));
        }
        return end;
    }

    // Where the leftmost hit in text[start, end) ends, or no_hit.
    size_t search(std::string_view text, size_t start, size_t end) const {
        if (table_) return table_->search(text, start, end);
        const size_t hit = find_text(text, literal_, start, end);
        return hit == no_hit ? no_hit : hit + literal_.size();
    }

private:
    std::string literal_;             // of a plain run
    std::vector<uint32_t> elements_;  // of one with `_`: code points, or any
    std::unique_ptr<const LikeTable> table_;
};

class Like {
public:
    // The pattern is valid UTF-8. After a backslash any character stands for itself; so does a backslash at the very end.
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

    // The text is valid UTF-8.
    bool matches(std::string_view text) const {
        size_t start = runs_.front().match_at(text, 0, text.size());
        if (runs_.size() == 1 || start == no_hit) return start == text.size();
        const size_t end = runs_.back().start_before(text, start, text.size());
        if (end == no_hit || runs_.back().match_at(text, end, text.size()) == no_hit) return false;
        for (size_t i = 1; i + 1 < runs_.size(); ++i) {
            start = runs_[i].search(text, start, end);
            if (start == no_hit) return false;
        }
        return true;
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
