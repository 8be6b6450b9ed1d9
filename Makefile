# Tools run by `go run tool@version`, so go.mod never lists them. The version of gofumpt is the
# one built into golangci-lint, so that the two agree.
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOFUMPT := mvdan.cc/gofumpt@v0.12.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0

# How long the tests of one package may take. Ten minutes, the default of go test, can be too short where the tests build
# programs, the build cache is empty and the machine has other work.
PATIENCE := -timeout 30m
# More flags for the tests. For make test, make again and make long: of a test binary, such as
# TESTFLAGS='-test.run=Denied'. For others: of go test, such as TESTFLAGS='-run Denied -count 20'.
TESTFLAGS ?=
# make test, make again: only packages whose import path matches, such as ONLY='quota|policy'. How often again
# runs them, and how long long runs what could go on for ever.
ONLY ?=
N ?= 20
LONG ?= 1h
# make bench: rounds, and time per row. BENCHTIME=20ms ROUNDS=1 is a quick first look.
ROUNDS ?= 5
BENCHTIME ?= 150ms
# The vulnerability database. file:///path reads a copy if vuln.go.dev is out of reach.
VULNDB ?= https://vuln.go.dev
# make bench-guard: UPDATE=1 writes the table instead of comparing it. make newest: the releases.
UPDATE ?=
# make compare: the commit to compare the working tree with.
COMMIT ?= HEAD
# make house: the commit to print figures of beside those of the working tree.
BASE ?=
# make microbench: which benchmarks. make fuzz: time per target.
BENCH ?= .
FUZZTIME ?= 10s
# make billing: number of seeds, or one of them.
SEEDS ?= 100
SEED ?=
# make month: how many tenants, their requests per second, and how long these wait for Redis.
TENANTS ?= 200000
RATE ?= 5000
DEADLINE ?= 100ms
# make service-soak: how long.
SOAK ?= 10m
# make prove and make regions: for how long, which kinds of histories, one of them, and with mistakes made on purpose.
FOR ?= 1m
KIND ?= .
MUTATIONS ?=
# make mutants: the checkout in which they are made, if it is another one.
TREE ?=
# make image: the folder for its files.
OUT ?= dist
# make raw: number of random requests per protocol.
RAW ?= 1000000

.DEFAULT_GOAL := help
.PHONY: mutants help check installed test newest long again test-times servers ports image api twins plots screenshots lint vuln fmt bench bench-guard service-bench service-soak microbench compare faults billing month prove regions fuzz raw cover house release

help: ## print the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

# Packages that check leaves out: simulations, and what needs Redis, PostgreSQL or other modules. It also leaves out
# the tests of the memory store that measure the heap.
UNCHECKED := /test/(api|costs|faults|pgtest|ports|prefetchsim|redistest|release|run|users)(/|$$)

check: ## the tests that need no Redis, with nethttp for the adapters; seconds
	@go test -short -skip 'TenMillion|LogsKeep|BytesPerKey' $(TESTFLAGS) $$(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -vE '$(UNCHECKED)')

# What the tests of make test need, as the recipe of others.
installed:
	@scripts/install-redis
	@scripts/install-proxies
	@scripts/install-prometheus
	@scripts/install-postgres
	@scripts/install-clients
	@scripts/install-browser

# The runner of internal/test/run goes through scripts/modules.
test: installed ## run all tests of all modules, with the race detector where goroutines meet; installs redis-server when missing
	@go run ./internal/test/run $(if $(ONLY),-only '$(ONLY)') -- $(TESTFLAGS)

newest: installed ## run the tests of stores and adapters with the newest releases of today of what they stand on; UPDATE=1 raises commands and examples
	@UPDATE=$(UPDATE) scripts/newest $(TESTFLAGS)

long: installed ## make test with long random sequences and soaks, then what can go on for ever, each for LONG (1h); a day
	LONG_TESTS=1 go run ./internal/test/run -timeout 12h -- $(TESTFLAGS)
	$(MAKE) prove FOR=$(LONG)
	$(MAKE) prove MUTATIONS=1
	$(MAKE) mutants
	$(MAKE) billing
	$(MAKE) regions FOR=$(LONG)
	$(MAKE) month
	$(MAKE) raw RAW=10000000
	$(MAKE) fuzz FUZZTIME=5m
	$(MAKE) service-soak SOAK=$(LONG)

again: installed ## run the tests N (20) times, some beside a build, some in processes that are stopped, and print which were red
	@go run ./internal/test/run -again $(N) $(if $(ONLY),-only '$(ONLY)') -- $(TESTFLAGS)

