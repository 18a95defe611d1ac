package roamcardtest_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/clients/go/roamcard/roamcardtest"
)

func wallet(t *testing.T) *roamcard.KeySigner {
	t.Helper()
	signer, err := roamcard.NewKeySigner(walletKey)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

func TestLostAnswerIsNotPaidTwice(t *testing.T) {
	service := roamcardtest.New(roamcardtest.Config{})
	service.Faults.LoseAnswer(roamcardtest.When{On: roamcardtest.Paid})
	client, err := roamcard.New(roamcard.Config{
		BaseURL: service.URL(), HTTP: service.Transport(), Signer: wallet(t),
		Policy: roamcard.Policy{Mode: roamcard.Autonomous, MaxPerPayment: 2500, MaxPerDay: 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	esim, err := client.ESIM.Purchase(t.Context(), "", "tokyo")
	if err != nil {
		t.Fatal(err)
	}
	if !esim.Replayed || len(service.Token.Transfers()) != 1 {
		t.Errorf("%v, %d transfers", esim.Order, len(service.Token.Transfers()))
	}
}

// TestREADMEShowsATestThatRuns checks that the README shows nothing but what is above.
func TestREADMEShowsATestThatRuns(t *testing.T) {
	readme, err1 := os.ReadFile("../../README.md")
	source, err2 := os.ReadFile("example_test.go")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	shown := regexp.MustCompile("(?s)```golang\n(.*?)```").FindSubmatch(readme)
	if shown == nil || !strings.Contains(string(source), string(shown[1])) {
		t.Error("the README shows another test")
	}
}
