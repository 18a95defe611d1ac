package roamcard_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"connectrpc.com/connect/v2"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// TestCallThatAnotherOneNeedsHasHeadersOfItsOwn: what a caller sets for a call is not sent with its sign-in.
func TestCallThatAnotherOneNeedsHasHeadersOfItsOwn(t *testing.T) {
	signer, err := roamcard.NewKeySigner("0x" + strings.Repeat("11", 32))
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	client, err := roamcard.New(roamcard.Config{
		BaseURL: "https://shop.example", Signer: signer,
		HTTP: roundTrip(func(r *http.Request) (*http.Response, error) {
			paths = append(paths, r.URL.Path)
			if got := r.Header.Get("X-Of-The-Caller"); got != "" {
				t.Errorf("%s has it: %q", r.URL.Path, got)
			}
			return nil, errors.New("down")
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, call := connect.NewClientContext(t.Context())
	call.RequestHeader().Set("X-Of-The-Caller", "k")
	_, err = client.Services.Order.CreateOrder(ctx, &roamcardv1.CreateOrderRequest{})
	if err == nil || len(paths) == 0 || !strings.HasSuffix(paths[0], "CreateChallenge") {
		t.Errorf("%v after %v", err, paths)
	}
}