test-times: installed ## run all tests, and print where the minutes go; COLD=1 with an empty build cache
	@$(if $(COLD),export GOCACHE=$$(mktemp -d) && trap 'rm -rf "$$GOCACHE"' EXIT &&) go run ./internal/test/run -times -- $(TESTFLAGS)

# What servers tests: all that talks to Redis and knows more of it than an address.
SERVERS := ./internal/test/redistest ./core/redisstore ./policy/redissource ./internal/test/faults

servers: ## run the tests of the store on the server that REDIS_SERVER names, such as valkey-server or a path
	@scripts/install-redis
	"$${REDIS_SERVER:-redis-server}" --version
	go test -shuffle=on $(PATIENCE) $(TESTFLAGS) $(SERVERS)
	cd internal/suites/prove && go test -count 1 -v -timeout 0 -run '^TestRedis$$' . -for $(FOR)

# What ports tests where int has 32 bits: all that counts, with one adapter.
NARROW := ./keyfuncs ./core/... ./internal/compose ./internal/prefetch ./internal/stdhttp ./inspect ./metrics/... ./nethttp
PORTS := linux/arm linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64

ports: ## run the tests of what counts on 386, type-check all modules that users require for PORTS, and build the commands for one
	@scripts/install-redis
	CGO_ENABLED=0 GOARCH=386 go test -short -vet=off $(PATIENCE) $(TESTFLAGS) $(NARROW)
	go run ./internal/test/ports $(PORTS)
	for command in cmd/weblimit cmd/weblimitd; do \
		CGO_ENABLED=0 GOOS=linux GOARCH=arm64 go build -C $$command -o /dev/null . || exit 1; \
	done

image: ## write the container image of weblimitd for each architecture into OUT (dist), without docker; the same bytes each time
	go run ./internal/test/image/write -o '$(OUT)'

api: ## write the lists of exported names in api/, after an intended change
	go test -run TestFace ./internal/test/api -update

twins: ## write the adapters of Echo 5 and Fiber 3 from those of Echo 4 and Fiber 2
	go test -count 1 -run TestCopies ./internal/test/twins -update

plots: ## draw the figures of docs from the code and print their tables; half a minute
	go run ./internal/test/plots -o docs/pictures
	go run ./internal/test/prefetchsim/plot -o docs/pictures/prefetch.svg
	go test -count 1 -run TestTheFigure ./internal/test/regionsim -update
	go test -count 1 -run TestTheFigure ./internal/test/fairsim -update

screenshots: ## take the pictures of docs from examples/observed; five minutes, with Prometheus and Chromium
	@scripts/install-redis
	@scripts/install-prometheus
	@scripts/install-browser
	cd internal/suites/page && go test -count 1 -run TestPictures -pictures '$(CURDIR)/docs/pictures' .
	cd internal/suites/prometheus && go test -count 1 -run TestPicture -picture '$(CURDIR)/docs/pictures/dashboard.svg' .

# golangci-lint runs all that go vet does, on what the compiler exports. Tests have compiled that with the race
# detector, which needs a C compiler; those of charts and models without.
lint: ## check formatting, golangci-lint with go vet in it, and the import rules
	@out=$$(go run $(GOFUMPT) -l .) || exit 1; \
	if [ -n "$$out" ]; then printf 'not formatted, run make fmt:\n%s\n' "$$out"; exit 1; fi
	@tools=$$(mktemp -d) && trap 'rm -rf "$$tools"' EXIT && GOBIN="$$tools" go install $(GOLANGCI_LINT) && \
	if [ "$$(go env CGO_ENABLED)" = 1 ]; then race=-race; fi && export race && \
	scripts/modules sh -c 'case $$PWD in */suites/charts | */suites/models) ;; *) export GOFLAGS="$$(go env GOFLAGS) $$race" ;; esac; exec "$$0" "$$@"' \
		"$$tools/golangci-lint" run --config '$(CURDIR)/.golangci.yml' ./...
	scripts/check-deps

vuln: ## look for known vulnerabilities in all modules; needs the network or VULNDB
	scripts/modules go run $(GOVULNCHECK) -db '$(VULNDB)' ./...

fmt: ## format all Go files
	go run $(GOFUMPT) -l -w .

bench: ## measure weblimit and its peers and write docs/choose/speed.md and docs/maintain/benchmarks.md; about 12 minutes
	@scripts/install-redis
	cd bench && go run ./report -rounds $(ROUNDS) -benchtime '$(BENCHTIME)' -docs ../docs

