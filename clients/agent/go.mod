module github.com/roamcard/roamcard/clients/agent

go 1.26.0

require (
	github.com/ethereum/go-ethereum v1.17.10
	github.com/google/go-cmp v0.7.0
	github.com/google/jsonschema-go v0.4.3
	github.com/google/uuid v1.6.0
	github.com/modelcontextprotocol/go-sdk v1.8.0
	github.com/pelletier/go-toml/v2 v2.4.3
	github.com/roamcard/roamcard/clients/go v0.0.0
	github.com/roamcard/roamcard/gen/go v0.0.0
	github.com/roamcard/roamcard/internal/keystore v0.0.0
	github.com/roamcard/roamcard/internal/money v0.0.0
	github.com/roamcard/roamcard/internal/secret v0.0.0
	github.com/roamcard/roamcard/internal/x402 v0.0.0
	github.com/zalando/go-keyring v0.2.8
	google.golang.org/protobuf v1.36.12
)

require (
	buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go v1.36.12-20260825204119-511051f7f437.2 // indirect
	connectrpc.com/connect/v2 v2.0.2 // indirect
	github.com/ProjectZKM/Ziren/crates/go-runtime/zkvm_runtime v0.0.0-20251001021608-1fe7b43fc4d6 // indirect
	github.com/bits-and-blooms/bitset v1.20.0 // indirect
	github.com/boombuler/barcode v1.1.0 // indirect
	github.com/consensys/gnark-crypto v0.18.1 // indirect
	github.com/crate-crypto/go-eth-kzg v1.5.0 // indirect
	github.com/danieljoos/wincred v1.2.3 // indirect
	github.com/deckarep/golang-set/v2 v2.6.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.1 // indirect
	github.com/ethereum/c-kzg-4844/v2 v2.1.8 // indirect
	github.com/fsnotify/fsnotify v1.6.0 // indirect
	github.com/godbus/dbus/v5 v5.2.2 // indirect
	github.com/holiman/uint256 v1.3.2 // indirect
	github.com/roamcard/roamcard/internal/handshake v0.0.0 // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/supranational/blst v0.3.16 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/oauth2 v0.35.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/term v0.47.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260819154853-08b0e4226688 // indirect
)

replace (
	github.com/roamcard/roamcard/clients/go => ../../clients/go
	github.com/roamcard/roamcard/gen/go => ../../gen/go
	github.com/roamcard/roamcard/internal/handshake => ../../internal/handshake
	github.com/roamcard/roamcard/internal/keystore => ../../internal/keystore
	github.com/roamcard/roamcard/internal/money => ../../internal/money
	github.com/roamcard/roamcard/internal/secret => ../../internal/secret
	github.com/roamcard/roamcard/internal/x402 => ../../internal/x402
)
