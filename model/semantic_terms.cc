#include "model/semantic_terms.h"

#include "model/discovery.h"
#include "model/scaled_angles.h"

namespace sirenfeed::model {
namespace {

std::uint32_t meaning_of(const Token& token) { return token.meaning; }

/// Calls function(row number of the tag, share) for the tags of a meaning.
template <class T, class Function>
void for_each_tag(const ChunkIndex& index, const Meaning& meaning, Function function) {
  const Token& token = index.tokens[meaning.token];
  if (index.without_tags(token)) return;
  const T share = T{1} / static_cast<T>(token.tags_end - token.tags_begin);
  for (const std::uint32_t number : index.tags_of(token)) function(number, share);
}

template <class T>
void add_row(const T* from, T scale, T* to, std::size_t width) {
  for (std::size_t i = 0; i < width; ++i) to[i] += scale * from[i];
}

/// What both terms share: the network on s and its weight.
template <class T>
class MeaningTerm : public AngleTerm<T> {
 public:
  MeaningTerm(const ModelConfig& config, const ParameterLayout& layout, const std::string& prefix)
      : omega_(layout.offset(prefix + ".omega_semantic")),
        path_(layout, prefix + ".semantic.sine", config.angle_hidden_layers, Activation::kSine,
              config.omega0) {}

  void add(const AngleContext<T>& context, View<T> theta) const override {
    const ChunkIndex& index = context.index;
    AngleState<T>& state = context.state;
    const T* dense = context.model.dense.data();
    const std::size_t width = context.rows.value(TableId::kSemanticTag).cols();
    state.meaning_in.resize_zero(index.meanings.size(), width);
    forward(context, state.meaning_in);
    state.semantic.resize(index.meanings.size(), theta.cols);
    path_.forward(dense, state.meaning_in.view(), state.semantic_path, state.semantic.view());
    add_scaled(theta, index, state.semantic, dense + omega_, meaning_of);
  }

  void backward(const AngleContext<T>& context, View<const T> d_theta, T* d_dense) const override {
    AngleState<T>& state = context.state;
    const T* dense = context.model.dense.data();
    scaled_backward(d_theta, context.index, state.semantic, dense + omega_, meaning_of,
                    state.d_semantic, d_dense + omega_);
    state.d_meaning_in.resize(state.meaning_in.rows(), state.meaning_in.cols());
    path_.backward(dense, state.meaning_in.view(), state.semantic_path, state.d_semantic.view(),
                   d_dense, state.d_meaning_in.view());
    backward(context, state.d_meaning_in, d_dense);
  }

 protected:
  /// s [meanings, width] += its parts.
  virtual void forward(const AngleContext<T>& context, Matrix<T>& s) const = 0;
  /// Gradients of the parts' rows, and of what d_dense has of them.
  virtual void backward(const AngleContext<T>& context, const Matrix<T>& d_s, T* d_dense) const = 0;

 private:
  std::size_t omega_;
  AnglePath<T> path_;
};

template <class T>
class SemanticTerm final : public MeaningTerm<T> {
 public:
  using MeaningTerm<T>::MeaningTerm;

 protected:
  void forward(const AngleContext<T>& context, Matrix<T>& s) const override {
    const ChunkIndex& index = context.index;
    const Matrix<T>& tags = context.rows.value(TableId::kSemanticTag);
    const Matrix<T>& segments = context.rows.value(TableId::kSemanticSegment);
    const std::size_t width = s.cols();
    for (std::size_t m = 0; m < index.meanings.size(); ++m) {
      const Meaning& meaning = index.meanings[m];
      for_each_tag<T>(index, meaning, [&](std::uint32_t number, T share) {
        add_row(tags.row(number), share, s.row(m), width);
      });
      if (meaning.segment != kNoRow) add_row(segments.row(meaning.segment), T{1}, s.row(m), width);
    }
  }

  void backward(const AngleContext<T>& context, const Matrix<T>& d_s, T*) const override {
    const ChunkIndex& index = context.index;
    Matrix<T>& d_tags = context.rows.gradient(TableId::kSemanticTag);
    Matrix<T>& d_segments = context.rows.gradient(TableId::kSemanticSegment);
    const std::size_t width = d_s.cols();
    for (std::size_t m = 0; m < index.meanings.size(); ++m) {
      const Meaning& meaning = index.meanings[m];
      for_each_tag<T>(index, meaning, [&](std::uint32_t number, T share) {
        add_row(d_s.row(m), share, d_tags.row(number), width);
      });
      if (meaning.segment != kNoRow) {
        add_row(d_s.row(m), T{1}, d_segments.row(meaning.segment), width);
      }
    }
  }
};

template <class T>
class GatedSemanticTerm final : public MeaningTerm<T> {
 public:
  GatedSemanticTerm(const ModelConfig& config, const ParameterLayout& layout,
                    const std::string& prefix)
      : MeaningTerm<T>(config, layout, prefix), gates_(layout.offset("rotary.gate")) {}

