# Tools are run by `go run tool@version`, so that go.mod never holds them. gofumpt is the
# version that golangci-lint has built in: the two must not disagree.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT := mvdan.cc/gofumpt@v0.12.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# Further flags of go test, e.g. TESTFLAGS='-run Denied -count 20'.
TESTFLAGS ?=
# The comparison: how often, and how long each row; BENCHTIME=20ms ROUNDS=1 is a first look.
ROUNDS ?= 5
BENCHTIME ?= 150ms
# The database of vulnerabilities; file:///path reads a copy, where vuln.go.dev is out of reach.
VULNDB ?= https://vuln.go.dev
# What the working tree is compared with.
COMMIT ?= HEAD
# Which of the other benchmarks, and how long each fuzz target.
BENCH ?= .
FUZZTIME ?= 10s
# How many random requests of each protocol.
RAW ?= 1000000

.DEFAULT_GOAL := help
.PHONY: help check test api lint vuln fmt bench microbench compare faults fuzz raw cover

help: ## print the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18

# Packages that check leaves out: frameworks, simulations, and what needs Redis or a proxy. It also
# leaves out the two tests of the memory store that take seconds.
UNCHECKED := /(chilimit|echolimit|fiberlimit|ginlimit|examples|test/(adversary|faults|prefetchsim|proxies|redistest))(/|$$)

check: ## vet and the tests that need no Redis, with nethttp for the adapters; under a minute
	go vet ./...
	go test -short -skip 'TenMillion|LogsKeep' $(TESTFLAGS) $$(go list ./... | grep -vE '$(UNCHECKED)')

test: ## run all tests of all modules under the race detector; installs redis-server when missing
	@scripts/install-redis
	@scripts/install-proxies
	scripts/modules go test -race -shuffle=on $(TESTFLAGS) ./...
	go test -run 'Alloc|TenMillion|BytesPerKey|LogsKeep|Outcomes' ./... # under the race detector they are skipped, or smaller

api: ## write the lists of exported names in api/, after a change that is meant
	go test -run TestFace ./internal/test/api -update

lint: ## check formatting, golangci-lint, go vet and what the packages import
	@out=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$out" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$out"; exit 1; fi
	scripts/modules go vet ./...
	scripts/modules go run $(GOLANGCI_LINT) run --config '$(CURDIR)/.golangci.yml' ./...
	scripts/check-deps

vuln: ## look for known vulnerabilities in what all modules call; needs the network, or VULNDB
	scripts/modules go run $(GOVULNCHECK) -db '$(VULNDB)' ./...

fmt: ## format all Go files
	go run $(GOFUMPT) -l -w .

bench: ## measure weblimit beside its peers and write docs/benchmarks.md; some 12 minutes
	@scripts/install-redis
	cd bench && go run ./report -rounds $(ROUNDS) -benchtime '$(BENCHTIME)' -o ../docs/benchmarks.md -scaling ../docs/scaling.md

microbench: ## run the Go benchmarks of all modules; BENCH=regexp chooses
	@scripts/install-redis
	scripts/modules go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) ./...

compare: ## run the benchmarks of core and the middleware on COMMIT and on the working tree, in turn
	scripts/compare $(COMMIT)

faults: ## break a real Redis in every way and print what that costs; some minutes
	@scripts/install-redis
	scripts/faults $(TESTFLAGS)

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@scripts/install-redis
	FUZZTIME=$(FUZZTIME) scripts/fuzz

raw: ## send RAW (1000000) random requests to the adapters, byte by byte; SEED=n is one case again
	RAW=$(RAW) go test -run TestRaw -timeout 0 -v ./internal/test/adversary

cover: ## print the coverage of the main module; coverage.out holds the lines
	@scripts/install-redis
	go test -coverpkg=./... -coverprofile=coverage.out $(TESTFLAGS) ./...
	go tool cover -func=coverage.out | tail -n 1
