module github.com/roamcard/roamcard/internal/handshake

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/roamcard/roamcard/internal/x402 v0.0.0
)

require (
	github.com/roamcard/roamcard/internal/money v0.0.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace (
	github.com/roamcard/roamcard/internal/money => ../../internal/money
	github.com/roamcard/roamcard/internal/x402 => ../../internal/x402
)
