// The encoded matrix and the scan over all rows, at every level of vector instructions that is compiled, against plain
// comparison.
#include "tidings/encoding/matrix.hpp"

#include <array>
#include <map>
#include <set>

#include "check.hpp"
#include "tidings/encoding/row_scan.hpp"

using namespace tidings;
using units::Random;

namespace {

constexpr uint32_t words = 4;
using Vector = std::array<uint64_t, words>;

// Each bit is set with probability 1/2^halvings.
Vector sparse(Random& random, int halvings) {
    Vector vector;
    for (uint64_t& word : vector) {
        word = random();
        for (int i = 1; i < halvings; ++i) word &= random();
    }
    return vector;
}

Vector dense(Random& random) {
    Vector vector = sparse(random, 3);
    for (uint64_t& word : vector) word = ~word;
    return vector;
}

using Rows = std::map<uint32_t, std::set<Vector>>;

std::vector<uint32_t> expected(const Rows& rows, const Vector& message) {
    std::vector<uint32_t> routers;
    for (const auto& [router, vectors] : rows)
        for (const Vector& vector : vectors)
            if (is_subset(vector.data(), message.data(), words)) {
                routers.push_back(router);
                break;
            }
    return routers;
}

void check_answers(const EncodedMatrix& matrix, const Rows& rows, const std::vector<Vector>& messages) {
    for (const Simd level : {Simd::Portable, Simd::Avx2, Simd::Avx512}) {
        if (level > simd_best()) continue;
        const Answers answers = matrix.match(messages[0].data(), messages.size(), level);
        for (size_t i = 0; i < messages.size(); ++i) {
            const std::vector<uint32_t> routers(
                answers.values.begin() + static_cast<ptrdiff_t>(answers.offsets[i]),
                answers.values.begin() + static_cast<ptrdiff_t>(answers.offsets[i + 1]));
            CHECK(routers == expected(rows, messages[i]));
        }
    }
}

}  // namespace

TEST(matrix_finds_the_routers_that_plain_comparison_finds) {
    Random random(1);
    EncodedMatrix matrix(words * 64, random());
    Rows rows;
    size_t matches = 0;
    for (int round = 0; round < 12; ++round) {
        for (int i = 0; i < 150; ++i) {
            const Vector vector = sparse(random, 5);
            const auto router = static_cast<uint32_t>(random() % 40);
            CHECK(matrix.add(router, vector.data(), 1) == rows[router].insert(vector).second);
        }
        for (auto& [router, vectors] : rows) {
            while (!vectors.empty() && units::chance(random, 60)) {
                const Vector gone = *vectors.begin();
                CHECK(matrix.remove(router, gone.data(), 1) == vectors.erase(gone));
                CHECK(matrix.remove(router, gone.data(), 1) == 0);
            }
        }
        std::vector<Vector> messages;
        for (int i = 0; i < 40; ++i) messages.push_back(dense(random));
        check_answers(matrix, rows, messages);
        for (const Vector& message : messages) matches += expected(rows, message).size();
    }
    CHECK(matches > 100);
}

TEST(row_scan_finds_the_rows_that_plain_comparison_finds) {
    Random random(2);
    std::vector<Vector> rows;
    for (int i = 0; i < 500; ++i) rows.push_back(sparse(random, 5));
    std::vector<uint32_t> found(rows.size() + 1);
    for (int i = 0; i < 50; ++i) {
        const Vector message = dense(random);
        std::vector<uint32_t> wanted;
        for (uint32_t row = 0; row < rows.size(); ++row)
            if (is_subset(rows[row].data(), message.data(), words)) wanted.push_back(row);
        const size_t count = row_scan(rows[0].data(), rows.size(), words, message.data(), found.data());
        CHECK(std::vector<uint32_t>(found.begin(), found.begin() + static_cast<ptrdiff_t>(count)) == wanted);
    }
}

#if defined(TIDINGS_PORTABLE)
TEST(portable_code_knows_no_other_level) { CHECK(simd_best() == Simd::Portable); }
#endif
