# Every target sets up what it needs. Plain `make` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
GO ?= go
STATICCHECK = $(GO) tool -modfile=tools/go.mod staticcheck
# What is worth the race detector's time.
RACE = . ./aesgcm ./atrest ./attack/... ./claimcheck/... ./examples/... ./handle/... ./internal/canonjson ./internal/claims ./internal/ringtable ./keyring/... ./ledger/... ./mcpsdk ./observe/... ./replay/... ./signed ./store/...

.PHONY: help
help: ## List the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 20

.PHONY: test
test: ## Set up, check and test everything (under 5 minutes)
	@$(MAKE) --no-print-directory -j2 setup check
	@$(MAKE) --no-print-directory unit

.PHONY: setup
setup: ## Install what the tests use, and name what is missing
	@scripts/setup.sh

.PHONY: check
check: ## gofmt, go vet, tidy go.mod
	@test -z "$$(gofmt -s -l .)" || { echo "gofmt -s would change:"; gofmt -s -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff

.PHONY: lint
lint: ## staticcheck, pinned in tools/go.mod, and the module of the benchmarks
	$(STATICCHECK) ./...
	cd bench && $(GO) vet ./... && $(GO) mod tidy -diff && $(GO) test ./...

.PHONY: unit
unit: ## Run the tests
	$(GO) test ./...

.PHONY: race
race: ## Run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 $(GO) test -race $(RACE)

.PHONY: demo
demo: ## Run the demo: two replicas, a real client, the attacks
	$(GO) run ./cmd/foil demo

.PHONY: fuzz
fuzz: ## Fuzz every target, each for FUZZTIME (default 5m)
	scripts/fuzz.sh

.PHONY: bench
bench: ## Measure side by side with other ways to seal a state, and print the ratios
	cd bench && $(GO) run ./ratios

.PHONY: bench-stores
bench-stores: ## Measure the stores side by side, and write the table of docs/stores.md
	cd bench && $(GO) test -v -timeout 30m ./stores -run '^TestTable$$' -args -table -write ../../docs/stores.md

.PHONY: bench-live
bench-live: ## Measure a SQLite file with ten million live IDs (4 GB of disk), and write docs/stores.md
	cd bench && $(GO) test -v -timeout 60m ./stores -run '^TestLive$$' -args -live 10000000 -write ../../docs/stores.md

# How often make crash kills a worker; the other parts of it grow with it.
CRASH ?= 1000

.PHONY: crash
crash: ## Kill processes, stores and connections for long (CRASH=1000 times), and check linearizability
	FOIL_CRASH=$(CRASH) $(GO) test -v -count=1 -timeout 60m ./crash ./linear
