#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <mutex>
#include <shared_mutex>

#include "python_arrays.hpp"
#include "tidings/codec.hpp"
#include "tidings/matrix.hpp"
#include "tidings/row_scan.hpp"

namespace nb = nanobind;
using nb::literals::operator""_a;
using namespace tidings;

namespace {

using Vectors = nb::ndarray<const uint64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

// Many readers or one writer. The GIL is released before the lock is taken, so the two never wait for each other.
class LockedMatrix {
    template <class Work>
    auto change(const Vectors& vectors, Work&& work) {
        check(vectors);
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        return work();
    }

    template <class Work>
    auto read(Work&& work) {
        nb::gil_scoped_release release;
        std::shared_lock lock(mutex);
        return work();
    }

public:
    explicit LockedMatrix(uint32_t bits) : matrix(bits, process_seed()) {}

    size_t add(uint32_t router, Vectors vectors) {
        return change(vectors, [&] { return matrix.add(router, vectors.data(), vectors.shape(0)); });
    }
    size_t remove(uint32_t router, Vectors vectors) {
        return change(vectors, [&] { return matrix.remove(router, vectors.data(), vectors.shape(0)); });
    }
    void replace(uint32_t router, Vectors vectors) {
        change(vectors, [&] { matrix.replace(router, vectors.data(), vectors.shape(0)); });
    }
    bool drop(uint32_t router) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex);
        return matrix.drop(router);
    }

    std::tuple<Array<uint64_t>, Array<uint32_t>> match(Vectors messages, bool rows, uint8_t simd) {
        check(messages);
        const Simd level = std::min(static_cast<Simd>(simd), simd_best());
        Answers answers = read([&] {
            return rows ? matrix.match_rows(messages.data(), messages.shape(0), level)
                        : matrix.match(messages.data(), messages.shape(0), level);
        });
        return {to_numpy(std::move(answers.offsets)), to_numpy(std::move(answers.values))};
    }

    Array<uint64_t> vectors(uint32_t router, bool minimal) {
        return to_numpy(read([&] { return matrix.vectors(router, minimal); }));
    }

    uint32_t bits() const { return matrix.bits(); }
    size_t router_count() { return read([&] { return matrix.router_count(); }); }
    size_t row_count() { return read([&] { return matrix.row_count(); }); }
    size_t active_row_count() { return read([&] { return matrix.active_row_count(); }); }
    size_t memory_bytes() { return read([&] { return matrix.memory_bytes(); }); }

private:
    void check(const Vectors& vectors) const {
        if (vectors.shape(1) * 64 != matrix.bits())
            throw UsageError{"E_MATRIX_SHAPE", "vectors of " + std::to_string(vectors.shape(1) * 64) + " bits in a matrix of " +
                             std::to_string(matrix.bits())};
    }

    EncodedMatrix matrix;
    std::shared_mutex mutex;
};

size_t bind_row_scan(Vectors rows, Vectors messages) {
    if (rows.shape(1) != messages.shape(1)) throw UsageError{"E_MATRIX_SHAPE", "rows and messages differ in length"};
    nb::gil_scoped_release release;
    std::vector<uint32_t> out(rows.shape(0) + 1);
    size_t matches = 0;
    for (size_t i = 0; i < messages.shape(0); ++i)
        matches += row_scan(rows.data(), rows.shape(0), static_cast<uint32_t>(rows.shape(1)),
                            messages.data() + i * messages.shape(1), out.data());
    return matches;
}

}  // namespace

void bind_matrix(nb::module_& m) {
    nb::class_<LockedMatrix>(m, "EncodedMatrix")
        .def(nb::init<uint32_t>(), "bits"_a)
        .def("add", &LockedMatrix::add, "router"_a, "vectors"_a)
        .def("remove", &LockedMatrix::remove, "router"_a, "vectors"_a)
        .def("replace", &LockedMatrix::replace, "router"_a, "vectors"_a)
        .def("drop", &LockedMatrix::drop, "router"_a)
        .def("match", &LockedMatrix::match, "messages"_a, "rows"_a = false, "simd"_a = 2)
        .def("vectors", &LockedMatrix::vectors, "router"_a, "minimal"_a)
        .def_prop_ro("bits", &LockedMatrix::bits)
        .def_prop_ro("router_count", &LockedMatrix::router_count)
        .def_prop_ro("row_count", &LockedMatrix::row_count)
        .def_prop_ro("active_row_count", &LockedMatrix::active_row_count)
        .def_prop_ro("memory_bytes", &LockedMatrix::memory_bytes);
    m.def("row_scan", &bind_row_scan, "rows"_a, "messages"_a, "How many pairs match, found one by one: the yardstick.");
    m.def("simd_level", [] { return static_cast<int>(simd_best()); }, "0 portable, 1 AVX2, 2 AVX-512.");
}
