SHELL := /bin/bash
.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: ## Run PostgreSQL, the cloud and a worker on this machine, and launch a first browser; VERBOSE=1 also prints addresses with tokens, PLAYWRIGHT=1 installs Node.js for /playwright
	@scripts/need go postgres chromium chromedriver fonts display ffmpeg $(if $(filter 1,$(PLAYWRIGHT)),node)
	@echo "Downloading the Go modules that are missing, building"
	@output=$$(go mod download 2>&1) || { echo "$$output" >&2; exit 1; }
	@go build -o bin/svc-run ./scripts/run && exec bin/svc-run $(if $(VERBOSE),--verbose)

# The programs that the tests need.
needed := go postgres chromium headless-shell fonts display ffmpeg chromedriver node haproxy nginx caddy tinyproxy microsocks python

.PHONY: test
test: ## Run all tests, with real PostgreSQL, Chromium and clients, at a few repetitions each
	@scripts/need $(needed)
	@scripts/npm-install & installing=$$!; scripts/browsers && wait $$installing
	@scripts/test -count=1 -timeout 25m

.PHONY: test-fast
test-fast: ## Run the tests that need neither a database nor a browser
	@scripts/need go
	@scripts/test --fast -count=1

.PHONY: proof
proof: export SVC_TEST_DEPTH := full
proof: ## Run all tests with all repetitions and combinations (the license model, the client matrix, the kills)
	@scripts/need $(needed) java
	@scripts/npm-install & installing=$$!; scripts/browsers && wait $$installing
	@scripts/test -count=1 -timeout 90m

.PHONY: matrix
matrix: export SVC_TEST_DEPTH ?= full
matrix: export SVC_TEST_WORKER ?=
matrix: ## Connect all clients in all their ways from another network namespace, and run the WebDriver suites; SVC_TEST_WORKER=scripts/images-worker for the image (make images), SVC_TEST_DEPTH=quick for half
	@scripts/need $(needed) java
	@scripts/npm-install
	@set -o pipefail; scripts/test -count=1 -v -timeout 30m -run '^TestClients_|^TestWebDriver_|^TestContexts_' ./scripts/e2e | grep -aE '^ *--- |_test.go:|^(ok|FAIL|PASS)|^ +\S.* (ok|FAILED)$$'

# FUZZ is a list of patterns of package/Name, such as 'ticket|access'; all targets when empty.
.PHONY: fuzz
fuzz: FUZZ_SECONDS ?= 60
fuzz: ## Fuzz all parsers of untrusted input for FUZZ_SECONDS each; FUZZ='ticket|access' selects some
	@scripts/need go
	@scripts/fuzz --seconds $(FUZZ_SECONDS) $(if $(FUZZ),'$(FUZZ)')

.PHONY: selftest
selftest: ## Run svc-worker selftest: launch, drive and end a browser of each engine; fail if a resource leaks
	@scripts/need go chromium headless-shell fonts display
	CGO_ENABLED=0 go build -trimpath -o bin/svc-worker ./worker
	@bin/svc-worker selftest

.PHONY: soak
soak: export SOAK_SECONDS ?= 60
soak: ## Launch, drive, kill, freeze and cut off browsers in random order for SOAK_SECONDS; fail if a resource leaks
	@scripts/need go postgres chromium headless-shell display ffmpeg
	go test -count=1 -v -timeout 1h -run '^TestSoak_RandomScenarios$$' ./scripts/e2e

# SOAK_ROUNDS kills, SOAK_AT_ONCE concurrent browsers (230 MB each), then SOAK_SEQUENCE browsers one after another.
.PHONY: soak-worker
soak-worker: export SOAK_ROUNDS ?= 200
soak-worker: export SOAK_AT_ONCE ?= 50
soak-worker: export SOAK_SEQUENCE ?= 500
soak-worker: ## Kill browsers, displays and workers in every phase; run many sessions (half an hour)
	@scripts/need go postgres chromium display ffmpeg
	SVC_TEST_DEPTH=full go test -count=1 -v -timeout 3h -run '^TestSoak_' ./scripts/e2e

