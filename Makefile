# `make help` lists the targets. Needs Go 1.26, gcc and git.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: build test race lint bench demo benchlab faultbench hangs hangs-peers launchers mpibench test-k8s truth soak rocebench accept-gpu fuzz cover dist test-dist clean help

# A clone without tags is a development version. VERSION and COMMIT may be given: the
# same sources, Go, gcc and these two give the same bytes in any folder.
VERSION ?= $(shell git describe --tags --match 'v[0-9]*' 2>/dev/null || echo dev)
COMMIT ?= $(shell git describe --always --abbrev=12 --exclude '*' --dirty 2>/dev/null || echo unknown)

# -z lazy, because go-nvml resolves NVIDIA's symbols at the first call. Its header
# marks old calls as deprecated.
export CGO_CFLAGS = -O2 -g -Wno-deprecated-declarations
# urfave_cli_no_docs: no man pages at run time, and no Markdown in the binary.
GOBUILD = go build -trimpath -buildvcs=false -tags urfave_cli_no_docs
LDFLAGS = -s -w -buildid= -X main.version=$(VERSION) -X main.commit=$(COMMIT)

# rendezvous takes longest, and begins first. The tests of lab, model, scene and tcpstore run other binaries, which the detector
# does not see. The readers of logs and machines start no goroutine.
RACE ?= launch/rendezvous $(shell go list ./... | grep -v -e /cmd/launch -e /lab/ -e /model -e archtest \
	-e diagnose/logs -e diagnose/flight -e diagnose/scene -e internal/tcpstore -e fabric/machine -e preflight/bandwidth)
FUZZTIME ?= 10s
SOAK ?= 15
HANGS ?= full
MPIBENCH ?= full
# The oldest C library that packages with cgo must run with; others get the static binary.
GLIBC ?= 2.34
TRUTH_DRAWS ?= 500
TRUTH_OUT ?= $(CURDIR)/bin/truth
K8S_PODS ?= 3 6
K8S_ROUNDS ?= 1
K8S_RUN ?= .

build: ## bin/launch, and bin/launch-static without cgo
	CGO_ENABLED=1 $(GOBUILD) -ldflags '$(LDFLAGS) -extldflags=-Wl,-z,lazy' -o bin/launch ./cmd/launch
	CGO_ENABLED=0 $(GOBUILD) -ldflags '$(LDFLAGS)' -o bin/launch-static ./cmd/launch

test: build ## install the programs for the tests, then vet and test everything
	@tools/test.sh

race: ## race detector on the packages, without tests that mostly wait for processes
	@# Without it each process, also a child, waits a second before it ends.
	GORACE=atexit_sleep_ms=0 go test -race -short $(RACE)

