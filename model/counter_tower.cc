#include "model/counter_tower.h"

#include "base/check.h"

namespace sirenfeed::model {

TowerLayout counter_layout(const ParameterLayout& layout) {
  TowerLayout own;
  for (const TensorSpec& spec : layout.tensors) {
    if (!spec.name.starts_with(std::string(kCounterTowerPrefix) + ".")) continue;
    if (own.layout.tensors.empty()) own.begin = spec.offset;
    SF_CHECK(spec.offset == own.begin + own.layout.size);
    TensorSpec moved = spec;
    moved.offset = own.layout.size;
    moved.trained = true;
    own.layout.size += spec.size;
    own.layout.tensors.push_back(std::move(moved));
  }
  return own;
}

}  // namespace sirenfeed::model
