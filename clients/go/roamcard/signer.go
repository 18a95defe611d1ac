package roamcard

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/roamcard/roamcard/clients/go/internal/curve"
	"github.com/roamcard/roamcard/internal/handshake"
	"github.com/roamcard/roamcard/internal/secret/custody"
	"github.com/roamcard/roamcard/internal/x402"
)

// Signer is an account that signs. Both methods return 65 bytes, r, s and v as 27 or 28, unless it is a SmartAccount.
type Signer interface {
	// Address is the account, in any spelling.
	Address() string
	// SignTypedData signs an EIP-712 document.
	SignTypedData(ctx context.Context, doc TypedData) ([]byte, error)
	// SignMessage signs a text (EIP-191, personal_sign).
	SignMessage(ctx context.Context, text string) ([]byte, error)
}

// ErrSigner says that the signer refused or failed. Nothing was signed, and nothing paid.
var ErrSigner = errors.New("the signer did not sign")

// KeySigner signs with a private key at hand. It is for development and for services that keep their keys
// in memory; a person's wallet belongs behind a CommandSigner.
type KeySigner struct {
	key curve.Key
}

// NewKeySigner reads a private key: 32 bytes in hex, with or without 0x.
func NewKeySigner(key string) (*KeySigner, error) {
	k, err := curve.ParseKey(strings.TrimPrefix(strings.TrimSpace(key), "0x"))
	if err != nil {
		return nil, err
	}
	return &KeySigner{k}, nil
}

// Address implements Signer.
func (s *KeySigner) Address() string { return s.key.Address().String() }

// SignTypedData implements Signer. The document's members are plain: no structs, no lists, no signed numbers.
func (s *KeySigner) SignTypedData(_ context.Context, doc TypedData) ([]byte, error) {
	digest, err := doc.digest()
	if err != nil {
		return nil, fmt.Errorf("hash the typed data: %w", err)
	}
	signature := s.key.Sign(digest)
	return []byte(signature), nil
}

// SignMessage implements Signer.
func (s *KeySigner) SignMessage(_ context.Context, text string) ([]byte, error) {
	signature := s.key.Sign(handshake.PersonalDigest(text))
	return []byte(signature), nil
}

// CommandSigner hands what is to be signed to a program of the wallet's owner. The program gets one JSON
// document on its standard input,
//
//	{"address": "0x…", "method": "eth_signTypedData_v4", "typedData": {…}}
//	{"address": "0x…", "method": "personal_sign", "message": "…"}
//
// and writes the signature to its standard output: 0x and 130 hex digits. Any other exit code than 0 refuses. Of this
// program's environment it gets what programs need, such as PATH, HOME and the language, and no key or token.
type CommandSigner struct {
	// Account is the address that the program signs for.
	Account string
	// Command is the program and its arguments. It is not run through a shell.
	Command []string
	// Environment names the variables that the program gets in addition, as in VAULT_ADDR.
	Environment []string
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
	cmd := custody.Command(ctx, s.Environment, s.Command[0], s.Command[1:]...)
	cmd.Stdin = bytes.NewReader(in)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run the signer %s: %w: %s", s.Command[0], err, lastLine(complaint.String()))
	}
	sig, err := hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(out)), "0x"))
	if err != nil || len(sig) != 65 {
		return nil, fmt.Errorf("the signer %s did not answer with 0x and 130 hex digits", s.Command[0])
	}
	return sig, nil
}

// lastLine is where programs say what went wrong, after how it came to that.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndex(text, "\n")+1:])
}

// transferDocument is the EIP-3009 authorization as a wallet shows it.
func transferDocument(d x402.Domain, a x402.Authorization) TypedData {
	return TypedData{
		Types: map[string][]TypedDataMember{
			domainType: {{"name", "string"}, {"version", "string"}, {"chainId", "uint256"}, {"verifyingContract", "address"}},
			"TransferWithAuthorization": {
				{"from", "address"}, {"to", "address"}, {"value", "uint256"},
				{"validAfter", "uint256"}, {"validBefore", "uint256"}, {"nonce", "bytes32"},
			},
		},
		PrimaryType: "TransferWithAuthorization",
		Domain: TypedDataDomain{
			Name: d.Name, Version: d.Version, ChainID: ChainID(d.ChainID), VerifyingContract: d.Contract.String(),
		},
		Message: map[string]any{
			"from": a.From.String(), "to": a.To.String(), "value": a.Value.String(),
			"validAfter": fmt.Sprint(a.ValidAfter), "validBefore": fmt.Sprint(a.ValidBefore), "nonce": a.Nonce.String(),
		},
	}
}
