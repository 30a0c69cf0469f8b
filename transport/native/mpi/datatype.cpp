// Decodes MPI datatypes: envelope and contents, recursively, into layouts.
#include "mpi/datatype.hpp"

#include <algorithm>
#include <vector>

#include "board/border.hpp"

namespace wilkins::mpiio {

namespace {

// What MPI_Type_get_contents tells, whether the type was made with int or with large counts.
struct Contents {
    explicit Contents(const Abi& abi) : mpi(abi) {}
    ~Contents();
    Contents(const Contents&) = delete;
    Contents& operator=(const Contents&) = delete;

    const Abi& mpi;
    Combiner combiner = Combiner::named;
    std::vector<Handle>
        handles;  // the constituent types, a packed array of this family's handles; none for a predefined type
    size_t references = 0;  // of the first so many, MPI made a reference to each that is not predefined
    std::vector<int> integers;
    std::vector<int64_t> counts;   // large counts
    std::vector<int64_t> numbers;  // integers, addresses and large counts, one after the other
    std::vector<Datatype> types;
};

using Parts = std::vector<std::pair<int64_t, Layout>>;

// `length` elements in a row.
Layout block(const Datatype& type, int64_t length) { return repeat(length, type.extent, type.layout); }

// Blocks of `length(i)` elements, each starting `offset(i)` bytes from the start.
template <typename Length, typename Offset>
Layout blocks(const Datatype& type, int64_t count, Length length, Offset offset) {
    Parts parts;
    parts.reserve(static_cast<size_t>(count));
    int64_t last = -1;
    Layout shared;
    for (int64_t i = 0; i < count; ++i) {
        if (length(i) != last) {
            last = length(i);
            shared = block(type, last);
        }
        parts.emplace_back(offset(i), shared);
    }
    return sequence(std::move(parts));
}

// Everything moved by `offset` bytes.
Layout moved(int64_t offset, Layout layout) {
    Parts parts;
    parts.emplace_back(offset, std::move(layout));
    return sequence(std::move(parts));
}

Layout subarray(const Contents& is, int order_fortran) {
    const auto n = static_cast<size_t>(is.integers[0]);
    const bool large = !is.counts.empty();
    const auto at = [&](size_t group, size_t dim) {
        return large ? is.counts[group * n + dim] : static_cast<int64_t>(is.integers[1 + group * n + dim]);
    };
    const bool fortran = is.integers[large ? 1 : 1 + 3 * n] == order_fortran;
    Layout layout = is.types[0].layout;
    int64_t stride = is.types[0].extent;
    int64_t start = 0;
    for (size_t k = 0; k < n; ++k) {
        const size_t dim = fortran ? k : n - 1 - k;
        layout = repeat(at(1, dim), stride, layout);
        start += at(2, dim) * stride;
        stride *= at(0, dim);
    }
    return moved(start, std::move(layout));
}

Layout darray(const Contents& is, const Distribution& codes, bool* understood) {
    const bool large = !is.counts.empty();
    const int rank = is.integers[1];
    const auto n = static_cast<size_t>(is.integers[2]);
    const size_t skip = large ? 3 : 3 + n;
    const auto size = [&](size_t dim) { return large ? is.counts[dim] : static_cast<int64_t>(is.integers[3 + dim]); };
    const auto grid = [&](size_t dim) { return static_cast<int64_t>(is.integers[skip + 2 * n + dim]); };
    const bool fortran = is.integers[skip + 3 * n] == codes.order_fortran;

    std::vector<int64_t> place(n);  // of this rank in the process grid, which is in C order whatever the array's order
    int64_t rest = rank;
    for (size_t k = n; k-- > 0;) {
        place[k] = rest % grid(k);
        rest /= grid(k);
    }
    Layout layout = is.types[0].layout;
    int64_t stride = is.types[0].extent;
    for (size_t k = 0; k < n; ++k) {
        const size_t dim = fortran ? k : n - 1 - k;
        const int kind = is.integers[skip + dim];
        const int argument = is.integers[skip + n + dim];
        int64_t width = size(dim);  // elements in a block
        if (kind == codes.block) {
            width = argument == codes.default_argument ? (size(dim) + grid(dim) - 1) / grid(dim) : argument;
        } else if (kind == codes.cyclic) {
            width = argument == codes.default_argument ? 1 : argument;
        } else if (kind != codes.none) {
            *understood = false;
            return leaf(0);
        }
        Parts parts;
        for (int64_t start = place[dim] * width; start < size(dim); start += grid(dim) * width) {
            parts.emplace_back(start * stride, repeat(std::min(width, size(dim) - start), stride, layout));
        }
        layout = sequence(std::move(parts));
        stride *= size(dim);
    }
    return layout;
}

Layout combine(const Contents& is, const Distribution& codes, bool* understood) {
    const std::vector<int64_t>& v = is.numbers;
    const auto at = [&](int64_t index) { return v[static_cast<size_t>(index)]; };
    switch (is.combiner) {
        case Combiner::dup:
        case Combiner::resized: return is.types[0].layout;
        case Combiner::contiguous: return block(is.types[0], v[0]);
        case Combiner::vector: return repeat(v[0], v[2] * is.types[0].extent, block(is.types[0], v[1]));
        case Combiner::hvector:
        case Combiner::hvector_integer: return repeat(v[0], v[2], block(is.types[0], v[1]));
        case Combiner::indexed:
            return blocks(
                is.types[0], v[0], [&](int64_t i) { return at(1 + i); },
                [&](int64_t i) { return at(1 + v[0] + i) * is.types[0].extent; });
        case Combiner::hindexed:
        case Combiner::hindexed_integer:
            return blocks(
                is.types[0], v[0], [&](int64_t i) { return at(1 + i); }, [&](int64_t i) { return at(1 + v[0] + i); });
        case Combiner::indexed_block:
            return blocks(
                is.types[0], v[0], [&](int64_t) { return v[1]; },
                [&](int64_t i) { return at(2 + i) * is.types[0].extent; });
        case Combiner::hindexed_block:
            return blocks(is.types[0], v[0], [&](int64_t) { return v[1]; }, [&](int64_t i) { return at(2 + i); });
        case Combiner::structure:
        case Combiner::struct_integer: {
            Parts parts;
            for (int64_t i = 0; i < v[0]; ++i) {
                parts.emplace_back(at(1 + v[0] + i), block(is.types[static_cast<size_t>(i)], at(1 + i)));
            }
            return sequence(std::move(parts));
        }
        case Combiner::subarray: return subarray(is, codes.order_fortran);
        case Combiner::darray: return darray(is, codes, understood);
        default: *understood = false; return leaf(0);
    }
}

// The bytes of a predefined type. All are contiguous but the pair of a short and an int.
int predefined(const Abi& mpi, Handle datatype, Datatype* out) {
    int64_t size = 0;
    int64_t lb = 0;
    int64_t span = 0;
    int rc = mpi.Type_size_x(datatype, &size);
    if (rc == 0) {
        rc = mpi.Type_get_true_extent_x(datatype, &lb, &span);
    }
    if (rc != 0) {
        return rc;
    }
    out->named = true;
    if (size == span || size == 0) {
        out->layout = leaf(size);
    } else if (size == sizeof(short) + sizeof(int) && span == 2 * sizeof(int)) {
        out->layout = sequence({{0, leaf(sizeof(short))}, {sizeof(int), leaf(sizeof(int))}});
    } else {
        return mpi.error.type;  // no MPI has one
    }
    return 0;
}

bool is_predefined(const Abi& mpi, Handle datatype) {
    int ni = 0, na = 0, nd = 0, combiner = 0;
    return mpi.Type_get_envelope(datatype, &ni, &na, &nd, &combiner) != 0 || nd == 0;
}

Contents::~Contents() {
    for (size_t i = 0; i < references; ++i) {
        Handle part = mpi.load(handles.data(), i);
        const bool known = i < types.size() && types[i].layout;
        if (known ? !types[i].named : !is_predefined(mpi, part)) mpi.Type_free(&part);
    }
}

int read_contents(const Abi& mpi, Handle datatype, Contents* out) {
    int combiner = 0;
    std::vector<intptr_t> addresses;
    int rc = 0;
    if (mpi.Type_get_envelope_c != nullptr && mpi.Type_get_contents_c != nullptr) {
        int64_t ni = 0, na = 0, nc = 0, nd = 0;
        rc = mpi.Type_get_envelope_c(datatype, &ni, &na, &nc, &nd, &combiner);
        out->combiner = mpi.combiner(combiner);
        if (rc != 0 || nd == 0) {
            return rc;
        }
        out->integers.resize(static_cast<size_t>(ni));
        addresses.resize(static_cast<size_t>(na));
        out->counts.resize(static_cast<size_t>(nc));
        out->handles.resize(static_cast<size_t>(nd));
        rc = mpi.Type_get_contents_c(datatype, ni, na, nc, nd, out->integers.data(), addresses.data(),
                                     out->counts.data(), out->handles.data());
    } else {
        int ni = 0, na = 0, nd = 0;
        rc = mpi.Type_get_envelope(datatype, &ni, &na, &nd, &combiner);
        out->combiner = mpi.combiner(combiner);
        if (rc != 0 || nd == 0) {
            return rc;
        }
        out->integers.resize(static_cast<size_t>(ni));
        addresses.resize(static_cast<size_t>(na));
        out->handles.resize(static_cast<size_t>(nd));
        rc = mpi.Type_get_contents(datatype, ni, na, nd, out->integers.data(), addresses.data(), out->handles.data());
    }
    if (rc == 0) {
        out->references = out->handles.size();
        out->numbers.assign(out->integers.begin(), out->integers.end());
        out->numbers.insert(out->numbers.end(), addresses.begin(), addresses.end());
        out->numbers.insert(out->numbers.end(), out->counts.begin(), out->counts.end());
    }
    return rc;
}

int decode_parts(const Abi& mpi, Handle datatype, Datatype* out) {
    // The MPI would call the error handler of the world, which is fatal by default; the file's is to be called.
    if (mpi.clean(datatype) == mpi.datatype_null) return mpi.error.type;
    int64_t lb = 0;
    int rc = mpi.Type_get_extent_x(datatype, &lb, &out->extent);
    if (rc != 0) {
        return rc;
    }
    Contents contents(mpi);
    rc = read_contents(mpi, datatype, &contents);
    if (rc != 0) {
        return rc;
    }
    const std::vector<Handle>& handles = contents.handles;
    if (handles.empty()) {  // predefined, or made for Fortran's kinds, which is as good
        return predefined(mpi, datatype, out);
    }
    contents.types.resize(handles.size());
    for (size_t i = 0; i < handles.size() && rc == 0; ++i) {
        Handle part = mpi.load(handles.data(), i);
        if (i > 0 && part == mpi.load(handles.data(), i - 1)) {
            contents.types[i] = contents.types[i - 1];
        } else {
            rc = decode_parts(mpi, part, &contents.types[i]);
        }
    }
    if (rc != 0) {
        return rc;
    }
    bool understood = true;
    out->layout = combine(contents, mpi.distribution, &understood);
    return understood ? 0 : mpi.error.type;
}

}  // namespace

int decode(const Abi& mpi, Handle datatype, Datatype* out) {
    return guarded(
        "MPI-IO", [&] { return decode_parts(mpi, datatype, out); }, [&](int error) { return mpi.error_class(error); });
}

}  // namespace wilkins::mpiio
