# roamcard: `make` lists what there is.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

BIN := bin/roamcard
GO_SOURCES := $(shell find cmd internal ent gen clients/agent clients/go \( -name '*.go' -o -name go.mod -o -name go.sum \) -not -path '*/node_modules/*' 2>/dev/null) go.mod go.sum go.work
PAGES := $(shell find internal/transport/web/dist -type f 2>/dev/null)
VERSION ?= $(shell git describe --tags --match 'v*' --always --dirty 2>/dev/null || echo dev)
COMMIT ?= $(shell git rev-parse HEAD 2>/dev/null)
# Programs, checks and tests share what is compiled, which they do with the same flags only. Nobody debugs it: leaving
# out what a debugger reads saves an eighth of the compiler's time. No C, as in what is released.
export GOFLAGS := $(strip $(GOFLAGS) -trimpath -gcflags=all=-dwarf=false)
export CGO_ENABLED ?= 0

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: tools/node_modules/.ready ## Fetch what the build and the development server run: Go modules, buf, anvil, PostgreSQL
	@GOWORK=off go mod download

# Not `npm ci`: it refuses a lock file without the binaries of every other platform.
tools/node_modules/.ready: tools/package.json tools/package-lock.json
	npm install --no-save --prefix tools --ignore-scripts --no-audit --no-fund
	@touch $@ tools/node_modules/.runs

# Without what only generates code.
tools/node_modules/.runs: tools/package.json tools/package-lock.json
	npm install --no-save --prefix tools --ignore-scripts --no-audit --no-fund --omit=dev
	@rm -f tools/node_modules/.ready
	@touch $@

clients/typescript/node_modules/.ready: clients/typescript/package.json clients/typescript/package-lock.json
	npm ci --prefix clients/typescript --ignore-scripts --no-audit --no-fund
	@touch $@

# Not `npm ci`, for the same reason.
tools/conformance/node_modules/.ready: tools/conformance/package.json tools/conformance/package-lock.json
	npm install --no-save --prefix tools/conformance --ignore-scripts --no-audit --no-fund
	@touch $@

# Not `npm ci`, for the same reason. What pages are built with; building the program needs none of it.
web/node_modules/.ready: web/package.json web/package-lock.json
	npm install --no-save --prefix web --ignore-scripts --no-audit --no-fund
	@touch $@

# Not `npm ci`, for the same reason.
tools/site/node_modules/.ready: tools/site/package.json tools/site/package-lock.json
	npm install --no-save --prefix tools/site --ignore-scripts --no-audit --no-fund
	@touch $@

# The official mock of Stripe, which checks the requests of the adapter in internal/provider/stripe.
bin/stripe-mock: tools/go.mod tools/go.sum
	GOWORK=off go build -C tools -o ../bin/ github.com/stripe/stripe-mock
	@touch $@

.PHONY: build
build: $(BIN) ## Build bin/roamcard

# From an empty cache the compiler is what takes time: it collects no garbage here, up to a limit.
COMPILE = GOGC=off GOMEMLIMIT=1GiB tools/compile.sh -ldflags '-s -w -X github.com/roamcard/roamcard/internal/app.Version=$(VERSION) -X github.com/roamcard/roamcard/internal/app.Commit=$(COMMIT)' -o $@

$(BIN): $(GO_SOURCES) $(PAGES) gen/openapi/openapi.json
	@$(COMPILE) ./cmd/roamcard

# The program without the vendors' packages.
$(BIN)-demo: $(GO_SOURCES) $(PAGES) gen/openapi/openapi.json
	@TAGS=demo $(COMPILE) ./cmd/roamcard

.PHONY: demo
demo: ## Buy and show a card and an eSIM on a fresh local chain
	@echo "building the program, and fetching a chain and a database; the first time this takes a minute or two"
	@$(MAKE) --no-print-directory -j2 tools/node_modules/.runs $(BIN)-demo
	$(BIN)-demo demo

.PHONY: dev
dev: tools/node_modules/.runs build ## Run everything on loopback, keeping its data in ./data
	$(BIN) dev --data data

.PHONY: cluster
cluster: setup build ## Run two servers, two workers and a replicated database, and take one process after the other away; KEEP=1 leaves all running
	tools/cluster.sh

.PHONY: packaging
packaging: ## Check the image, compose file, units, chart, release and cluster by the tools of their formats; ONLY="compose image"
	tools/packaging.sh

