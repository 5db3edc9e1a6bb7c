# What a contributor runs. Each target fetches what it needs: Envoy, and the programs that tools/go.mod pins.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PROGRAMS := mcp-server mcp-client discovery mesh-agent deploy/demo
TESTS    ?= ./...
FUZZTIME ?= 30s
POSTGRES ?= 13 14 15 16 17 18

export PATH := $(CURDIR)/.tools/bin:$(PATH)

include tools/program-flags
export GOFLAGS := $(strip $(shell go env GOFLAGS) $(PROGRAM_FLAGS))

# bench is a module of its own. Its programs run here, so that paths in FLAGS mean what they say.
benchmark = go -C bench build -o $(CURDIR)/bin/bench/ ./$(1)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: build ## Run a whole mesh on this machine; Ctrl-C ends it (FLAGS=--help lists its flags)
	@bin/demo $(FLAGS)

.PHONY: test
test: compile machine prometheus ## Run every test, on a real Postgres and a real Envoy (TESTS=./store/... narrows)
	@failed=0; go test -timeout 20m $(TESTS) || failed=1; $(if $(filter ./...,$(TESTS)),go -C bench test ./... || failed=1; go -C conformance/gatewayapi test ./... || failed=1; go -C deploy/release test -short ./... || failed=1; go -C deploy/terraform test ./... || failed=1;) exit $$failed

.PHONY: test-race
test-race: envoy machine prometheus ## Run every test under the race detector
	@failed=0; go test -race -timeout 40m $(TESTS) || failed=1; $(if $(filter ./...,$(TESTS)),go -C bench test -race ./... || failed=1;) exit $$failed

.PHONY: test-postgres
test-postgres: ## Run the store's tests on each Postgres from 13 to 18 (POSTGRES=13 narrows)
	@for major in $(POSTGRES); do echo "Postgres $$major"; PGMESH_POSTGRES_BIN=download-$$major go test -count=1 ./store/...; done

.PHONY: interop
interop: compile istiod ## Run pgmesh beside a real istiod, which is built from Istio's modules (minutes the first time)
	ISTIOD=$(CURDIR)/.tools/bin/istiod go test -count=1 ./internal/testbench/interop

.PHONY: samples
samples: compile ## Do what the READMEs of Istio's samples say, with their files as they are
	@go -C tools/istiod mod download istio.io/istio
	ISTIO_SAMPLES=$$(go -C tools/istiod list -m -f '{{.Dir}}' istio.io/istio)/samples go test -count=1 ./internal/testbench/e2e -run TestIstios

.PHONY: from-istio
from-istio: export ISTIOD=$(CURDIR)/.tools/bin/istiod
from-istio: export PILOT_AGENT=$(CURDIR)/.tools/bin/pilot-agent
from-istio: export KUBECTL=$(CURDIR)/.tools/bin/kubectl
from-istio: export KUBE_APISERVER=$(CURDIR)/.tools/bin/kube-apiserver
from-istio: export ETCD=$(CURDIR)/.tools/bin/etcd
from-istio: compile istiod kube-apiserver etcd ## Move machines from an Istio in Kubernetes and back, with real ones of both (minutes the first time)
	go test -count=1 -v ./internal/testbench/interop -run 'FromIstio|OfACluster'
	go test -count=1 ./mcp-client/cli/files -run Kustomizations # which kubectl builds

.PHONY: receivers
receivers: compile otelcol ## Send traces and logs to OpenTelemetry's collector, Zipkin and Datadog's agent (minutes the first time)
	@tools/fetch-receivers
	RECEIVERS=$(CURDIR)/.tools go test -count=1 ./internal/testbench/e2e -run TestReceivers -v

.PHONY: orms
orms: sqlc ## Run the programs of docs/orms.md and docs/migrations.md, with real SQLAlchemy, Django, sqlc, Alembic and dbmate (minutes the first time)
	@tools/fetch-python orms "SQLAlchemy, Django, Alembic and dbmate (29 MB)"
	ORMS=$(CURDIR)/.tools go test -count=1 ./internal/testbench/orms -v

.PHONY: ansible
ansible: envoy machine nfpm ## Run the role of deploy/ansible with a real Ansible, on machines with systemd (as root)
	@tools/fetch-python ansible "Ansible (10 MB)"
	ANSIBLE=$(CURDIR)/.tools/ansible go test -count=1 ./deploy/machines -run TestAnsible -v

.PHONY: terraform
terraform: opentofu ## Run the provider of docs/terraform.md with a real OpenTofu, which is built from its module (minutes the first time)
	TOFU=$(CURDIR)/.tools/bin/tofu go -C deploy/terraform test -count=1 -v .

