# The front door: every everyday command. `make help` lists them.
JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 1
BUILD := build/release
DEBUG := build/debug

.PHONY: help setup build demo test test-fast test-asan fuzz bench format lint clean

help:  ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup:  ## Install the packages that everything below needs
	@scripts/setup.sh

build:  ## Release build: build/release/sirenfeed
	@scripts/setup.sh build
	cmake --preset release -DSIRENFEED_TESTS=OFF -DSIRENFEED_BENCH=OFF > /dev/null
	cmake --build $(BUILD) --target sirenfeed -j $(JOBS)

test:  ## Every test, in Release
	@scripts/setup.sh build test
	cmake --preset release -DSIRENFEED_TESTS=ON -DSIRENFEED_BENCH=ON > /dev/null
	cmake --build $(BUILD) -j $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

test-fast:  ## The unit tests, in Debug: what you run all day
	@scripts/setup.sh build test
	cmake --preset debug > /dev/null
	cmake --build $(DEBUG) -j $(JOBS)
	ctest --test-dir $(DEBUG) --output-on-failure -L unit -j $(JOBS)

test-asan:  ## The unit tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@scripts/setup.sh build test
	cmake --preset asan -DSIRENFEED_BENCH=OFF > /dev/null
	cmake --build build/asan --target unit_tests -j $(JOBS)
	ctest --test-dir build/asan --output-on-failure -L unit -E '^tidy' -j $(JOBS)

fuzz:  ## Every libFuzzer target for FUZZ_SECONDS (20), from the checked-in seeds
	@scripts/setup.sh build test lint
	cmake --preset fuzz -DFUZZ_SECONDS=$(FUZZ_SECONDS) -DFUZZ_SEED=$(FUZZ_SEED) > /dev/null
	cmake --build build/fuzz --target fuzz -j $(JOBS)
	ctest --test-dir build/fuzz --output-on-failure -L fuzz -j $(JOBS)

bench:  ## Benchmarks, printed with machine and commit
	@scripts/setup.sh build test
	cmake --preset release -DSIRENFEED_TESTS=ON -DSIRENFEED_BENCH=ON > /dev/null
	cmake --build $(BUILD) -j $(JOBS)
	bench/run.sh $(BUILD)

demo: build  ## The whole pipeline on the embedded log with simulated users
	scripts/demo.sh $(BUILD)/sirenfeed

format:  ## clang-format everything
	git ls-files '*.h' '*.cc' | xargs clang-format -i

lint: setup  ## clang-format check and clang-tidy
	git ls-files '*.h' '*.cc' | xargs clang-format --dry-run -Werror
	cmake --preset clang -DSIRENFEED_BENCH=OFF > /dev/null
	git ls-files 'base/*.cc' 'ingest/*.cc' 'features/*.cc' 'model/*.cc' 'trainer/*.cc' 'serving/*.cc' 'app/*.cc' | \
	  xargs -P $(JOBS) -n 4 clang-tidy -p build/clang --quiet

clean:  ## Remove every build
	rm -rf build
