package webhook_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/webhook"
)

// An adapter's Verify checks the signature of its vendor. While a secret is replaced, both are valid.
func ExampleCheckStandard() {
	key := []byte("the key of the new secret")
	former := secret.New(base64.StdEncoding.EncodeToString([]byte("the key of the former one")))
	current := secret.New("whsec_" + base64.StdEncoding.EncodeToString(key))
	now, body := time.Now(), []byte(`{"type":"card.live"}`)
	header := webhook.SignStandard(key, "evt_1", body, now)

	fmt.Println(webhook.CheckStandard(header, body, []secret.Text{former, current}, now))
	_, err := webhook.CheckStandard(header, []byte(`{}`), []secret.Text{former, current}, now)
	fmt.Println(errors.Is(err, webhook.ErrForged))
	// Output:
	// evt_1 <nil>
	// true
}