clients/python/.venv/.ready: clients/python/requirements-dev.txt
	clients/python/setup.sh
	@touch $@

# What generation, lint and tests need beyond setup.
NEEDS := setup clients/typescript/node_modules/.ready web/node_modules/.ready

.PHONY: gen
gen: $(NEEDS) ## Make everything that is generated: Go, OpenAPI, TypeScript, ent, contracts, pages
	tools/gen.sh

# What is fetched is fetched at once.
.PHONY: test
test: ## Run the tests: lint, Go, contracts, end to end, clients, and the quick half of the conformance suite
	@$(MAKE) --no-print-directory -j4 $(NEEDS) {tools/conformance/node_modules,clients/python/.venv}/.ready bin/stripe-mock
	tools/test.sh

.PHONY: conformance
conformance: setup tools/conformance/node_modules/.ready clients/typescript/node_modules/.ready ## Run clients, crawlers, linters and a browser that are not ours against a development server
	tools/conformance.sh

.PHONY: mcpb
mcpb: setup tools/conformance/node_modules/.ready ## Build and check the MCP bundle and the registry's server.json; TARGETS="linux/amd64 darwin/arm64"
	VERSION=$(VERSION) tools/mcpb.sh

.PHONY: clients
clients: setup clients/typescript/node_modules/.ready ## Prove the scenarios in TypeScript, Python and Go against one development server
	tools/clients.sh

.PHONY: clients-python
clients-python: setup build ## Check and test the Python client
	tools/test-python.sh

.PHONY: examples
examples: setup build clients/typescript/node_modules/.ready ## Run the examples against a development server
	clients/python/setup.sh
	npm run --silent build --prefix clients/typescript
	tools/examples.sh

.PHONY: ci
ci: ## What runs on every change, from a clean clone
	.ci/run

.PHONY: lint
lint: $(NEEDS) ## Check formatting, vet, staticcheck, clocks in tests, protos, and that planted bugs and generated code are current
	tools/lint.sh

.PHONY: docs
docs: tools/site/node_modules/.ready ## Build the documentation as a site into bin/docs/VERSION, and check it
	export VERSION=$(VERSION); node tools/site/build.mjs; node tools/site/check.mjs

.PHONY: breaking
breaking: setup ## Compare the API with that of the last release, or of AGAINST=REF
	tools/breaking.sh

SECONDS ?= 60
.PHONY: simulate
simulate: setup ## Run worlds in virtual time, from SEED=… or seeds of their own, for SECONDS=60; IN=memory SEEDS=1 TRACE=1 shows one
	tools/simulate.sh $(SECONDS)

.PHONY: torture
torture: $(NEEDS) ## Kill the program at every point of a purchase, again while it recovers, attack it and its clients, drill incidents; PARTS=list lists what runs alone
	tools/torture.sh

.PHONY: abuse
abuse: setup build ## Ask each route and stream of each listener for the worst that its limits allow, and write what it costs
	ROAMCARD_TORTURE=1 ROAMCARD_COST_TABLE=$(CURDIR)/docs/threat-model/costs.md ROAMCARD_BIN_UNDER_TEST=$(CURDIR)/$(BIN) \
		go test ./internal/testing/hostile -run TestCostOfEachRoute -count 1 -timeout 20m

.PHONY: fuzz
fuzz: ## Fuzz every decoder that strangers reach, 60 s each
	tools/fuzz.sh

.PHONY: schemathesis
schemathesis: $(NEEDS) build ## Fuzz the API of a development server by its OpenAPI document, about five minutes
	tools/schemathesis.sh

.PHONY: bench
bench: setup ## Measure against plain yardsticks and write the tables of docs/performance.md, about ten minutes
	tools/bench.sh

.PHONY: growth
growth: setup ## Measure what the store does in an empty database and in one with ORDERS orders, five minutes to a quarter of an hour
	ROAMCARD_BENCH_ORDERS=$${ORDERS:-300000} go test ./internal/testing/bench -run '^$$' -bench '^BenchmarkGrowth$$' -benchtime 1x -timeout 60m

.PHONY: citus
citus: setup ## Build Citus from CITUS=FOLDER, and test and measure the store distributed by owner over two workers
	tools/citus.sh "$(CITUS)"

.PHONY: teeth
teeth: setup ## Plant one known bug after the other and show that the tests notice each
	tools/teeth.sh

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
