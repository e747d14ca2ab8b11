#include "trainer/batch_gradient.h"

#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "model/discovery.h"

namespace sirenfeed::trainer {

namespace {

// Scores do not depend on the chunk, so scoring takes chunks of its own, large enough that a GEMM
// pays.
constexpr std::size_t kScoreChunkSlates = 16;

// A chunk is worked through in pieces of whole slates whose intermediate results stay in the second
// cache: about this many elements of [tokens, d].
constexpr std::size_t kPieceElements = 18'432;

// Sum of 0·x is 0 for finite x and NaN otherwise: one pass that vectorises.
bool all_finite(std::span<const float> values) {
  constexpr std::size_t kLanes = 8;
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) lanes[lane] += values[i + lane] * 0.0F;
  }
  float sum = 0;
  for (; i < values.size(); ++i) sum += values[i] * 0.0F;
  for (const float lane : lanes) sum += lane;
  return sum == 0.0F;
}

/// Where each key of a table lies in the batch's sum: open addressing, emptied by a new stamp.
class KeySlots {
 public:
  /// Room for `keys_max` keys; forgets all.
  void begin(std::size_t keys_max) {
    std::size_t slots = 64;
    while (slots < keys_max * 2) slots *= 2;
    if (slots > slots_.size()) slots_.assign(slots, {});
    ++stamp_;
  }
  /// The place of `key`; `next` when it is new.
  std::uint32_t find_or_add(model::Key key, std::uint32_t next) {
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = static_cast<std::size_t>(key * 0x9E3779B97F4A7C15ULL >> 20U) & mask;
    while (slots_[at].stamp == stamp_ && slots_[at].key != key) at = (at + 1) & mask;
    if (slots_[at].stamp != stamp_) slots_[at] = {key, stamp_, next};
    return slots_[at].place;
  }

 private:
  struct Slot {
    model::Key key = 0;
    std::uint64_t stamp = 0;
    std::uint32_t place = 0;
  };
  std::vector<Slot> slots_;
  std::uint64_t stamp_ = 0;
};

struct Chunk {
  std::vector<const model::Slate*> slates;
  std::vector<float> d_z;
  model::ChunkGradient gradient;
  double loss = 0;
};

}  // namespace

struct BatchGradient::Impl {
  const model::Ranker& ranker;
  const model::LossConfig loss;
  const std::size_t chunk_examples;
  tbb::task_arena arena;
  std::vector<model::Workspace> workspaces;  // a thread of the arena
  std::vector<Chunk> chunks;
  KeySlots slots;
  model::LossTerms terms;
  BatchResult result;

  Impl(const model::Ranker& r, const model::LossConfig& l, std::size_t chunk, std::size_t threads)
      : ranker(r),
        loss(l),
        chunk_examples(chunk),
        arena(threads == 0 ? tbb::task_arena::automatic : static_cast<int>(threads)),
        workspaces(static_cast<std::size_t>(arena.max_concurrency())) {}

  model::Workspace& own_workspace() {
    const int thread = tbb::this_task_arena::current_thread_index();
    SF_CHECK(thread >= 0 && static_cast<std::size_t>(thread) < workspaces.size());
    return workspaces[static_cast<std::size_t>(thread)];
  }

  // Calls body(0 … count − 1) on the arena's threads.
  template <class Body>
  void parallel(std::size_t count, const Body& body) {
    if (count == 0) return;
    arena.execute(
        [&] { tbb::parallel_for(std::size_t{0}, count, body, tbb::simple_partitioner{}); });
  }

  void lay_out(const model::Model& model, std::span<const DecodedExample* const> batch);
  void run_chunk(const model::Model& model, std::span<const DecodedExample* const> batch,
                 std::size_t index);
  void sum_dense(std::size_t chunk_count);
  void sum_tables(const model::Model& model, std::size_t chunk_count);
};

BatchGradient::BatchGradient(const model::Ranker& ranker, const model::LossConfig& loss,
                             std::size_t chunk_examples, std::size_t threads)
    : impl_(std::make_unique<Impl>(ranker, loss, chunk_examples, threads)) {}
BatchGradient::~BatchGradient() = default;

void BatchGradient::Impl::lay_out(const model::Model& model,
                                  std::span<const DecodedExample* const> batch) {
  result.row_begin.clear();
  terms.cells.assign(model.config.n_tasks(), 0);
  terms.pairs = 0;
  std::size_t rows = 0;
  for (const DecodedExample* example : batch) {
    result.row_begin.push_back(rows);
    rows += example->slate.candidates.size();
    model::count_loss_terms(example->labels, loss, terms);
  }
  result.row_begin.push_back(rows);
  result.mean.resize(rows * model.config.n_tasks());
  result.counter.resize(model.config.has_counter_tower() ? result.mean.size() : 0);
}

