# SPDX-License-Identifier: Apache-2.0
# The commands of the README. Everything is built by CMake; this only sets up and calls it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help run up live-check image images images-check package build test lint bench rollout soak torture runtimes clean

help:
	@echo 'make run            set up, build, and watch one task become working code (TASK="…" with a Gemini key)'
	@echo 'make up             both services in the foreground'
	@echo 'make live-check     one small real call to Gemini (needs GEMINI_API_KEY)'
	@echo 'make image          base image of the docker backend, without a registry'
	@echo 'make images         the images of both services (needs docker and a registry)'
	@echo 'make images-check   compiles them without a registry, and tries them and the compose file'
	@echo 'make package        the Debian package, in build/packages'
	@echo 'make build          compile'
	@echo 'make test           every test'
	@echo 'make lint           formatting, static analysis, structure'
	@echo 'make bench          benchmarks, as JSON'
	@echo 'make rollout        several of each service under load: restarts, kills, a partition; no run may be lost'
	@echo 'make soak           long runs on each backend that look for leaks, half an hour of kills, and sandboxes and a batch in the large'
	@echo 'make torture        the programs of the GCC test suite in sandboxes, compared with bare runs'
	@echo 'make runtimes       the runtimes that are built of packages (python-data, browser, each language), built and tried on both backends'
	@echo 'make clean          remove what was built'

run:
	@scripts/run.sh demo

up:
	@scripts/run.sh up

live-check:
	@scripts/run.sh live-check

image:
	@scripts/image.sh

images:
	@for target in orchestrator sandboxd; do docker build -f deploy/Dockerfile --target $$target -t crisol-$$target:0.1.0 . || exit 1; done

images-check:
	@scripts/deps.sh engine && scripts/build.sh && \
	    CRISOL_TOOLS=$$(scripts/tools.sh) CRISOL_IMAGES_BUILD=1 /usr/bin/python3 -B tests/deploy/containers_test.py

package:
	@scripts/build.sh && cd build && cpack

build:
	@scripts/build.sh

test:
	@scripts/test.sh

lint:
	@scripts/lint.sh

bench:
	@scripts/build.sh && tests/bench/run.sh

rollout:
	@scripts/deps.sh test && scripts/build.sh && ctest --test-dir build -R '^deploy_rollout$$' --verbose --no-tests=error

soak:
	@scripts/build.sh && tests/bench/soak.sh

torture:
	@scripts/build.sh && scripts/torture.sh

runtimes:
	@scripts/build.sh && scripts/runtimes.sh

clean:
	rm -rf build build-*
