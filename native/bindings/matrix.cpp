#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include <mutex>
#include <shared_mutex>

#include "python_arrays.hpp"
#include "structure.hpp"
#include "tidings/codec/message_reader.hpp"
#include "tidings/encoding/element_matrix.hpp"
#include "tidings/encoding/matrix.hpp"
#include "tidings/encoding/row_scan.hpp"

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
        std::unique_lock lock(mutex_);
        return work();
    }

    template <class Work>
    auto read(Work&& work) {
        nb::gil_scoped_release release;
        std::shared_lock lock(mutex_);
        return work();
    }

public:
    explicit LockedMatrix(uint32_t bits) : matrix_(bits, process_seed()) {}

    size_t add(uint32_t router, Vectors vectors) {
        return change(vectors, [&] { return matrix_.add(router, vectors.data(), vectors.shape(0)); });
    }
    size_t remove(uint32_t router, Vectors vectors) {
        return change(vectors, [&] { return matrix_.remove(router, vectors.data(), vectors.shape(0)); });
    }
    void replace(uint32_t router, Vectors vectors) {
        change(vectors, [&] { matrix_.replace(router, vectors.data(), vectors.shape(0)); });
    }
    bool drop(uint32_t router) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        return matrix_.drop(router);
    }

    std::tuple<Array<uint64_t>, Array<uint32_t>> match(Vectors messages, bool rows, uint8_t simd) {
        check(messages);
        const Simd level = std::min(static_cast<Simd>(simd), simd_best());
        Answers answers = read([&] {
            return rows ? matrix_.match_rows(messages.data(), messages.shape(0), level)
                        : matrix_.match(messages.data(), messages.shape(0), level);
        });
        return {to_numpy(std::move(answers.offsets)), to_numpy(std::move(answers.values))};
    }

    Array<uint64_t> vectors(uint32_t router, bool minimal) {
        return to_numpy(read([&] { return matrix_.vectors(router, minimal); }));
    }

    uint32_t bits() const { return matrix_.bits(); }
    size_t router_count() {
        return read([&] { return matrix_.router_count(); });
    }
    size_t row_count() {
        return read([&] { return matrix_.row_count(); });
    }
    size_t active_row_count() {
        return read([&] { return matrix_.active_row_count(); });
    }
    size_t memory_bytes() {
        return read([&] { return matrix_.memory_bytes(); });
    }

private:
    void check(const Vectors& vectors) const {
        if (vectors.shape(1) * 64 != matrix_.bits())
            throw UsageError{"E_MATRIX_SHAPE", "vectors of " + std::to_string(vectors.shape(1) * 64) +
                                                   " bits in a matrix of " + std::to_string(matrix_.bits())};
    }

    EncodedMatrix matrix_;
    std::shared_mutex mutex_;
};

using Numbers = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// Sets in a row: those of set i are elements[offsets[i]] to elements[offsets[i + 1]].
struct Sets {
    const uint64_t* offsets;
    const uint64_t* elements;
    size_t count;

    Sets(const Numbers& offsets, const Numbers& elements)
        : offsets(offsets.data()),
          elements(elements.data()),
          count(offsets.shape(0) - 1) {
        bool right = offsets.shape(0) > 0 && offsets.data()[0] == 0 && offsets.data()[count] == elements.shape(0);
        for (size_t i = 0; right && i < count; ++i) right = this->offsets[i] <= this->offsets[i + 1];
        if (!right) throw UsageError{"E_MATRIX_SETS", "offsets do not divide the elements into sets"};
    }
    const uint64_t* set(size_t i) const { return elements + offsets[i]; }
    size_t size(size_t i) const { return offsets[i + 1] - offsets[i]; }
    void check_ascending() const {
        for (size_t i = 0; i < count; ++i)
            for (size_t j = 1; j < size(i); ++j)
                if (set(i)[j - 1] >= set(i)[j])
                    throw UsageError{"E_MATRIX_SETS", "the elements of a set do not ascend"};
    }
};

class LockedElementMatrix {
public:
    LockedElementMatrix() : matrix_(process_seed()) {}

    size_t add(uint32_t router, Numbers offsets, Numbers elements) {
        const Sets sets(offsets, elements);
        sets.check_ascending();
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        size_t added = 0;
        for (size_t i = 0; i < sets.count; ++i) added += matrix_.add(router, sets.set(i), sets.size(i));
        return added;
    }
    size_t remove(uint32_t router, Numbers offsets, Numbers elements) {
        const Sets sets(offsets, elements);
        sets.check_ascending();
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        size_t removed = 0;
        for (size_t i = 0; i < sets.count; ++i) removed += matrix_.remove(router, sets.set(i), sets.size(i));
        return removed;
    }
    bool drop(uint32_t router) {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        return matrix_.drop(router);
    }
    std::tuple<Array<uint64_t>, Array<uint32_t>> match(Numbers offsets, Numbers elements) {
        const Sets sets(offsets, elements);
        Answers answers{{0}, {}};
        {
            nb::gil_scoped_release release;
            std::shared_lock lock(mutex_);
            ElementMatrix::Scratch scratch;
            for (size_t i = 0; i < sets.count; ++i) {
                matrix_.match(sets.set(i), sets.size(i), scratch, answers.values);
                answers.offsets.push_back(answers.values.size());
            }
        }
        return {to_numpy(std::move(answers.offsets)), to_numpy(std::move(answers.values))};
    }
    template <class Result>
    Result read(Result (ElementMatrix::*get)() const) {
        nb::gil_scoped_release release;
        std::shared_lock lock(mutex_);
        return (matrix_.*get)();
    }

private:
    ElementMatrix matrix_;
    std::shared_mutex mutex_;
};

static void bind_element_matrix(nb::module_& m) {
    nb::class_<LockedElementMatrix>(m, "ElementMatrix")
        .def(nb::init<>())
        .def("add", &LockedElementMatrix::add, "router"_a, "offsets"_a, "elements"_a)
        .def("remove", &LockedElementMatrix::remove, "router"_a, "offsets"_a, "elements"_a)
        .def("drop", &LockedElementMatrix::drop, "router"_a)
        .def("match", &LockedElementMatrix::match, "offsets"_a, "elements"_a)
        .def_prop_ro("router_count", [](LockedElementMatrix& self) { return self.read(&ElementMatrix::router_count); })
        .def_prop_ro("row_count", [](LockedElementMatrix& self) { return self.read(&ElementMatrix::row_count); })
        .def_prop_ro("memory_bytes", [](LockedElementMatrix& self) { return self.read(&ElementMatrix::memory_bytes); });
}

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

static void bind_matrix(nb::module_& m) {
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
    bind_element_matrix(m);
    m.def("row_scan", &bind_row_scan, "rows"_a, "messages"_a,
          "Number of pairs that match, compared one by one: the baseline.");
    m.def("simd_level", [] { return static_cast<int>(simd_best()); }, "0 portable, 1 AVX2, 2 AVX-512.");
}

static const tidings::Structure structure{"matrix", bind_matrix};
