#include "search.hpp"

#include <algorithm>
#include <stdexcept>

namespace breadth_first {

using apps::gpu::Engine;
using apps::gpu::Form;
using apps::gpu::Route;

Search::Search(const Options& options, const Grid& grid, const LocalEdges& edges, const Engine& engine,
               Form form, MPI_Comm comm)
    : options_(options),
      grid_(grid),
      engine_(engine),
      form_(form),
      comm_(comm),
      words_(grid.part / word_bits),
      communication_(engine, form == Form::kernel ? Form::sync : form, options.how.way, comm),
      edge_count_(static_cast<long>(edges.sources.size())),
      sources_(engine, edges.sources.size()),
      targets_(engine, edges.targets.size()),
      levels_(engine, static_cast<std::size_t>(grid.part)),
      counts_(engine, most_depth),
      visited_(engine, static_cast<std::size_t>(words_)),
      frontier_(engine, static_cast<std::size_t>(words_)),
      column_(engine, static_cast<std::size_t>(words_ * grid.rows)),
      reached_(engine, static_cast<std::size_t>(words_ * grid.columns)) {
  engine_.prepare<CopyWork, LocalWork, EdgesWork, FoldWork, BeginWork>();
  sources_.write(edges.sources.data());
  targets_.write(edges.targets.data());
  const std::size_t bytes = static_cast<std::size_t>(words_) * sizeof(Word);
  constexpr int along_column = 1, along_row = 2;
  std::vector<Route> column, row;
  for (int r = 0; r < grid.rows; ++r)
    if (r != grid.row)
      column.push_back({grid.rank(r, grid.column), along_column, along_column, bytes, bytes});
  for (int c = 0; c < grid.columns; ++c)
    if (c != grid.column) row.push_back({grid.rank(grid.row, c), along_row, along_row, bytes, bytes});
  expand_ = communication_.exchange(std::move(column));
  fold_ = communication_.exchange(std::move(row));
  if (form == Form::kernel)
    by_kernels_ =
        make_kernel_form(engine, comm, grid,
                         {edge_count_, sources_.data(), targets_.data(), visited_.data(), frontier_.data(),
                          column_.data(), reached_.data(), levels_.data(), counts_.data()},
                         options.ahead);
}

Search::~Search() {
  engine_.wait();
}

void Search::begin(int root) {
  const int own = grid_.owner(root) == grid_.self() ? root % grid_.part : -1;
  engine_.clear(counts_.data(), counts_.bytes());
  engine_.launch(BeginWork{words_, own, visited_.data(), frontier_.data(), levels_.data()});
  engine_.wait();
}

// The own frontier goes to the processes of the column, which have edges from it; what these reach goes to
// the processes of the row that own it.
void Search::one_level(int depth) {
  CopyWork out{0, words_, {}, {}}, in = out;
  std::size_t route = 0;
  for (int r = 0; r < grid_.rows; ++r) {
    if (r == grid_.row) continue;
    out.from[out.parts] = frontier_.data();
    out.to[out.parts++] = static_cast<Word*>(expand_->outgoing(route++));
  }
  if (out.parts > 0) {
    engine_.launch(out);
    expand_->post();
  }
  engine_.launch(LocalWork{words_, grid_.columns, frontier_.data(),
                           column_.data() + static_cast<long>(grid_.row) * words_, reached_.data()});
  if (out.parts > 0) {
    expand_->finish();
    route = 0;
    for (int r = 0; r < grid_.rows; ++r) {
      if (r == grid_.row) continue;
      in.from[in.parts] = static_cast<const Word*>(expand_->incoming(route++));
      in.to[in.parts++] = column_.data() + static_cast<long>(r) * words_;
    }
    engine_.launch(in);
  }
  engine_.launch(EdgesWork{edge_count_, sources_.data(), targets_.data(), column_.data(), reached_.data()});

  CopyWork away{0, words_, {}, {}};
  route = 0;
  for (int c = 0; c < grid_.columns; ++c) {
    if (c == grid_.column) continue;
    away.from[away.parts] = reached_.data() + static_cast<long>(c) * words_;
    away.to[away.parts++] = static_cast<Word*>(fold_->outgoing(route++));
  }
  FoldWork fold{1,
                words_,
                depth,
                {reached_.data() + static_cast<long>(grid_.column) * words_},
                visited_.data(),
                frontier_.data(),
                levels_.data(),
                counts_.data() + depth};
  if (away.parts > 0) {
    engine_.launch(away);
    fold_->post();
    fold_->finish();
    for (route = 0; route < static_cast<std::size_t>(away.parts); ++route)
      fold.reached[fold.parts++] = static_cast<const Word*>(fold_->incoming(route));
  }
  engine_.launch(fold);
}

// Whether the level `depth` has found nothing anywhere. The host waits.
bool Search::is_over(int depth) {
  int here = 0, all = 0;
  engine_.copy(&here, counts_.data() + depth, sizeof here);
  engine_.wait();
  MPI_Allreduce(&here, &all, 1, MPI_INT, MPI_SUM, comm_);
  return all == 0;
}

double Search::run(int root, bool is_watched) {
  begin(root);
  MPI_Barrier(comm_);
  if (is_watched) MPI_Pcontrol(1);  // tools look at what lies between
  const double begin = MPI_Wtime();
  depth_ = 0;
  while (!run_levels()) {
  }
  const double seconds = MPI_Wtime() - begin;
  if (is_watched) MPI_Pcontrol(0);
  communication_.check();
  return seconds;
}

bool Search::run_levels() {
  const int count = by_kernels_ ? by_kernels_->levels_at_once() : form_ == Form::stream ? options_.ahead : 1;
  if (depth_ + count >= most_depth)
    throw std::runtime_error("the graph has a path that is too long for this program");
  if (by_kernels_) {
    if (const auto over = by_kernels_->run(depth_)) return *over;
  } else {
    for (int i = 0; i < count; ++i)
      one_level(++depth_);
  }
  return is_over(depth_);
}

std::vector<int> Search::levels() const {
  std::vector<int> levels(levels_.size());
  levels_.read(levels.data());
  return levels;
}

}  // namespace breadth_first