 protected:
  void forward(const AngleContext<T>& context, Matrix<T>& s) const override {
    const std::size_t width = s.cols();
    for (std::size_t m = 0; m < s.rows(); ++m) {
      for_each_part(context, m, [&](Signal signal, TableId table, std::uint32_t number, T share) {
        const T g = static_cast<T>(gate_of(logit(context, signal)));
        add_row(context.rows.value(table).row(number), g * share, s.row(m), width);
      });
    }
  }

  void backward(const AngleContext<T>& context, const Matrix<T>& d_s, T* d_dense) const override {
    const std::size_t width = d_s.cols();
    std::array<double, kSignalCount> d_gates{};
    for (std::size_t m = 0; m < d_s.rows(); ++m) {
      for_each_part(context, m, [&](Signal signal, TableId table, std::uint32_t number, T share) {
        const T g = static_cast<T>(gate_of(logit(context, signal)));
        add_row(d_s.row(m), g * share, context.rows.gradient(table).row(number), width);
        const T* row = context.rows.value(table).row(number);
        double d_gate = 0;
        for (std::size_t i = 0; i < width; ++i) {
          d_gate += static_cast<double>(d_s.row(m)[i]) * static_cast<double>(row[i]);
        }
        d_gates[static_cast<std::size_t>(signal)] += static_cast<double>(share) * d_gate;
      });
    }
    for (std::size_t s = 0; s < kSignalCount; ++s) {
      const double slope = gate_slope(logit(context, static_cast<Signal>(s)));
      d_dense[gates_ + s] += static_cast<T>(d_gates[s] * slope);
    }
  }

 private:
  [[nodiscard]] double logit(const AngleContext<T>& context, Signal signal) const {
    return static_cast<double>(context.model.dense[gates_ + static_cast<std::size_t>(signal)]);
  }

  /// Calls function(signal, table, row number, share of the row) for the parts of s of a meaning.
  template <class Function>
  static void for_each_part(const AngleContext<T>& context, std::size_t m, Function function) {
    const ChunkIndex& index = context.index;
    const Meaning& meaning = index.meanings[m];
    const std::uint32_t author = index.tokens[meaning.token].author;
    for_each_tag<T>(index, meaning, [&](std::uint32_t number, T share) {
      function(Signal::kTopic, TableId::kSemanticTag, number, share);
    });
    if (meaning.segment != kNoRow) {
      function(Signal::kSegment, TableId::kSemanticSegment, meaning.segment, T{1});
    }
    if (index.authors.keys()[author] != kNoKey) {
      function(Signal::kAuthor, TableId::kSemanticAuthor, author, T{1});
    }
    if (meaning.surface != kNoRow) {
      function(Signal::kSurface, TableId::kSemanticSurface, meaning.surface, T{1});
    }
  }

  std::size_t gates_;
};

}  // namespace

template <class T>
std::unique_ptr<const AngleTerm<T>> make_semantic_term(const ModelConfig& config,
                                                       const ParameterLayout& layout,
                                                       const std::string& prefix) {
  return std::make_unique<SemanticTerm<T>>(config, layout, prefix);
}

template <class T>
std::unique_ptr<const AngleTerm<T>> make_gated_semantic_term(const ModelConfig& config,
                                                             const ParameterLayout& layout,
                                                             const std::string& prefix) {
  return std::make_unique<GatedSemanticTerm<T>>(config, layout, prefix);
}

template std::unique_ptr<const AngleTerm<float>> make_semantic_term(const ModelConfig&,
                                                                    const ParameterLayout&,
                                                                    const std::string&);
template std::unique_ptr<const AngleTerm<double>> make_semantic_term(const ModelConfig&,
                                                                     const ParameterLayout&,
                                                                     const std::string&);
template std::unique_ptr<const AngleTerm<float>> make_gated_semantic_term(const ModelConfig&,
                                                                          const ParameterLayout&,
                                                                          const std::string&);
template std::unique_ptr<const AngleTerm<double>> make_gated_semantic_term(const ModelConfig&,
                                                                           const ParameterLayout&,
                                                                           const std::string&);

}  // namespace sirenfeed::model
