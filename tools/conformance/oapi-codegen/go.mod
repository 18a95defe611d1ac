module github.com/roamcard/roamcard/tools/conformance/oapi-codegen

go 1.26.0

require (
	github.com/ethereum/go-ethereum v1.17.10
	github.com/oapi-codegen/runtime v1.8.0
	github.com/roamcard/roamcard v0.0.0
	github.com/roamcard/roamcard/internal/money v0.0.0
	github.com/roamcard/roamcard/internal/x402 v0.0.0
)

require (
	github.com/ProjectZKM/Ziren/crates/go-runtime/zkvm_runtime v0.0.0-20251001021608-1fe7b43fc4d6 // indirect
	github.com/apapsch/go-jsonmerge/v2 v2.0.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.1 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/holiman/uint256 v1.3.2 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
)

replace github.com/roamcard/roamcard => ../../..

replace github.com/roamcard/roamcard/clients/go => ../../../clients/go

replace github.com/roamcard/roamcard/gen/go => ../../../gen/go

replace github.com/roamcard/roamcard/internal/handshake => ../../../internal/handshake

replace github.com/roamcard/roamcard/internal/money => ../../../internal/money

replace github.com/roamcard/roamcard/internal/secret => ../../../internal/secret

replace github.com/roamcard/roamcard/internal/x402 => ../../../internal/x402
