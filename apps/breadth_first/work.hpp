// The kernels of breadth_first: what is done for each of their points (common/gpu/engine.hpp). Sets of
// vertices are bits of words.
#pragma once

#include "common/gpu/points.hpp"

namespace breadth_first {

using Word = unsigned;
constexpr int word_bits = 32;
constexpr int most_peers = 16;  // in a row or column of the grid
constexpr int never = -1;       // the level of a vertex that is not reached

APPLICATION_DEVICE bool has(const Word* set, int vertex) {
  return (set[vertex / word_bits] >> (vertex % word_bits) & 1U) != 0;
}

// By many threads at a time.
APPLICATION_DEVICE void add(Word* set, int vertex) {
  const Word bit = 1U << (vertex % word_bits);
#ifdef __CUDA_ARCH__
  atomicOr(set + vertex / word_bits, bit);
#else
  __atomic_fetch_or(set + vertex / word_bits, bit, __ATOMIC_RELAXED);
#endif
}
APPLICATION_DEVICE void count_one(int* count) {
#ifdef __CUDA_ARCH__
  atomicAdd(count, 1);
#else
  __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
#endif
}

// From the parts of a set to those of another, or into messages and out of them.
struct CopyWork {
  static constexpr const char* kernel = "breadth_first_copy";
  int parts;
  int words;  // of a part
  const Word* from[most_peers];
  Word* to[most_peers];

  APPLICATION_DEVICE long points() const { return static_cast<long>(parts) * words; }
  APPLICATION_DEVICE void point(long i) const { to[i / words][i % words] = from[i / words][i % words]; }
  template <class See>
  bool addresses(See see) {
    for (int part = 0; part < parts; ++part)
      if (!see(from[part]) || !see(to[part])) return false;
    return true;
  }
};

// At the beginning of a level: the own frontier among those of the column, and nothing is reached.
struct LocalWork {
  static constexpr const char* kernel = "breadth_first_local";
  int words;    // of a part
  int columns;  // parts that are reached
  const Word* frontier;
  Word* among_column;
  Word* reached;

  APPLICATION_DEVICE long points() const { return static_cast<long>(columns) * words; }
  APPLICATION_DEVICE void point(long i) const {
    if (i < words) among_column[i] = frontier[i];
    reached[i] = 0;
  }
  template <class See>
  bool addresses(See see) {
    return see(frontier) && see(among_column) && see(reached);
  }
};

// Each edge out of the frontier reaches its end.
struct EdgesWork {
  static constexpr const char* kernel = "breadth_first_edges";
  static constexpr int together = 8;
  long edges;
  const int* sources;  // in the frontier's parts
  const int* targets;  // in the parts that are reached
  const Word* frontier;
  Word* reached;

  APPLICATION_DEVICE long points() const { return edges; }
  APPLICATION_DEVICE void point(long i) const {
    const int target = targets[i];
    if (has(frontier, sources[i]) && !has(reached, target)) add(reached, target);
  }
  // Several points, `stride` apart, of which those before `end` are there: each read waits for memory, and
  // here they wait together.
  APPLICATION_DEVICE void points_together(long first, long stride, long end) const {
    int source[together], target[together];
    bool goes[together];
    for (int i = 0; i < together; ++i) {
      const long edge = first + i * stride;
      source[i] = edge < end ? sources[edge] : -1;
      target[i] = edge < end ? targets[edge] : 0;
    }
    for (int i = 0; i < together; ++i)
      goes[i] = source[i] >= 0 && has(frontier, source[i]) && !has(reached, target[i]);
    for (int i = 0; i < together; ++i)
      if (goes[i]) add(reached, target[i]);
  }
  template <class See>
  bool addresses(See see) {
    return see(sources) && see(targets) && see(frontier) && see(reached);
  }
};

// What the processes of a row have reached of this one's vertices, but for those that were reached before:
// the next frontier.
struct FoldWork {
  static constexpr const char* kernel = "breadth_first_fold";
  int parts;
  int words;
  int depth;
  const Word* reached[most_peers];
  Word* visited;
  Word* frontier;
  int* levels;
  int* count;  // of the new ones

  APPLICATION_DEVICE long points() const { return words; }
  APPLICATION_DEVICE void point(long i) const {
    Word all = 0;
    for (int part = 0; part < parts; ++part)
      all |= reached[part][i];
    const Word fresh = all & ~visited[i];
    visited[i] |= fresh;
    frontier[i] = fresh;
    for (int bit = 0; bit < word_bits; ++bit)
      if ((fresh >> bit & 1U) != 0) {
        levels[i * word_bits + bit] = depth;
        count_one(count);
      }
  }
  template <class See>
  bool addresses(See see) {
    for (int part = 0; part < parts; ++part)
      if (!see(reached[part])) return false;
    return see(visited) && see(frontier) && see(levels) && see(count);
  }
};

// Nothing is reached but the root, if it is this process's: then its number here, else -1.
struct BeginWork {
  static constexpr const char* kernel = "breadth_first_begin";
  int words;
  int root;
  Word* visited;
  Word* frontier;
  int* levels;

  APPLICATION_DEVICE long points() const { return words; }
  APPLICATION_DEVICE void point(long i) const {
    const Word here = root >= 0 && root / word_bits == i ? 1U << (root % word_bits) : 0U;
    visited[i] = frontier[i] = here;
    for (int bit = 0; bit < word_bits; ++bit)
      levels[i * word_bits + bit] = i * word_bits + bit == root ? 0 : never;
  }
  template <class See>
  bool addresses(See see) {
    return see(visited) && see(frontier) && see(levels);
  }
};

}  // namespace breadth_first
