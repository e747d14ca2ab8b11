// Replaces the test binary's operator new to count: scoring and learning allocate nothing once the
// workspace has seen the shapes.
#include <atomic>
#include <cstdlib>
#include <new>

#include "model/ranker.h"
#include "tests/unit/model/support.h"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

// Not inlined: the compiler would see free() meet what looks like the standard operator new.
[[gnu::noinline]] void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  std::abort();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace sirenfeed::model {
namespace {

TEST(Allocation, ForwardAndBackwardAllocateNothingInTheSteadyState) {
  const ModelConfig config = test::small_config(Variant::kSiren);
  Model model = *make_model(config);
  test::perturb(model, 1);
  const auto ranker = *make_ranker(config);
  const auto slates = test::seeded_slates(config, 8, 2);
  const auto chunk = test::pointers(slates);
  Workspace workspace;
  ChunkGradient gradient;
  std::vector<float> d_z;
  std::size_t during = 0;
  for (int round = 0; round < 3; ++round) {
    const std::size_t before = allocations;
    const auto z = ranker->forward(model, chunk, workspace);
    d_z.assign(z.begin(), z.end());
    ranker->backward(model, workspace, d_z, gradient);
    during = allocations - before;
    if (round == 0) {
      EXPECT_GT(during, 0U);  // the counter counts
    }
  }
  EXPECT_EQ(during, 0U);
}

}  // namespace
}  // namespace sirenfeed::model
