// The routers that want a message: PREDICATES of B-DRP, rows of either form, and exact filters, behind one interface.
#pragma once
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "tidings/encoding/element_matrix.hpp"
#include "tidings/encoding/encoding.hpp"
#include "tidings/encoding/filter_rows.hpp"
#include "tidings/encoding/matrix.hpp"

namespace tidings {

class Interests {
public:
    // Rows are vectors of `bits` bits, or with `vectors` false sets of elements.
    Interests(bool vectors, uint32_t bits, uint32_t hashes, uint64_t key, Grade grade, uint64_t seed)
        : encoder_(bits, hashes, key, grade),
          elements_(seed),
          filters_(std::make_unique<FilterRows>(seed)) {
        if (vectors) matrix_ = std::make_unique<EncodedMatrix>(bits, seed);
    }

    // Throws if these bytes are no row.
    void check(std::string_view row) {
        if (FilterRows::is_filter(row)) FilterRows::check(row);
        else load(row);
    }

    void add(uint32_t router, std::string_view row) {
        if (FilterRows::is_filter(row)) {
            filters_->add(router, row);
            return;
        }
        load(row);
        if (matrix_) matrix_->add(router, row_.data(), 1);
        else elements_.add(router, row_.data(), row_.size());
    }

    void remove(uint32_t router, std::string_view row) {
        if (FilterRows::is_filter(row)) {
            filters_->remove(router, row);
            return;
        }
        load(row);
        if (matrix_) matrix_->remove(router, row_.data(), 1);
        else elements_.remove(router, row_.data(), row_.size());
    }

    void forget(uint32_t router) {
        matrix_ ? matrix_->drop(router) : elements_.drop(router);
        filters_->drop(router);
    }

    // The derived attributes that messages must be decoded with.
    uint8_t derived() const { return filters_->derived(); }

    // The routers of one message, ascending, each once.
    void match(const MessageView& message, std::vector<uint32_t>& out) {
        out.clear();
        if (encoded_count()) match_encoded(message, out);
        if (filters_->empty()) return;
        const size_t encoded = out.size();
        filters_->match(message, out);
        if (encoded == 0) return;
        std::inplace_merge(out.begin(), out.begin() + static_cast<ptrdiff_t>(encoded), out.end());
        out.erase(std::unique(out.begin(), out.end()), out.end());
    }

private:
    size_t encoded_count() const { return matrix_ ? matrix_->router_count() : elements_.router_count(); }

    void match_encoded(const MessageView& message, std::vector<uint32_t>& out) {
        if (matrix_) {
            carried_.assign(encoder_.words(), 0);
            encoder_.vector(message, carried_.data());
            const Answers answers = matrix_->match(carried_.data(), 1);
            out.assign(answers.values.begin(), answers.values.end());
        } else {
            carried_.clear();
            // In no order, and some twice: the matrix does not mind, and sorting takes as long as matching.
            if (encoder_.elements(message, [&](uint64_t element) { carried_.push_back(element); }))
                elements_.match(carried_.data(), carried_.size(), scratch_, out);
            else elements_.all_routers(out);
        }
    }

    void load(std::string_view row) {
        if (row.size() % 8 || (matrix_ && row.size() != size_t{encoder_.words()} * 8))
            throw UsageError{"E_INTEREST_ROW", "a row of " + std::to_string(row.size()) +
                                                   " bytes is neither a vector nor a set of elements"};
        row_.resize(row.size() / 8);
        if (!row_.empty()) std::memcpy(row_.data(), row.data(), row.size());
        for (size_t i = 1; !matrix_ && i < row_.size(); ++i)
            if (row_[i - 1] >= row_[i]) throw UsageError{"E_INTEREST_ROW", "the elements of a row do not ascend"};
    }

    Encoder encoder_;
    ElementMatrix elements_;
    std::unique_ptr<FilterRows> filters_;  // large, and does not move
    std::unique_ptr<EncodedMatrix> matrix_;
    std::vector<uint64_t> row_, carried_;
    ElementMatrix::Scratch scratch_;
};

}  // namespace tidings