# SOAK_MINUTES are minutes of a clock that runs sixty times as fast as real time.
.PHONY: soak-license
soak-license: export SOAK_MINUTES ?= 60
soak-license: ## Simulate an hour of a fleet's license calls in a minute; check memory, connections and table sizes
	@scripts/need go postgres
	go test -count=1 -v -timeout 1h -run TestSoak_LeavesNoResources ./cloud/internal/license/proof

.PHONY: bench-worker
bench-worker: ## Benchmark the worker against other tools; BENCH_WRITE=scripts/bench/RESULTS.md saves the table, BENCH_QUICK=1 is a trial run
	@scripts/need go postgres chromium chromedriver node haproxy
	@scripts/npm-install
	@go run ./scripts/bench $(if $(BENCH_QUICK),--quick) $(if $(BENCH_WRITE),--write $(BENCH_WRITE))

.PHONY: bench-density
bench-density: ## Measure 20, 50 and 100 sessions without clients: memory, page faults, CPU, frozen or not (20 GB of memory); BENCH_WRITE and BENCH_QUICK as above
	@scripts/need go postgres chromium headless-shell
	@go run ./scripts/bench --density $(if $(BENCH_QUICK),--quick) $(if $(BENCH_WRITE),--write $(BENCH_WRITE))

# BENCH_PARTS is a comma-separated list of sessions, steady and burst; all when empty.
.PHONY: bench-throughput
bench-throughput: ## Benchmark sessions per minute, steady arrivals and bursts against other tools; BENCH_WRITE and BENCH_QUICK as above
	@scripts/need go postgres chromium headless-shell node
	@scripts/npm-install
	@go run ./scripts/bench --throughput $(if $(BENCH_QUICK),--quick) $(if $(BENCH_PARTS),--only $(BENCH_PARTS)) \
		$(if $(BENCH_SECONDS),--seconds $(BENCH_SECONDS)) $(if $(BENCH_STEADY_SECONDS),--steady-seconds $(BENCH_STEADY_SECONDS)) \
		$(if $(BENCH_WRITE),--write $(BENCH_WRITE))

.PHONY: bench-image
bench-image: ## Benchmark launches of the image svc-worker (make images) beside the host, with Docker, as root; BENCH_WRITE and BENCH_QUICK as above
	@scripts/need go postgres chromium
	@go run ./scripts/bench --image --rounds 30 $(if $(BENCH_QUICK),--quick) $(if $(BENCH_WRITE),--write $(BENCH_WRITE))

.PHONY: bench-license
bench-license: ## Benchmark the license accounting against its lower bounds; BENCH_WRITE=scripts/bench/RESULTS.md saves the table
	@scripts/need go postgres
	@go run ./scripts/bench --license $(if $(BENCH_QUICK),--quick) $(if $(BENCH_PARTS),--only $(BENCH_PARTS)) $(if $(BENCH_WRITE),--write $(BENCH_WRITE))

.PHONY: bench-profiles
bench-profiles: ## Benchmark saves and restores of profile data in an object store; BENCH_WRITE=scripts/bench/RESULTS.md saves the table, BENCH_QUICK=1 is a trial run
	@scripts/need go
	@go run ./worker/internal/data/profiledata/bench $(if $(BENCH_QUICK),--quick) $(if $(BENCH_WRITE),--write $(BENCH_WRITE))

.PHONY: bench-feed
bench-feed: ## Benchmark the sessions feed with a million and with a thousand sessions, and show the query plans
	@scripts/need go postgres
	go test -run '^$$' -bench Feed -benchtime 50x -v ./cloud/internal/browsers/activity

.PHONY: check
check: ## Check that generated code is up to date; lint the API documents and the code
	@scripts/need go node
	@scripts/npm-install
	@scripts/check

