// Vectors of numbers handed to numpy without a copy, shared by the bindings.
#pragma once
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <utility>
#include <vector>

namespace tidings {

template <class T>
using Array = nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<1>>;

template <class T>
Array<T> to_numpy(std::vector<T>&& values) {
    auto* kept = new std::vector<T>(std::move(values));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return Array<T>(kept->data(), {kept->size()}, owner);
}

template <class T>
nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<2>> to_numpy(std::vector<T>&& values, size_t columns) {
    auto* kept = new std::vector<T>(std::move(values));
    nanobind::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nanobind::ndarray<nanobind::numpy, T, nanobind::ndim<2>>(kept->data(), {kept->size() / columns, columns},
                                                                    owner);
}

}  // namespace tidings
