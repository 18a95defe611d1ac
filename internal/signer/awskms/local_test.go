package awskms_test

import (
	"context"
	"os"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/kms"
	"github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/signer/awskms"
	"github.com/roamcard/roamcard/internal/x402"
)

// TestKMSOfOthersKeepsTheRulesOfSigners runs the kit over a KMS that is not ours, at the address in ROAMCARD_KMS_URL:
// tools/kms.sh starts one.
func TestKMSOfOthersKeepsTheRulesOfSigners(t *testing.T) {
	url := os.Getenv("ROAMCARD_KMS_URL")
	if url == "" {
		t.Skip("ROAMCARD_KMS_URL names no KMS; run tools/kms.sh")
	}
	at(t, url)
	signer, err := awskms.New(t.Context(), newKey(t), x402.Address{}, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	if err := signer.Check(t.Context()); err != nil {
		t.Error(err)
	}
	paymenttest.RunSigner(t, paymenttest.SignerHarness{
		Signer: signer, Address: signer.Address(), Secrets: []string{secretKey},
	})
}

// newKey makes a key, as an operator does, and returns its id.
func newKey(t *testing.T) string {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	made, err := kms.NewFromConfig(cfg).CreateKey(t.Context(), &kms.CreateKeyInput{
		KeySpec: types.KeySpecEccSecgP256k1, KeyUsage: types.KeyUsageTypeSignVerify,
	})
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	return *made.KeyMetadata.KeyId
}