.PHONY: registries
registries bench-registries: export CONSUL=$(CURDIR)/.tools/bin/consul
registries bench-registries: export ZOOKEEPER=$(CURDIR)/.tools/zookeeper
registries bench-registries bench-gateway-api: export KUBE_APISERVER=$(CURDIR)/.tools/bin/kube-apiserver
registries bench-registries bench-gateway-api: export ETCD=$(CURDIR)/.tools/bin/etcd
registries: compile consul zookeeper kube-apiserver etcd ## Hold the registries to what they promise, on a real Consul, ZooKeeper and Kubernetes (minutes the first time; PGMESH_REGISTRY_OPERATIONS=3000 tries more)
	go test -count=1 -v -p 1 -timeout 1h ./registry/...
	go test -count=1 -v -p 1 -timeout 1h ./mcp-server/serve ./internal/testbench/e2e -run 'Announce|FromConsul|ZooKeeper|Kubernetes|Cluster'

.PHONY: bench
bench: compile ## Measure what is promised, each beside a floor (FLAGS='--only update,large' narrows)
	@$(call benchmark,.) && bin/bench/bench $(FLAGS)

.PHONY: bench-scale
bench-scale: compile ## Measure many proxies of a large mesh, pgmesh's or another's (FLAGS=--help lists its flags)
	@$(call benchmark,scale) && bin/bench/scale $(FLAGS)

.PHONY: bench-rollout
bench-rollout: compile ## Measure what it costs to know what each proxy runs, and how soon that is known (FLAGS=--help lists its flags)
	@$(call benchmark,rollout) && bin/bench/rollout $(FLAGS)

.PHONY: bench-certificates
bench-certificates: compile ## Measure how many certificates a second one discovery signs (FLAGS=--help lists its flags)
	@$(call benchmark,certificates) && bin/bench/certificates $(FLAGS)

.PHONY: bench-fleet
bench-fleet: compile ## Have 2,000 machines come and go while parts are killed, and compare what Postgres has (FLAGS=--help lists its flags)
	@$(call benchmark,fleet) && bin/bench/fleet $(FLAGS)

.PHONY: bench-renewals
bench-renewals: compile ## Have 2,000 machines renew certificates of ten minutes, and look whether any ends (FLAGS=--help lists its flags)
	@$(call benchmark,renewals) && bin/bench/renewals $(FLAGS)

.PHONY: bench-join
bench-join: compile ## Have 20 machines join one after the other, and measure how soon each is answered, and what its agent weighs (FLAGS=--help lists its flags)
	@$(call benchmark,join) && bin/bench/join $(FLAGS)

.PHONY: bench-registries
bench-registries: compile consul zookeeper kube-apiserver etcd ## Measure how soon a change in Consul, ZooKeeper or Kubernetes is answered for by an Envoy (FLAGS='--only consul' narrows)
	@$(call benchmark,registries) && bin/bench/registries $(FLAGS)

.PHONY: bench-gateway-api
bench-gateway-api: compile kube-apiserver etcd ## Measure how gateways follow routes of the Gateway API, as gateway-api-bench does (FLAGS=--help lists its flags)
	@$(call benchmark,gatewayapi) && bin/bench/gatewayapi $(FLAGS)

.PHONY: bench-metrics
bench-metrics: compile ## Measure what the standard metrics and access logs cost at each request, and in memory (FLAGS=--help lists its flags)
	@$(call benchmark,metrics) && bin/bench/metrics $(FLAGS)

.PHONY: conformance
conformance: compile ## Put discovery to the exam of a corpus (CORPUS=folder FLAGS='--run reviews --diff' narrows)
	go run ./conformance --corpus $(CORPUS) $(FLAGS)

.PHONY: conformance-gateway-api
conformance-gateway-api: export KUBE_APISERVER=$(CURDIR)/.tools/bin/kube-apiserver
conformance-gateway-api: export ETCD=$(CURDIR)/.tools/bin/etcd
conformance-gateway-api: export ENVOY ?= $(CURDIR)/.tools/envoy/envoy
conformance-gateway-api: envoy machine kube-apiserver etcd ## Run the Gateway API's own conformance suite, as root (minutes the first time; FLAGS='-run-test HTTPRouteWeight' narrows)
	go -C conformance/gatewayapi test -count=1 ./rows
	go -C conformance/gatewayapi test -count=1 -timeout 2h -args -report-output $(CURDIR)/dist/conformance/gateway-api.yaml $(FLAGS)

.PHONY: soak
soak: ## Try the feed with random transactions for SOAK=10m and watch the memory (PGMESH_SEED replays the dice)
	SOAK=$${SOAK:-10m} go test ./store/feed -run TestFeedUnderRandomTransactions -count=1 -timeout 0 -v

.PHONY: deaths
deaths: envoy ## Have each two parts of a mesh die and come back in every order, under requests: half an hour
	DEATHS=1 go test ./internal/testbench/e2e -run TestEveryOrderOfDeaths -count=1 -timeout 0 -v

