# make check   before a commit: format, vet, lint, the fast tests
# make test    everything, with the race detector; what CI runs
# make cover   how much of what decides is covered by the tests beside it
# make mutate  rules broken on purpose, which tests must notice
# make soak    ten thousand lives of the simulation, and the black-box tests again and again

GO ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: check test cover mutate soak fmt vet lint

check: fmt vet lint
	$(GO) test -short ./...

test: fmt vet cover
	$(GO) test -run Simulat .
	$(GO) test -race -timeout 14m ./...

cover:
	$(GO) test -run Covered -coverage -v .

mutate:
	$(GO) test -run Noticed -mutate -timeout 30m -v .

soak: vet
	$(GO) test -run Simulat -seeds 10000 -timeout 60m .
	$(GO) test -race -run Kill -count 5 -timeout 60m .

fmt:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted (run gofmt -w .):"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet ./...

lint:
	$(GO) run $(STATICCHECK) ./...
