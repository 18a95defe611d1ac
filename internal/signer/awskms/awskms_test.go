package awskms_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth/authtest"
	"github.com/roamcard/roamcard/internal/outward"
	"github.com/roamcard/roamcard/internal/payment/paymenttest"
	"github.com/roamcard/roamcard/internal/signer/awskms"
	"github.com/roamcard/roamcard/internal/signer/awskms/awskmsfake"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	keyID     = "1234abcd-12ab-34cd-56ef-1234567890ab"
	secretKey = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEY"
)

// at lets the SDK find a KMS and credentials as it finds them anywhere.
func at(t *testing.T, url string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_KMS": url, "AWS_REGION": "eu-central-1", "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
		"AWS_SECRET_ACCESS_KEY": secretKey, "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
}

// serve plays a KMS until the test ends.
func serve(t *testing.T) *awskmsfake.KMS {
	t.Helper()
	fake := awskmsfake.New()
	server := httptest.NewServer(fake)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	at(t, server.URL)
	return fake
}

func TestKMSKeepsTheRulesOfSigners(t *testing.T) {
	wallet, fake := authtest.NewWallet(t, "kms"), serve(t)
	fake.Put(keyID, wallet.Key())
	signer, err := awskms.New(t.Context(), keyID, x402.Address{}, outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	faults := map[paymenttest.SignerFault]awskmsfake.Fault{
		paymenttest.SignerWorks: awskmsfake.None, paymenttest.SignerHangs: awskmsfake.Hang,
		paymenttest.SignerFails: awskmsfake.Fail, paymenttest.SignerFloods: awskmsfake.Flood,
		paymenttest.SignerLies: awskmsfake.Lie, paymenttest.SignerGarbles: awskmsfake.Garble,
		paymenttest.SignerReplays: awskmsfake.Replay,
	}
	paymenttest.RunSigner(t, paymenttest.SignerHarness{
		Signer: signer, Address: wallet.Address(), Secrets: []string{secretKey},
		Misbehave: func(_ *testing.T, f paymenttest.SignerFault) { fake.Misbehave(faults[f]) },
	})
}

// TestProgramStartsWhileKMSIsDown: with the account it asks nothing, without it has to.
func TestProgramStartsWhileKMSIsDown(t *testing.T) {
	wallet, fake := authtest.NewWallet(t, "kms"), serve(t)
	fake.Put(keyID, wallet.Key())
	fake.Misbehave(awskmsfake.Hang)
	signer, err := awskms.New(t.Context(), keyID, wallet.Address(), outward.Rule{})
	if err != nil || signer.Address() != wallet.Address() {
		t.Fatalf("with the account: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := awskms.New(ctx, keyID, x402.Address{}, outward.Rule{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without the account: %v", err)
	}
	fake.Misbehave(awskmsfake.None)
	if err := signer.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
	other, err := awskms.New(t.Context(), keyID, authtest.NewWallet(t, "other").Address(), outward.Rule{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Check(t.Context()); !errors.Is(err, awskms.ErrOtherAccount) {
		t.Errorf("check of another account: %v", err)
	}
}

func TestKMSKeyThatIsNotThereIsToldByItsKind(t *testing.T) {
	serve(t)
	if _, err := awskms.New(t.Context(), keyID, x402.Address{}, outward.Rule{}); err == nil ||
		!strings.Contains(err.Error(), "NotFoundException") {
		t.Errorf("no such key: %v", err)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err := awskms.New(t.Context(), keyID, x402.Address{1}, outward.Rule{}); err == nil ||
		!strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("no region: %v", err)
	}
	arn := "arn:aws:kms:eu-central-1:111122223333:key/" + keyID
	if _, err := awskms.New(t.Context(), arn, x402.Address{1}, outward.Rule{}); err != nil {
		t.Errorf("the region of an ARN: %v", err)
	}
}