.PHONY: rollout
rollout: ## Have parts of a mesh of 300 proxies die for ROLLOUT=3m, and hold what the database says of the proxies to what they know (PGMESH_SEED replays the dice)
	ROLLOUT=$${ROLLOUT:-3m} go test ./internal/testbench/truth -count=1 -timeout 0 -v

.PHONY: count
count: ## Count how the code is written, folder by folder (TREE=folder counts another tree, to hold beside it)
	@go run -C tools ./count $(abspath $(or $(TREE),.))

.PHONY: hops
hops: envoy ## Count the functions that a change passes between the row and Envoy (TREE=folder counts another tree, FLAGS=--list names them)
	@go run -C tools ./hops $(FLAGS) $(abspath $(or $(TREE),.))

.PHONY: storm
storm: ## Put discovery's pushes under storms for STORM=30s: 5,000 changes a second, 500 proxies, half of them dead weight
	STORM=$${STORM:-30s} go test ./discovery/push -run 'TestHealthyProxiesStayCurrentInAStorm|TestProxiesThatComeBackTogetherAreServed' -count=1 -timeout 0 -v

.PHONY: fuzz
fuzz: compile ## Try every fuzz target for FUZZTIME=30s each (FUZZ=FuzzParse narrows)
	@tools/fuzz $(FUZZTIME) $(FUZZ)

.PHONY: lint
lint: lint-go lint-proto lint-generated lint-modules ## Check style, protos, generated code and go.mod

.PHONY: generate
generate: tools ## Write the generated code anew
	buf generate
	go generate ./...

.PHONY: build
build: compile ## Compile the programs into bin/
	@for program in $(PROGRAMS); do go build -o bin/ ./$$program; done

.PHONY: packages
packages: nfpm ## Make the .deb and .rpm of each program in dist/ (VERSION=1.2.3, ARCHES='amd64 arm64')
	@deploy/packages/build

.PHONY: release
release: nfpm ## Make a release in dist/release, which any web server can serve (VERSION=1.2.3 RELEASE_KEY=file RELEASE_URL=https://…; docs/releases.md)
	@go -C deploy/release build -o $(CURDIR)/bin/ .
	@bin/release --release=$(VERSION) --key=$(RELEASE_KEY) $(if $(RELEASE_URL),--url=$(RELEASE_URL)) $(FLAGS)

.PHONY: release-check
release-check: nfpm ## Make a release of the commit twice, in two places and with nothing compiled before, and compare all files
	@deploy/release/check

.PHONY: test-release
test-release: export COSIGN=$(CURDIR)/.tools/bin/cosign
test-release: export TOFU=$(CURDIR)/.tools/bin/tofu
test-release: nfpm machine envoy cosign opentofu ## Install a release on new machines, upgrade and go back, run its images and its demo (as root; minutes)
	go -C deploy/release test -count=1 -timeout 30m ./...

.PHONY: man completions
man: ## Write the programs' manual pages into dist/man/
	@FORMATS= ARCHES= deploy/packages/build

completions: man ## Write the completions for bash, zsh and fish into dist/completions/

.PHONY: tidy
tidy: ## Write go.mod and go.sum anew, those of bench, conformance/gatewayapi, deploy/release and deploy/terraform too
	go mod tidy
	go -C bench mod tidy
	go -C conformance/gatewayapi mod tidy
	go -C deploy/release mod tidy
	go -C deploy/terraform mod tidy

.PHONY: fmt
fmt: tools ## Format Go and proto files
	golangci-lint fmt
	buf format --write

.PHONY: tools
tools: envoy prometheus ## Put Envoy and the pinned tools into .tools/
	@tools/build-tools

.PHONY: clean
clean: ## Remove bin/ and the demo's data (.tools/ stays)
	rm -rf bin dist .demo

# The parts of the targets above.
.PHONY: envoy machine nfpm cosign istiod prometheus otelcol consul zookeeper kube-apiserver etcd sqlc opentofu compile lint-go lint-proto lint-generated lint-modules

envoy:
	@tools/fetch-envoy

machine:
	@tools/machine-packages

zookeeper:
	@tools/fetch-zookeeper

nfpm cosign istiod prometheus otelcol consul kube-apiserver etcd sqlc opentofu:
	@tools/build-tools $@

compile: envoy
	@go build -v ./... 2>&1 | tools/show-compiling
	@go -C bench build -v ./... 2>&1 | tools/show-compiling

lint-go: tools
	golangci-lint fmt --diff
	golangci-lint run
	cd bench && golangci-lint run
	cd conformance/gatewayapi && golangci-lint run
	cd deploy/release && golangci-lint run
	cd deploy/terraform && golangci-lint run

lint-proto: tools
	buf lint
	buf format --diff --exit-code

lint-generated: tools
	tools/check-generated

lint-modules:
	go mod tidy -diff
	go -C bench mod tidy -diff
	go -C conformance/gatewayapi mod tidy -diff
	go -C deploy/release mod tidy -diff
	go -C deploy/terraform mod tidy -diff
