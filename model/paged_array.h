#pragma once
// An array whose copies share their elements until one of them is written: what a published model
// and the trainer's have in common exists once.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/check.h"

namespace sirenfeed::model {

/// Elements of `stride` values of T each, in pages of 2^kPageBits elements; kChapterPages pages
/// make a chapter, and the array is a list of chapters. Both are counted references. Copying costs
/// one count a chapter; writing to an element clones its page, and its chapter, where another array
/// still refers to them.
///
/// Threads: an array has one writer. Arrays that share pages may be used by different threads, each
/// as if it was alone; copying is a const method of its source.
template <class T, unsigned kPageBits>
class PagedArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PagedArray(std::size_t stride = 1) : stride_(stride) {}

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }

  /// The element's `stride` values; valid until the next non-const call.
  [[nodiscard]] const T* at(std::size_t index) const {
    return chapters_[index >> kChapterBits]->pages[page_in_chapter(index)]->values() +
           (index & kPageMask) * stride_;
  }
  /// Fetches what at() will look at before it comes to the element.
  void prefetch_place(std::size_t index) const {
    __builtin_prefetch(&chapters_[index >> kChapterBits]->pages[page_in_chapter(index)]);
  }
  /// The element, to write to.
  [[nodiscard]] T* writable(std::size_t index) {
    Ref<Chapter>& chapter = chapters_[index >> kChapterBits];
    if (chapter.shared()) chapter = Ref<Chapter>(new Chapter(*chapter));
    Ref<Page>& page = chapter->pages[page_in_chapter(index)];
    if (page.shared()) page = Ref<Page>(Page::make(page->values(), values_in_page()));
    return page->values() + (index & kPageMask) * stride_;
  }

  /// Adds an element with zeros and returns it to write to.
  T* append() {
    const std::size_t index = size_++;
    if ((index & kChapterMask) == 0) chapters_.push_back(Ref<Chapter>(new Chapter));
    if ((index & kPageMask) == 0) {
      Ref<Chapter>& chapter = chapters_[index >> kChapterBits];
      if (chapter.shared()) chapter = Ref<Chapter>(new Chapter(*chapter));
      chapter->pages[page_in_chapter(index)] = Ref<Page>(Page::make(nullptr, values_in_page()));
      return chapter->pages[page_in_chapter(index)]->values();
    }
    T* const element = writable(index);
    std::memset(element, 0, stride_ * sizeof(T));
    return element;
  }
  void remove_last() {
    SF_CHECK(size_ > 0);
    const std::size_t index = --size_;
    if ((index & kChapterMask) == 0) {
      chapters_.pop_back();
    } else if ((index & kPageMask) == 0) {
      Ref<Chapter>& chapter = chapters_[index >> kChapterBits];
      if (chapter.shared()) chapter = Ref<Chapter>(new Chapter(*chapter));
      chapter->pages[page_in_chapter(index)] = Ref<Page>();
    }
  }
  void clear() {
    chapters_.clear();
    size_ = 0;
  }

  /// Whether both have the element on one and the same page, where it is then equal.
  [[nodiscard]] bool shares_page(std::size_t index, const PagedArray& other) const {
    if (index >= size_ || index >= other.size_) return false;
    const std::size_t chapter = index >> kChapterBits;
    return chapters_[chapter].get() == other.chapters_[chapter].get() ||
           chapters_[chapter]->pages[page_in_chapter(index)].get() ==
               other.chapters_[chapter]->pages[page_in_chapter(index)].get();
  }

  static constexpr std::size_t kPageElements = std::size_t{1} << kPageBits;

 private:
  static constexpr unsigned kChapterPageBits = 6;
  static constexpr std::size_t kChapterPages = std::size_t{1} << kChapterPageBits;
  static constexpr unsigned kChapterBits = kPageBits + kChapterPageBits;
  static constexpr std::size_t kPageMask = kPageElements - 1;
  static constexpr std::size_t kChapterMask = (std::size_t{1} << kChapterBits) - 1;

  static std::size_t page_in_chapter(std::size_t index) {
    return (index >> kPageBits) & (kChapterPages - 1);
  }
  [[nodiscard]] std::size_t values_in_page() const { return kPageElements * stride_; }

  /// A counted pointer: half of a shared_ptr, whose count lies beside what it counts.
  template <class Node>
  class Ref {
   public:
    Ref() = default;
    explicit Ref(Node* made) : node_(made) {}
    Ref(const Ref& other) : node_(other.node_) {
      if (node_ != nullptr) node_->references.fetch_add(1, std::memory_order_relaxed);
    }
    Ref(Ref&& other) noexcept : node_(std::exchange(other.node_, nullptr)) {}
    Ref& operator=(Ref other) noexcept {
      std::swap(node_, other.node_);
      return *this;
    }
    ~Ref() {
      if (node_ == nullptr) return;
      if (node_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) Node::dispose(node_);
    }
    [[nodiscard]] Node* get() const { return node_; }
    Node* operator->() const { return node_; }
    Node& operator*() const { return *node_; }
    /// Acquire: whoever gave the node up has read it to the end before this one writes to it.
    [[nodiscard]] bool shared() const {
      return node_->references.load(std::memory_order_acquire) != 1;
    }

   private:
    Node* node_ = nullptr;
  };

  struct alignas(64) Page {
    std::atomic<std::uint32_t> references{1};

    [[nodiscard]] T* values() {
      return reinterpret_cast<T*>(reinterpret_cast<std::byte*>(this) + sizeof(Page));
    }
    /// `from` nullptr: zeros.
    static Page* make(const T* from, std::size_t values) {
      void* const memory =
          ::operator new (sizeof(Page) + values * sizeof(T), std::align_val_t{alignof(Page)});
      Page* const page = new (memory) Page;
      if (from != nullptr) {
        std::memcpy(page->values(), from, values * sizeof(T));
      } else {
        std::memset(page->values(), 0, values * sizeof(T));
      }
      return page;
    }
    static void dispose(Page* page) {
      page->~Page();
      ::operator delete (page, std::align_val_t{alignof(Page)});
    }
  };

  struct Chapter {
    std::atomic<std::uint32_t> references{1};
    Ref<Page> pages[kChapterPages];

    Chapter() = default;
    Chapter(const Chapter& other) {
      for (std::size_t i = 0; i < kChapterPages; ++i) pages[i] = other.pages[i];
    }
    static void dispose(Chapter* chapter) { delete chapter; }
  };

  std::size_t stride_;
  std::size_t size_ = 0;
  std::vector<Ref<Chapter>> chapters_;
};

}  // namespace sirenfeed::model