lint: ## gofmt, go vet with and without cgo, staticcheck, govulncheck
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
		[[ -z $$unformatted ]] || { echo "gofmt would change:" $$unformatted; exit 1; }
	CGO_ENABLED=1 go vet ./...
	CGO_ENABLED=0 go vet ./...
	go vet -C tools ./...
	go vet -C tools/dist ./...
	go tool -modfile=tools/go.mod staticcheck ./...
	@tools/vuln.sh
	@for script in .ci/run tools/*.sh examples/*.sh; do bash -n "$$script"; done

bench: build ## compare launch true with true; start and check many nodes, next to torch's start
	LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -run '^$$' -bench 'Overhead|First|Lost' -benchtime 1x -timeout 120m ./lab/e2e
	go test -run '^$$' -bench Rendezvous -benchtime 1x -timeout 30m ./rendezvous
	go test -run '^$$' -bench Preflight -benchtime 1x -timeout 30m ./cmd/internal/start

benchlab: build ## launch bench with a slow link, node or direction, and without; compare with iperf3
	@tools/apt.sh iperf3 || echo "the comparison with iperf3 is skipped"
	BENCHLAB=50 LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -v -timeout 60m ./lab/benchlab
	LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -run '^$$' -bench Streams -benchtime 1x -timeout 30m ./lab/benchlab
	RATES=40 go test -count=1 -v -run TheRule ./preflight/bandwidth/bandwidth

faultbench: build ## inject each fault on 2, 3 and 5 hosts; 200 healthy starts; compare with torchrun
	LAUNCH_FAULTBENCH=full LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -timeout 120m ./lab/faultbench
	LAUNCH_TEST_FULL=1 LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -run 'NoPlainTorchrun|PlainTorchrunsJob' ./lab/e2e

hangs: build ## make all kinds of hung, slow and healthy starts; compare what launch doctor says
	@tools/apt.sh iproute2 nftables python3-torch openmpi-bin || echo "the cases that need these are skipped"
	@tools/torch.sh || echo "the cases that need a current torch are skipped"
	LAUNCH_HANGS=$(HANGS) LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -v -timeout 120m ./lab/hangs

hangs-peers: build ## what torch, py-spy, torch's debug server, torchfrtrace and NVRx say of some hangs
	@tools/apt.sh iproute2 nftables curl || echo "the cases that need these are skipped"
	@tools/torch.sh && tools/peers.sh
	LAUNCH_HANGS_PEERS=$(CURDIR)/bin/peers LAUNCH_TEST_BIN=$(CURDIR)/bin/launch \
		go test -count=1 -v -timeout 120m -run Peers ./lab/hangs

launchers: build ## each launcher of docs/guide/launchers.md that pip can install, for real on two hosts
	@tools/apt.sh iproute2 || echo "the cases that need it are skipped"
	@tools/torch.sh && tools/launchers.sh || echo "the cases that need these are skipped"
	LAUNCH_TEST_FULL=1 LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -v -timeout 60m ./lab/launchers

test-k8s: build ## a real Kubernetes: starts, losses, mistakes, DNS, with launch and without (K8S_PODS="3 6 12")
	@tools/torch.sh
	@tools/apt.sh iproute2 openssl
	JOBS=2 lab/k8s/build.sh
	LAUNCH_K8S=1 LAUNCH_K8S_PODS="$(K8S_PODS)" LAUNCH_K8S_ROUNDS=$(K8S_ROUNDS) \
		go test -count=1 -v -timeout 240m -run '$(K8S_RUN)' ./lab/k8s

mpibench: build ## a real mpirun over ssh: faults on one of three hosts, healthy starts, with launch and without
	@tools/apt.sh iproute2 nftables openmpi-bin openssh-client || echo "the cases that need these are skipped"
	@tools/libs.sh openmpi mpich || echo "the cases that need these are skipped"
	@tools/unpack.sh sshd 1 openssh-server libwrap0
	LAUNCH_TEST_FULL=1 LAUNCH_MPIBENCH=$(MPIBENCH) LAUNCH_TEST_BIN=$(CURDIR)/bin/launch \
		go test -count=1 -v -timeout 120m ./lab/mpi

truth: build ## TRUTH_DRAWS draws (500) of an environment: the job without launch, and with it
	@tools/apt.sh iproute2 nftables || echo "the cases that need these are skipped"
	@tools/torch.sh || echo "no draw has a real torch"
	TRUTH_DRAWS=$(TRUTH_DRAWS) TRUTH_OUT=$(TRUTH_OUT) LAUNCH_TEST_BIN=$(CURDIR)/bin/launch \
		go test -count=1 -v -timeout 240m -parallel 8 ./lab/truth

soak: build ## run a job for SOAK minutes (15), 40 jobs at once, 100 starts and 80 rounds of random faults
	LAUNCH_SOAK=$(SOAK) LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -v -timeout 120m -run Soak ./lab/e2e
	LAUNCH_TEST_ROUNDS=40 LAUNCH_TEST_BIN=$(CURDIR)/bin/launch go test -count=1 -timeout 120m -run WhateverFails ./lab/e2e

rocebench: ## compare verbs with perftest on two virtual machines with Soft-RoCE
	@tools/roce.sh
	LAUNCH_ROCEBENCH=1 go test -run '^$$' -bench Perftest -benchtime 1x -timeout 30m ./lab/roce

demo: build ## train on two nodes of two processes, on this machine
	@examples/demo.sh

accept-gpu: build ## with an NVIDIA GPU: compare with nvidia-smi, and run NCCL under the plan
	@tools/accept-gpu.sh

fuzz: ## fuzz each parser for FUZZTIME (10s)
	@grep -rHo --include='*_test.go' '^func Fuzz[[:alnum:]]*' . | while IFS=: read -r file func; do \
		echo "$$file $${func#func }"; \
		go test -run '^$$' -fuzz "^$${func#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")"; done

cover: ## statement coverage of the packages, without the end-to-end tests
	@mkdir -p bin
	@# Failures do not count: under coverage a test binary warns on its children's stderr.
	@{ go test -coverprofile=bin/cover.out $$(go list ./... | grep -v /lab/) || true; } | grep coverage:
	go tool cover -func=bin/cover.out | tail -n 1

dist: ## archives, wheels, deb, rpm and an image for amd64 and arm64, checksums and components, in dist/
	@rm -rf dist
	@for arch in amd64:x86_64 arm64:aarch64; do \
		export GOARCH=$${arch%:*} CC=$${arch#*:}-linux-gnu-gcc; \
		CGO_ENABLED=0 $(GOBUILD) -ldflags '$(LDFLAGS)' -o dist/bin/$$GOARCH/launch-static ./cmd/launch; \
		[[ -z "$(STATIC)" ]] && command -v $$CC >/dev/null || { echo "$$GOARCH: without cgo"; continue; }; \
		CGO_ENABLED=1 $(GOBUILD) -ldflags '$(LDFLAGS) -extldflags=-Wl,-z,lazy' -o dist/bin/$$GOARCH/launch ./cmd/launch; \
	done
	go run -C tools/dist . -root $(CURDIR) -in $(CURDIR)/dist/bin -out $(CURDIR)/dist -glibc $(GLIBC) \
		-version $(VERSION) -time $$(git log -1 --format=%ct 2>/dev/null || echo 0)

test-dist: dist ## install and run each package of make dist, without a network
	@tools/apt.sh rpm qemu-user-static fish zsh || echo "the tests that need these are skipped"
	LAUNCH_DIST=$(CURDIR)/dist LAUNCH_DIST_VERSION=$(VERSION) go test -C tools/dist -count=1 .

clean: ## remove what was built, except .venv
	rm -rf bin dist

help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12
