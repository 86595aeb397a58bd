#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/tuple.h>

#include "python_arrays.hpp"
#include "python_batch.hpp"
#include "structure.hpp"
#include "tidings/encoding/encoding.hpp"

using namespace tidings;
using nb::literals::operator""_a;

namespace {

Encoder make_encoder(uint32_t bits, uint32_t hashes, uint64_t key, bool graded) {
    return Encoder(bits, hashes, key, graded ? Grade::Graded : Grade::Plain);
}

using Matrix = nb::ndarray<nb::numpy, uint64_t, nb::ndim<2>>;

// One vector an entry; that of an entry without a message is zero.
Matrix vectors(const Encoder& encoder, const PyBatch& batch) {
    std::vector<uint64_t> out;
    {
        nb::gil_scoped_release release;
        out.resize(batch.batch().size() * encoder.words());
        uint64_t* at = out.data();
        for (const Entry& entry : batch.batch()) {
            if (entry.status == Entry::Status::Message) encoder.vector(entry.message, at);
            at += encoder.words();
        }
    }
    return to_numpy(std::move(out), encoder.words());
}

// The elements of each message, ascending, each once.
std::tuple<Array<uint64_t>, Array<uint64_t>> elements(const Encoder& encoder, const PyBatch& batch) {
    std::vector<uint64_t> offsets{0}, out;
    {
        nb::gil_scoped_release release;
        for (const Entry& entry : batch.batch()) {
            const auto start = static_cast<ptrdiff_t>(out.size());
            if (entry.status == Entry::Status::Message &&
                !encoder.elements(entry.message, [&](uint64_t element) { out.push_back(element); }))
                throw UsageError{"E_ENCODING_LIMIT",
                                 "the message carries more than " + std::to_string(message_elements_max) + " elements"};
            std::sort(out.begin() + start, out.end());
            out.erase(std::unique(out.begin() + start, out.end()), out.end());
            offsets.push_back(out.size());
        }
    }
    return {to_numpy(std::move(offsets)), to_numpy(std::move(out))};
}

}  // namespace

static void bind_encoding(nb::module_& m) {
    nb::class_<Encoder>(m, "Encoder")
        .def(
            "__init__",
            [](Encoder* self, uint32_t bits, uint32_t hashes, uint64_t key, bool graded) {
                new (self) Encoder(make_encoder(bits, hashes, key, graded));
            },
            "bits"_a, "hashes"_a, "key"_a, "graded"_a)
        .def("vectors", &vectors, "batch"_a)
        .def("elements", &elements, "batch"_a);
}

static const tidings::Structure structure{"encoding", bind_encoding};
