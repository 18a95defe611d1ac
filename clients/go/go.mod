module github.com/roamcard/roamcard/clients/go

go 1.26.0

require (
	connectrpc.com/connect/v2 v2.0.2
	github.com/boombuler/barcode v1.1.0
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.1
	github.com/google/go-cmp v0.7.0
	github.com/roamcard/roamcard/gen/go v0.0.0
	github.com/roamcard/roamcard/internal/handshake v0.0.0
	github.com/roamcard/roamcard/internal/money v0.0.0
	github.com/roamcard/roamcard/internal/secret v0.0.0
	github.com/roamcard/roamcard/internal/x402 v0.0.0
	golang.org/x/term v0.47.0
	google.golang.org/protobuf v1.36.12
)

require (
	buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.2 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260819154853-08b0e4226688 // indirect
)

replace (
	github.com/roamcard/roamcard/gen/go => ../../gen/go
	github.com/roamcard/roamcard/internal/handshake => ../../internal/handshake
	github.com/roamcard/roamcard/internal/money => ../../internal/money
	github.com/roamcard/roamcard/internal/secret => ../../internal/secret
	github.com/roamcard/roamcard/internal/x402 => ../../internal/x402
)