bench-guard: ## compare allocations, round trips, script calls and bytes per check with the table; UPDATE=1 writes it
	@scripts/install-redis
	go test -count 1 -run Alloc $(TESTFLAGS) ./internal/test/costs $(if $(UPDATE),-update)
	go test -count 1 -run Alloc $(TESTFLAGS) ./core ./keyfuncs ./nethttp
	for module in *limit; do (cd $$module && go test -count 1 -run Alloc $(TESTFLAGS) .) || exit 1; done

service-bench: ## measure the library, weblimitd, nginx and envoyproxy/ratelimit for docs/choose/where.md; ten minutes
	@scripts/install-redis
	@scripts/install-proxies
	cd bench/service && go test -count 1 -timeout 1h -run 'TestChecks|TestNginx|TestMemory' -bench-service -rounds $(ROUNDS) .

service-soak: ## run weblimitd for SOAK (10m) while keys, connections, policies and tokens change and Redis is killed
	@scripts/install-redis
	cd bench/service && go test -count 1 -timeout 0 -run TestSoak -v -soak $(SOAK) .

microbench: ## run the Go benchmarks of all modules; BENCH=regexp chooses
	@scripts/install-redis
	scripts/modules go test -run '^$$' -bench '$(BENCH)' -benchmem $(TESTFLAGS) ./...

compare: ## benchmark core and the middleware on COMMIT and on the working tree, in turn
	scripts/compare $(COMMIT)

faults: ## run the fault tests on a real Redis and print their figures; some minutes
	@scripts/install-redis
	scripts/faults $(TESTFLAGS)

billing: ## kill processes, Redis and PostgreSQL under a book, for SEEDS (100) seeds; SEED=n repeats one
	@scripts/install-redis
	@scripts/install-postgres
	cd internal/suites/billing && LONG_TESTS=1 go test -run Killed -timeout 0 -parallel 2 -v . $(if $(SEED),-seed $(SEED),-seeds $(SEEDS))

month: ## begin a month for TENANTS (200000) in the same second at RATE (5000) requests per second, and compare times; six minutes
	@scripts/install-redis
	@scripts/install-postgres
	cd internal/suites/billing && go test -count 1 -run TestAMonthBegins -timeout 0 -v . -timed -tenants $(TENANTS) -rate $(RATE) -deadline $(DEADLINE) -lasting 1m

prove: ## check that histories of several processes are linearizable, for FOR (1m); KIND=regexp, SEED=n, MUTATIONS=1
	@scripts/install-redis
	@scripts/install-postgres
	cd internal/suites/prove && go test -count 1 -v -timeout 0 -run '$(KIND)' $(TESTFLAGS) . -for $(FOR) \
		$(if $(SEED),-seed $(SEED)) $(if $(MUTATIONS),-mutations "$(MUTATIONS)")

regions: ## have random faults happen to three regions, two processes in each, for FOR (1m); SEED=n begins with one
	@scripts/install-redis
	cd internal/suites/regions && go test -count 1 -v -timeout 0 -run 'TestRandomFaults' $(TESTFLAGS) . -for $(FOR) $(if $(SEED),-seed $(SEED))

fair: ## have eight processes divide a limit on Redis, for FOR (1m): a busy client beside a hundred light ones, through Gin, gRPC and the service
	@scripts/install-redis
	cd internal/suites/fair && go test -count 1 -v -timeout 0 -run 'TestABusyClient' $(TESTFLAGS) . -for $(FOR)

mutants: ## make mistakes in the code on purpose, and see which tests of make test notice; ONLY=regexp chooses by what is wrong or by file
	@scripts/install-redis
	@scripts/install-postgres
	cd internal/suites/mutants && go test -count 1 -timeout 0 -run '^TestNoticed$$' -mutants '$(or $(ONLY),.)' $(if $(TREE),-tree '$(abspath $(TREE))')

fuzz: ## run every fuzz target for FUZZTIME (10s)
	@scripts/install-redis
	FUZZTIME=$(FUZZTIME) scripts/fuzz

raw: ## send RAW (1000000) random requests to the adapters; SEED=n repeats one case
	RAW=$(RAW) go -C internal/suites/adversary test -run TestRaw -timeout 0 -v .
	RAW=$(RAW) go -C internal/suites/majors test -run TestRaw -timeout 0 -v .

cover: ## print the coverage of the main module; coverage.out has the lines
	@scripts/install-redis
	go test -coverpkg=./... -coverprofile=coverage.out $(TESTFLAGS) ./...
	go tool cover -func=coverage.out | tail -n 1

house: ## print figures of the structure: lines, arrows, exported names, copies; BASE=commit prints before and after
	@go run ./internal/test/house $(if $(BASE),-base '$(BASE)')

release: ## release VERSION=v1.2.3: check, test, commit and tag, here; nothing is pushed
	scripts/release $(VERSION)