# CONTRACT_STAGES is a comma-separated list of the stages to run; all when empty.
.PHONY: contract
contract: CONTRACT_EXAMPLES ?= 60
contract: CONTRACT_SDKS ?= openapi-fetch,python
contract: ## Test the API documents against the servers: linters, examples, random requests, SDKs, coverage of all responses
	@scripts/need $(needed)
	@scripts/npm-install & installing=$$!; scripts/browsers && wait $$installing
	@go build -o bin/svc-contract ./scripts/contract && exec bin/svc-contract --stage '$(CONTRACT_STAGES)' --examples $(CONTRACT_EXAMPLES) --sdks '$(CONTRACT_SDKS)'

.PHONY: contract-deep
contract-deep: export CONTRACT_SEED ?= $(shell date +%Y%m%d)
contract-deep: ## Run make contract with 300 random requests per operation, different ones each day, and the SDKs of all generators
	@$(MAKE) --no-print-directory contract CONTRACT_EXAMPLES=300 CONTRACT_SDKS=

# KUBERNETES_PROOFS is a comma-separated list of the proofs to run; all when empty.
.PHONY: kubernetes
kubernetes: ## Build a Kubernetes with two nodes on this machine, install the Helm chart and prove it; as root, KUBERNETES_KEEP=1 keeps it until Ctrl-C
	@scripts/need go node seccomp cni iptables ipset conntrack ip mmdebstrap
	@scripts/npm-install
	@go build -o bin/svc-kubernetes ./scripts/kubernetes && exec bin/svc-kubernetes --proofs '$(KUBERNETES_PROOFS)' $(if $(KUBERNETES_KEEP),--keep)

# UPGRADE_FROM is the commit of the earlier svc-cloud; by default the last tag, or HEAD~1.
.PHONY: upgrade-test
upgrade-test: ## Replace an earlier svc-cloud (UPGRADE_FROM) by this one and back on one database, under load
	@scripts/need go postgres
	@go run ./scripts/upgrade $(if $(UPGRADE_FROM),--from '$(UPGRADE_FROM)')

.PHONY: alerts-test
alerts-test: ## Fire three alerts in a real Prometheus with the rules of scripts/monitoring (ten minutes)
	@scripts/need go postgres chromium display ffmpeg
	@go run ./scripts/alerts

.PHONY: sdk
sdk: ## Build, pack and test the SDKs of openapi/sdk; the packages are in bin/sdk
	@scripts/need $(needed)
	@scripts/npm-install
	@mkdir -p bin/sdk && for pack in openapi/sdk/*/pack; do $$pack bin/sdk || exit 1; done
	@scripts/test -count=1 -timeout 15m -run '^TestSDK_' ./scripts/e2e

.PHONY: generate
generate: ## Generate gen/, the Grafana dashboards, db/schema.sql and the tables of CONFIGURATION.md from their sources
	@scripts/generate

.PHONY: build
build: ## Build bin/svc-cloud, bin/svc-worker and bin/svc, the command line for users
	@scripts/need go
	CGO_ENABLED=0 go build -trimpath -o bin/svc-cloud ./cloud
	CGO_ENABLED=0 go build -trimpath -o bin/svc-worker ./worker
	CGO_ENABLED=0 go build -trimpath -o bin/svc ./worker/cmd/svc

.PHONY: images
images: ## Build the images svc-cloud and svc-worker
	docker compose build

.PHONY: image-playwright
image-playwright: ## Build the image svc-worker-playwright: svc-worker with Node.js and playwright-core, for /playwright
	docker build --tag svc-worker-playwright --target playwright --file worker/Dockerfile .

.PHONY: images-test
images-test: ## Build the image svc-worker and test the isolation of launches in it, with Docker
	@scripts/need go
	@scripts/images-test

.PHONY: clean
clean: ## Remove build output; the data in .svc stays
	rm -rf bin scripts/node_modules

.PHONY: sbom
sbom: images ## Build the images and list their contents in bin/svc-cloud.cdx.json and bin/svc-worker.cdx.json
	@scripts/sbom
