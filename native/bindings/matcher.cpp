// The exact matcher's binding, and that of the scan it is measured against.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <mutex>

#include "python_batch.hpp"
#include "structure.hpp"
#include "tidings/matching/linear_matcher.hpp"
#include "tidings/matching/matcher.hpp"

using namespace tidings;

namespace {

// Result arrays that Python has released, for the next results: fresh memory would cost more in page faults than
// matching does.
class ResultPool {
public:
    Column<uint32_t> take() {
        const std::lock_guard lock(mutex_);
        Column<uint32_t> column;
        if (spare_.empty()) return column;
        column.swap(spare_.back());
        spare_.pop_back();
        return column;
    }
    void give(Column<uint32_t>&& column) {
        const std::lock_guard lock(mutex_);
        if (spare_.size() < spare_max && column.bytes() <= bytes_max) spare_.push_back(std::move(column));
    }
    static ResultPool& instance() {
        static ResultPool pool;
        return pool;
    }

private:
    static constexpr size_t spare_max = 4, bytes_max = 32u << 20;

    std::mutex mutex_;
    std::vector<Column<uint32_t>> spare_;
};

nb::object array(Column<uint32_t>&& values) {
    auto* kept = new Column<uint32_t>(std::move(values));
    const nb::capsule owner(kept, [](void* data) noexcept {
        auto* column = static_cast<Column<uint32_t>*>(data);
        ResultPool::instance().give(std::move(*column));
        delete column;
    });
    static uint32_t nothing = 0;
    return nb::cast(
        nb::ndarray<nb::numpy, uint32_t, nb::ndim<1>>(kept->size() ? kept->data() : &nothing, {kept->size()}, owner));
}

// Matching uses scratch space inside the matcher and runs without the GIL, so one thread at a time.
template <class Engine>
class PyMatcher {
public:
    void add(uint32_t id, nb::handle predicate) {
        const Buffer buffer(predicate);
        const std::lock_guard lock(mutex_);
        engine_.add(id, buffer.view());
    }
    void remove(uint32_t id) {
        const std::lock_guard lock(mutex_);
        engine_.remove(id);
    }

    // Several at once: the blobs lie one after the other, ends[i] is where the i-th ends.
    void add_many(nb::ndarray<const uint32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> ids, nb::handle blobs,
                  nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu> ends) {
        const Buffer buffer(blobs);
        if (ids.size() != ends.size()) throw UsageError{"E_MATCHER_ARRAYS", "as many ids as ends"};
        nb::gil_scoped_release release;
        const std::lock_guard lock(mutex_);
        uint64_t start = 0;
        for (size_t i = 0; i < ids.size(); ++i) {
            const uint64_t end = ends.data()[i];
            if (end < start || end > buffer.view().size())
                throw UsageError{"E_MATCHER_ARRAYS", "ends must ascend within the blobs"};
            engine_.add(ids.data()[i], buffer.view().substr(start, end - start));
            start = end;
        }
    }

    nb::object match(const PyBatch& batch) {
        Matches matches{ResultPool::instance().take(), ResultPool::instance().take()};
        {
            nb::gil_scoped_release release;
            const std::lock_guard lock(mutex_);
            engine_.match(batch.batch(), matches);
        }
        return nb::make_tuple(array(std::move(matches.offsets)), array(std::move(matches.ids)));
    }

    void limit(uint64_t steps, bool in_doubt) {
        const std::lock_guard lock(mutex_);
        engine_.limit(steps, in_doubt);
    }
    uint64_t steps() const { return locked(&Engine::steps); }
    uint64_t overruns() const { return locked(&Engine::overruns); }
    std::vector<std::pair<uint32_t, uint64_t>> take_overruns() {
        const std::lock_guard lock(mutex_);
        return engine_.take_overruns();
    }

    size_t size() const { return locked(&Engine::size); }
    size_t conjunctions() const { return locked(&Engine::conjunctions); }
    size_t bytes() const { return locked(&Engine::bytes); }
    unsigned derived() const { return locked(&Engine::derived); }

private:
    template <class Result>
    Result locked(Result (Engine::*ask)() const) const {
        const std::lock_guard lock(mutex_);
        return (engine_.*ask)();
    }

    Engine engine_;
    mutable std::mutex mutex_;
};

template <class Engine>
nb::class_<PyMatcher<Engine>> bind(nb::module_& m, const char* name, const char* doc) {
    using Face = PyMatcher<Engine>;
    return nb::class_<Face>(m, name, doc)
        .def(nb::init<>())
        .def("add", &Face::add, nb::arg("id"), nb::arg("predicate"), "Adds a subscriber with an encoded predicate.")
        .def("add_many", &Face::add_many, nb::arg("ids"), nb::arg("blobs"), nb::arg("ends"),
             "Adds subscribers whose predicates lie one after the other in `blobs`; the i-th ends at ends[i].")
        .def("remove", &Face::remove, nb::arg("id"))
        .def("match", &Face::match, nb::arg("batch"),
             nb::sig("def match(self, batch: MessageBatch) -> "
                     "tuple[numpy.typing.NDArray[numpy.uint32], numpy.typing.NDArray[numpy.uint32]]"),
             "Offsets and ids: entry i's subscribers are ids[offsets[i]:offsets[i + 1]], each once, in no particular "
             "order.")
        .def("__len__", &Face::size)
        .def_prop_ro("conjunctions", &Face::conjunctions)
        .def_prop_ro("memory_bytes", &Face::bytes)
        .def_prop_ro("derived_mask", &Face::derived, "The derived attributes that batches must show, as bits.");
}

}  // namespace

static void bind_matcher(nb::module_& m) {
    using Face = PyMatcher<Matcher>;
    bind<Matcher>(m, "Matcher", "The exact matcher: an index over subscribers' predicates.")
        .def("limit", &Face::limit, nb::arg("steps"), nb::arg("in_doubt"),
             "Sets the most steps for one message, and if a filter that was given up counts as satisfied.")
        .def_prop_ro("steps", &Face::steps, "Steps taken since it was made.")
        .def_prop_ro("overruns", &Face::overruns, "Evaluations that were given up since it was made.")
        .def("take_overruns", &Face::take_overruns,
             "Ids of subscribers concerned since the last call, and for how many messages.");
    bind<LinearMatcher>(m, "LinearMatcher", "The same answers without an index: what the matcher is measured against.");
}

static const tidings::Structure structure{"matcher", bind_matcher};
