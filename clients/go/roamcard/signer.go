package roamcard

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/signer/core/apitypes"

	"github.com/roamcard/roamcard/internal/x402"
)

// TypedData is an EIP-712 document in the form of eth_signTypedData_v4.
type TypedData = apitypes.TypedData

// Signer is an externally owned account that signs. Both methods return 65 bytes, r, s and v as 27 or 28.
type Signer interface {
	// Address is the account, in any spelling.
	Address() string
	// SignTypedData signs an EIP-712 document.
	SignTypedData(ctx context.Context, doc TypedData) ([]byte, error)
	// SignMessage signs a text (EIP-191, personal_sign).
	SignMessage(ctx context.Context, text string) ([]byte, error)
}

// KeySigner signs with a private key at hand. It is for development and for services that keep their keys
// in memory; a person's wallet belongs behind a CommandSigner.
type KeySigner struct {
	key     *ecdsa.PrivateKey
	address string
}

// NewKeySigner reads a private key: 32 bytes in hex, with or without 0x.
func NewKeySigner(key string) (*KeySigner, error) {
	k, err := crypto.HexToECDSA(strings.TrimPrefix(strings.TrimSpace(key), "0x"))
	if err != nil {
		// The library's error may quote the key.
		return nil, errors.New("the key is not 32 bytes in hex")
	}
	return &KeySigner{key: k, address: crypto.PubkeyToAddress(k.PublicKey).Hex()}, nil
}

// Address implements Signer.
func (s *KeySigner) Address() string { return s.address }

// SignTypedData implements Signer.
func (s *KeySigner) SignTypedData(_ context.Context, doc TypedData) ([]byte, error) {
	digest, _, err := apitypes.TypedDataAndHash(doc)
	if err != nil {
		return nil, fmt.Errorf("hash the typed data: %w", err)
	}
	return s.sign(digest)
}

// SignMessage implements Signer.
func (s *KeySigner) SignMessage(_ context.Context, text string) ([]byte, error) {
	return s.sign(accounts.TextHash([]byte(text)))
}

func (s *KeySigner) sign(digest []byte) ([]byte, error) {
	sig, err := crypto.Sign(digest, s.key)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	const recoveryBase = 27 // what wallets add to v, since Bitcoin
	sig[64] += recoveryBase
	return sig, nil
}

// CommandSigner hands what is to be signed to a program of the wallet's owner. The program gets one JSON
// document on its standard input,
//
//	{"address": "0x…", "method": "eth_signTypedData_v4", "typedData": {…}}
//	{"address": "0x…", "method": "personal_sign", "message": "…"}
//
// and writes the signature to its standard output: 0x and 130 hex digits. Any other exit code than 0 refuses.
type CommandSigner struct {
	// Account is the address that the program signs for.
	Account string
	// Command is the program and its arguments. It is not run through a shell.
	Command []string
}

// Address implements Signer.
func (s CommandSigner) Address() string { return s.Account }

// SignTypedData implements Signer.
func (s CommandSigner) SignTypedData(ctx context.Context, doc TypedData) ([]byte, error) {
	return s.run(ctx, map[string]any{"method": "eth_signTypedData_v4", "address": s.Account, "typedData": doc})
}

// SignMessage implements Signer.
func (s CommandSigner) SignMessage(ctx context.Context, text string) ([]byte, error) {
	return s.run(ctx, map[string]any{"method": "personal_sign", "address": s.Account, "message": text})
}

func (s CommandSigner) run(ctx context.Context, request map[string]any) ([]byte, error) {
	if len(s.Command) == 0 {
		return nil, errors.New("the signer's command is empty")
	}
	in, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode what is to be signed: %w", err)
	}
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run the signer %s: %w: %s", s.Command[0], err, firstLine(complaint.String()))
	}
	sig, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(out)), "0x"))
	if err != nil || len(sig) != 65 {
		return nil, fmt.Errorf("the signer %s did not answer with 0x and 130 hex digits", s.Command[0])
	}
	return sig, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// transferDocument is the EIP-3009 authorization as a wallet shows it.
func transferDocument(d x402.Domain, a x402.Authorization) TypedData {
	field := func(name, kind string) apitypes.Type { return apitypes.Type{Name: name, Type: kind} }
	return TypedData{
		Types: apitypes.Types{
			"EIP712Domain": {field("name", "string"), field("version", "string"), field("chainId", "uint256"), field("verifyingContract", "address")},
			"TransferWithAuthorization": {
				field("from", "address"), field("to", "address"), field("value", "uint256"),
				field("validAfter", "uint256"), field("validBefore", "uint256"), field("nonce", "bytes32"),
			},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: apitypes.TypedDataDomain{
			Name: d.Name, Version: d.Version, ChainId: hexOrDecimal(d.ChainID), VerifyingContract: d.Contract.String(),
		},
		Message: apitypes.TypedDataMessage{
			"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(),
			"validAfter": fmt.Sprint(a.ValidAfter), "validBefore": fmt.Sprint(a.ValidBefore), "nonce": a.Nonce.String(),
		},
	}
}
