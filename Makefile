# Two targets matter: `make check` before a commit, `make test` for everything.

GO ?= go

.PHONY: check test fmt vet

check: fmt vet
	$(GO) test -short ./...

fmt:
	@out=$$(gofmt -l .); if [ -n "$$out" ]; then echo "not formatted (run gofmt -w .):"; echo "$$out"; exit 1; fi

vet:
	$(GO) vet ./...

test: fmt vet
	$(GO) test -race ./...
