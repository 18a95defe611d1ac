// Package awskms signs with a key of AWS KMS, of the kind ECC_SECG_P256K1. It is payment.Signer.
//
// KMS signs a digest of 32 bytes, whatever made it, and answers with r and s in DER, of which s may lie in the upper
// half; v is found by recovering the account. Region, credentials and endpoint are found as the SDK finds them
// everywhere: AWS_REGION, a role or AWS_ACCESS_KEY_ID, and AWS_ENDPOINT_URL_KMS where KMS is somewhere else.
package awskms

import (
	"context"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/roamcard/roamcard/internal/curve"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/x402"
)

// maxAnswer bounds an answer of KMS: a key and its certificate have less.
const maxAnswer = 64 << 10

// secp256k1 is the curve's object identifier.
var secp256k1 = asn1.ObjectIdentifier{1, 3, 132, 0, 10}

// ErrOtherAccount says that the key is not that of the account that was named with it.
var ErrOtherAccount = errors.New("the key in KMS is another account's")

// Signer signs for one account.
type Signer struct {
	client  *kms.Client
	key     string
	address x402.Address
}

// New makes a signer of a key: its id, its ARN, or an alias. With the account it asks nothing yet, so that a program
// can start while KMS does not answer; without, it asks for the public key.
func New(ctx context.Context, key string, account x402.Address, rule outward.Rule) (*Signer, error) {
	var options []func(*config.LoadOptions) error
	if region := regionOf(key); region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of AWS: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no region: name the key by its ARN, or set AWS_REGION")
	}
	s := &Signer{client: kms.NewFromConfig(cfg, ours(rule)), key: key, address: account}
	if account.IsZero() {
		s.address, err = s.account(ctx)
	}
	return s, err
}

// regionOf is the region of a key that is named by its ARN.
func regionOf(key string) string {
	if parts := strings.Split(key, ":"); len(parts) == 6 && parts[0] == "arn" && parts[2] == "kms" {
		return parts[3]
	}
	return ""
}

// Address is the account.
func (s *Signer) Address() x402.Address { return s.address }

// IsLocal says that KMS has the key, which nobody ever sees.
func (s *Signer) IsLocal() bool { return false }

// Sign signs the Keccak-256 hash of a message.
func (s *Signer) Sign(ctx context.Context, message []byte) (x402.Signature, error) {
	digest := x402.Keccak256(message)
	out, err := s.client.Sign(ctx, &kms.SignInput{
		KeyId: &s.key, Message: digest[:], MessageType: types.MessageTypeDigest,
		SigningAlgorithm: types.SigningAlgorithmSpecEcdsaSha256,
	})
	if err != nil {
		return "", fmt.Errorf("ask KMS: %w", err)
	}
	var made struct{ R, S *big.Int }
	if rest, err := asn1.Unmarshal(out.Signature, &made); err != nil || len(rest) > 0 {
		return "", errors.New("KMS answers with what is not a signature in DER")
	}
	return curve.Complete(digest, made.R, made.S, s.address)
}

// account is that of the key.
func (s *Signer) account(ctx context.Context) (x402.Address, error) {
	out, err := s.client.GetPublicKey(ctx, &kms.GetPublicKeyInput{KeyId: &s.key})
	if err != nil {
		return x402.Address{}, fmt.Errorf("ask KMS for the public key: %w", err)
	}
	var info struct {
		Algorithm pkix.AlgorithmIdentifier
		Key       asn1.BitString
	}
	var of asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(out.PublicKey, &info)
	if err == nil {
		_, err = asn1.Unmarshal(info.Algorithm.Parameters.FullBytes, &of)
	}
	if err != nil || len(rest) > 0 || !of.Equal(secp256k1) || out.KeyUsage != types.KeyUsageTypeSignVerify {
		return x402.Address{}, errors.New("the key in KMS is not one of ECC_SECG_P256K1 for signatures")
	}
	return curve.AddressOfPoint(info.Key.RightAlign())
}

// Check asks for the public key, and reports ErrOtherAccount when it is another account's.
func (s *Signer) Check(ctx context.Context) error {
	found, err := s.account(ctx)
	if err == nil && found != s.address {
		err = fmt.Errorf("%w: %s, not %s", ErrOtherAccount, found, s.address)
	}
	return err
}

// ours makes the SDK ask KMS by a client of ours, with the certificates of AWS_CA_BUNDLE, which its own client has.
// What the SDK asks for credentials, at the address of a cloud's machine, is its own.
func ours(rule outward.Rule) func(*kms.Options) {
	return func(o *kms.Options) {
		c := outward.Config{Rule: rule, Most: maxAnswer}
		if own, ok := o.HTTPClient.(interface{ GetTransport() *http.Transport }); ok {
			c.TLS = own.GetTransport().TLSClientConfig
		}
		o.HTTPClient = outward.New(c)
	}
}