void BatchGradient::Impl::run_chunk(const model::Model& model,
                                    std::span<const DecodedExample* const> batch,
                                    std::size_t index) {
  Chunk& chunk = chunks[index];
  const std::size_t tasks = model.config.n_tasks();
  const std::size_t begin = index * chunk_examples;
  const std::size_t end = std::min(batch.size(), begin + chunk_examples);
  chunk.loss = 0;
  chunk.gradient.dense.assign(model.dense.size(), 0.0F);
  for (auto& table : chunk.gradient.tables) {
    table.keys.clear();
    table.rows.clear();
  }
  model::Workspace& workspace = own_workspace();
  const std::size_t rows_max = kPieceElements / static_cast<std::size_t>(model.config.d_model);
  for (std::size_t first = begin; first < end;) {
    std::size_t last = first;
    std::size_t rows = 0;
    chunk.slates.clear();
    for (; last < end; ++last) {
      const model::Slate& slate = batch[last]->slate;
      rows += slate.history.size() + slate.candidates.size();
      if (last > first && rows > rows_max) break;
      chunk.slates.push_back(&slate);
    }
    const std::span<const float> z = ranker.forward(model, chunk.slates, workspace);
    const std::size_t first_row = result.row_begin[first];
    const auto first_cell = static_cast<std::ptrdiff_t>(first_row * tasks);
    const model::TowerLogits<float> towers = ranker.tower_logits(model, chunk.slates, workspace);
    std::copy(towers.mean.begin(), towers.mean.end(), result.mean.begin() + first_cell);
    std::copy(towers.counter.begin(), towers.counter.end(), result.counter.begin() + first_cell);
    chunk.d_z.resize(z.size());
    for (std::size_t i = first; i < last; ++i) {
      const std::size_t at = (result.row_begin[i] - first_row) * tasks;
      const std::size_t cells = (result.row_begin[i + 1] - result.row_begin[i]) * tasks;
      chunk.loss += model::add_loss(z.subspan(at, cells), batch[i]->labels, loss, terms,
                                    std::span(chunk.d_z).subspan(at, cells));
    }
    ranker.add_gradient(model, workspace, chunk.d_z, chunk.gradient);
    first = last;
  }
}

void BatchGradient::Impl::sum_dense(std::size_t chunk_count) {
  const std::vector<float>& first = chunks[0].gradient.dense;
  result.dense.assign(first.begin(), first.end());
  float* const sum = result.dense.data();
  for (std::size_t c = 1; c < chunk_count; ++c) {
    const float* const add = chunks[c].gradient.dense.data();
    for (std::size_t i = 0; i < result.dense.size(); ++i) sum[i] += add[i];
  }
}

void BatchGradient::Impl::sum_tables(const model::Model& model, std::size_t chunk_count) {
  for (std::size_t t = 0; t < model::kTableCount; ++t) {
    TableGradient& sum = result.tables[t];
    sum.keys.clear();
    sum.rows.clear();
    const std::size_t width = model.tables[t].width();
    std::size_t keys_max = 0;
    for (std::size_t c = 0; c < chunk_count; ++c) {
      keys_max += chunks[c].gradient.tables[t].keys.size();
    }
    if (keys_max == 0) continue;
    slots.begin(keys_max);
    for (std::size_t c = 0; c < chunk_count; ++c) {
      const auto& part = chunks[c].gradient.tables[t];
      for (std::size_t i = 0; i < part.keys.size(); ++i) {
        const auto next = static_cast<std::uint32_t>(sum.keys.size());
        const std::uint32_t place = slots.find_or_add(part.keys[i], next);
        const float* const row = part.rows.data() + i * width;
        if (place == next) {
          sum.keys.push_back(part.keys[i]);
          sum.rows.insert(sum.rows.end(), row, row + width);
          continue;
        }
        float* const to = sum.rows.data() + place * width;
        for (std::size_t k = 0; k < width; ++k) to[k] += row[k];
      }
    }
  }
}

const BatchResult& BatchGradient::compute(const model::Model& model,
                                          std::span<const DecodedExample* const> batch) {
  SF_CHECK(!batch.empty());
  Impl& impl = *impl_;
  impl.lay_out(model, batch);
  const std::size_t chunk_count = (batch.size() + impl.chunk_examples - 1) / impl.chunk_examples;
  if (impl.chunks.size() < chunk_count) impl.chunks.resize(chunk_count);
  impl.parallel(chunk_count, [&](std::size_t index) { impl.run_chunk(model, batch, index); });

  BatchResult& result = impl.result;
  result.loss = 0;
  for (std::size_t c = 0; c < chunk_count; ++c) result.loss += impl.chunks[c].loss;
  impl.sum_dense(chunk_count);
  result.loss += model::add_gate_penalty<float>(model, impl.loss.gate_weight, result.dense);
  impl.sum_tables(model, chunk_count);
  result.finite = std::isfinite(result.loss);
  for (const TableGradient& table : result.tables) {
    result.finite = result.finite && all_finite(table.rows);
  }
  return result;
}

void BatchGradient::score(const model::Model& model, std::span<const model::Slate* const> slates,
                          std::vector<float>& mean) {
  Impl& impl = *impl_;
  const std::size_t tasks = model.config.n_tasks();
  const std::size_t chunk_count = (slates.size() + kScoreChunkSlates - 1) / kScoreChunkSlates;
  std::vector<std::size_t> begin(chunk_count + 1, 0);
  for (std::size_t c = 0; c < chunk_count; ++c) {
    begin[c + 1] = begin[c];
    for (const model::Slate* slate :
         slates.subspan(c * kScoreChunkSlates,
                        std::min(kScoreChunkSlates, slates.size() - c * kScoreChunkSlates))) {
      begin[c + 1] += slate->candidates.size() * tasks;
    }
  }
  mean.resize(begin.back());
  impl.parallel(chunk_count, [&](std::size_t c) {
    const std::size_t first = c * kScoreChunkSlates;
    const auto chunk = slates.subspan(first, std::min(kScoreChunkSlates, slates.size() - first));
    model::Workspace& workspace = impl.own_workspace();
    (void)impl.ranker.infer(model, chunk, workspace);
    const std::span<const float> part = impl.ranker.tower_logits(model, chunk, workspace).mean;
    SF_CHECK(part.size() == begin[c + 1] - begin[c]);
    std::copy(part.begin(), part.end(), mean.begin() + static_cast<std::ptrdiff_t>(begin[c]));
  });
}

}  // namespace sirenfeed::trainer
