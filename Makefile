# make demo | test | serve | setup | format | lint | clean
# Everything lands in build/, models/ and .venv/; nothing outside the checkout changes but missing Debian packages.
BUILD   := build/cpu
BINARY  := $(BUILD)/monograph
PYTHON  := .venv/bin/python
DEFAULT := models/SmolLM2-135M-Instruct.Q4_1.gguf
MODEL   ?= $(DEFAULT)
HOST    ?= 127.0.0.1
PORT    ?= 8000
PROMPT  ?= Why is the sky blue? Answer in three sentences.
JOBS    ?= $(shell nproc)

.PHONY: help demo serve test setup build model format lint clean

help:
	@echo "make demo    install what is missing, build, fetch the default model, answer one prompt"
	@echo "make serve   the same, then an OpenAI-compatible server on $(HOST):$(PORT)"
	@echo "make test    install what is missing, build, run every test (fast and real-model)"
	@echo "make format  clang-format all sources        make lint  formatting, layers, clang-tidy"
	@echo "make clean   remove build/ (models/ and .venv/ stay)"

demo: build model
	@echo "> $(PROMPT)"
	@$(BINARY) generate --model $(MODEL) --prompt "$(PROMPT)" --temperature 0 --require-status replayed

serve: build model
	$(BINARY) serve --model $(MODEL) --host $(HOST) --port $(PORT)

# A tree that was configured with tests keeps them; a fresh one is configured without, so that a demo builds the program only.
build:
	@tools/setup.sh build
	@test -f $(BUILD)/build.ninja || cmake --preset cpu -DMONOGRAPH_TESTS=OFF --log-level=WARNING
	@cmake --build $(BUILD) -j $(JOBS) --target monograph

# Only the default model is fetched; MODEL=path takes one of your own.
model:
	@tools/setup.sh build
	@test "$(MODEL)" != "$(DEFAULT)" || $(PYTHON) tools/fetch_model.py

test:
	@tools/setup.sh test
	@$(PYTHON) tools/fetch_model.py
	@$(PYTHON) tools/fetch_test_data.py
	@cmake --preset cpu -DMONOGRAPH_TESTS=ON --log-level=WARNING
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) -L 'fast|test' --no-tests=error --output-on-failure

setup:
	@tools/setup.sh test

SOURCES = $(shell git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')

format:
	@tools/setup.sh lint
	@clang-format -i $(SOURCES)

lint:
	@tools/setup.sh lint
	@clang-format --dry-run -Werror $(SOURCES)
	@python3 tools/check_layers.py
	@cmake --preset cpu -DMONOGRAPH_TESTS=ON --log-level=WARNING
	@git ls-files 'src/*.cpp' 'apps/*.cpp' | grep -v /cuda/ | xargs -P $(JOBS) -n 1 clang-tidy --quiet -p $(BUILD)

clean:
	rm -rf build
