// Building layouts, merging what is adjacent, and walking them.
#include "mpi/layout.hpp"

#include <algorithm>
#include <cstdlib>

namespace wilkins::mpiio {

namespace {

constexpr int64_t kFar = int64_t{1} << 60;  // beyond any file, with room for sums

Layout runs(const std::vector<Run>& pieces) {
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::runs;
    node->offsets.reserve(pieces.size());
    node->before.reserve(pieces.size() + 1);
    for (const Run& piece : pieces) {
        node->offsets.push_back(piece.offset);
        node->before.push_back(node->size);
        node->size += piece.length;
    }
    node->before.push_back(node->size);
    return node;
}

// Adds a run, joined to the last one if it goes on where that ends.
void append(std::vector<Run>& pieces, Run piece) {
    if (!pieces.empty() && pieces.back().offset + pieces.back().length == piece.offset) {
        pieces.back().length += piece.length;
    } else {
        pieces.push_back(piece);
    }
}

}  // namespace

int64_t Node::width() const {
    switch (kind) {
        case Kind::leaf: return 1;
        case Kind::repeat: return count;
        case Kind::runs:
        case Kind::sequence: return static_cast<int64_t>(offsets.size());
    }
    return 0;
}

Layout leaf(int64_t size) {
    auto node = std::make_shared<Node>();
    node->size = size;
    return node;
}

Layout repeat(int64_t count, int64_t stride, Layout child) {
    if (count <= 0 || child->size == 0) {
        return leaf(0);
    }
    if (count == 1) {
        return child;
    }
    if (child->kind == Node::Kind::leaf && child->size == stride) {
        return leaf(count * stride);
    }
    if (child->kind == Node::Kind::repeat && child->count * child->stride == stride) {
        return repeat(count * child->count, child->stride, child->child);
    }
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::repeat;
    node->size = count * child->size;
    node->count = count;
    node->stride = stride;
    node->child = std::move(child);
    return node;
}

Layout sequence(std::vector<std::pair<int64_t, Layout>> parts) {
    parts.erase(std::remove_if(parts.begin(), parts.end(), [](const auto& part) { return part.second->size == 0; }),
                parts.end());
    if (parts.empty()) {
        return leaf(0);
    }
    if (parts.size() == 1 && parts[0].first == 0) {
        return parts[0].second;
    }
    const bool flat = std::all_of(parts.begin(), parts.end(), [](const auto& part) {
        return part.second->kind == Node::Kind::leaf || part.second->kind == Node::Kind::runs;
    });
    if (flat) {
        std::vector<Run> pieces;
        pieces.reserve(parts.size());
        for (const auto& [offset, part] : parts) {
            if (part->kind == Node::Kind::leaf) {
                append(pieces, {offset, part->size});
                continue;
            }
            for (size_t i = 0; i < part->offsets.size(); ++i) {
                append(pieces, {offset + part->offsets[i], part->before[i + 1] - part->before[i]});
            }
        }
        return pieces.size() == 1 && pieces[0].offset == 0 ? leaf(pieces[0].length) : runs(pieces);
    }
    auto node = std::make_shared<Node>();
    node->kind = Node::Kind::sequence;
    for (auto& [offset, part] : parts) {
        node->offsets.push_back(offset);
        node->before.push_back(node->size);
        node->size += part->size;
        node->parts.push_back(std::move(part));
    }
    node->before.push_back(node->size);
    return node;
}

Layout endless(const Layout& tile, int64_t extent) {
    return repeat(kFar / std::max({tile->size, std::abs(extent), int64_t{1}}), extent, tile);
}

Cursor::Cursor(Layout layout, int64_t skip) : layout_(std::move(layout)) {
    if (skip < layout_->size) {
        descend(layout_.get(), 0, skip);
    }
}

void Cursor::advance(int64_t bytes) {
    run_.offset += bytes;
    run_.length -= bytes;
    if (run_.length == 0) {
        next();
    }
}

void Cursor::descend(const Node* node, int64_t base, int64_t skip) {
    for (;;) {
        if (node->kind == Node::Kind::leaf) {
            run_ = {base + skip, node->size - skip};
            return;
        }
        if (node->kind == Node::Kind::repeat) {
            const int64_t index = skip / node->child->size;
            frames_.push_back({node, base, index});
            base += index * node->stride;
            skip -= index * node->child->size;
            node = node->child.get();
            continue;
        }
        const auto after = std::upper_bound(node->before.begin(), node->before.end(), skip);
        const auto index = static_cast<size_t>(after - node->before.begin()) - 1;
        frames_.push_back({node, base, static_cast<int64_t>(index)});
        base += node->offsets[index];
        skip -= node->before[index];
        if (node->kind == Node::Kind::runs) {
            run_ = {base + skip, node->before[index + 1] - node->before[index] - skip};
            return;
        }
        node = node->parts[index].get();
    }
}

void Cursor::next() {
    while (!frames_.empty()) {
        Frame& top = frames_.back();
        if (++top.index == top.node->width()) {
            frames_.pop_back();
            continue;
        }
        const Node* node = top.node;
        const int64_t base = top.base;
        const auto index = static_cast<size_t>(top.index);
        switch (node->kind) {
            case Node::Kind::runs:
                run_ = {base + node->offsets[index], node->before[index + 1] - node->before[index]};
                return;
            case Node::Kind::repeat: descend(node->child.get(), base + top.index * node->stride, 0); return;
            case Node::Kind::sequence: descend(node->parts[index].get(), base + node->offsets[index], 0); return;
            case Node::Kind::leaf: break;
        }
    }
    run_ = {};
}

int64_t bytes_before(const Layout& tile, int64_t extent, int64_t start, int64_t limit) {
    if (tile->size == 0 || extent <= 0 || limit <= start) {
        return 0;
    }
    // Whole tiles that surely end before the limit; the last two are walked: a tile's bytes may reach past its extent.
    const int64_t whole = std::max<int64_t>(0, (limit - start) / extent - 2);
    int64_t bytes = whole * tile->size;
    for (Cursor cursor(endless(tile, extent), bytes); !cursor.done(); cursor.advance(cursor.run().length)) {
        const int64_t offset = start + cursor.run().offset;
        if (offset >= limit) {
            break;
        }
        bytes += std::min(cursor.run().length, limit - offset);
    }
    return bytes;
}

}  // namespace wilkins::mpiio
