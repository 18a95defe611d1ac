package cardtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/product/card"
)

func (h Harness) credentialsAreWellFormedAndHidden(t *testing.T) {
	account := h.active(t)
	got, err := h.Vault.Credentials(fulfilmenttest.Context(t), account.ID)
	// A code that is an answer's status, too, would be found in errors that quote the status alone.
	for range 20 {
		if code := got.SecurityCode.Reveal(); code < "400" || code >= "600" {
			break
		}
		account = h.active(t)
		got, err = h.Vault.Credentials(fulfilmenttest.Context(t), account.ID)
	}
	if err != nil {
		t.Fatalf("credentials: %v", err)
	}
	number, code := got.Number.Reveal(), got.SecurityCode.Reveal()
	if !luhn(number) {
		t.Error("the number fails the Luhn check")
	}
	if !strings.HasSuffix(number, account.Last4) {
		t.Errorf("the number does not end in %s", account.Last4)
	}
	if len(code) < 3 || len(code) > 4 {
		t.Errorf("the security code has %d digits", len(code))
	}
	if got.ExpiryMonth < 1 || got.ExpiryMonth > 12 || got.ExpiryYear < 2000 {
		t.Errorf("the expiry is %d/%d", got.ExpiryMonth, got.ExpiryYear)
	}
	again, err := h.Vault.Credentials(fulfilmenttest.Context(t), account.ID)
	if err != nil || !again.Number.Equal(got.Number) || !again.SecurityCode.Equal(got.SecurityCode) {
		t.Errorf("the credentials are others the second time: %v", err)
	}
	if strings.Contains(fulfilmenttest.Shown(t, got), number) {
		t.Error("the number shows where it is printed")
	}

	for _, mode := range []fulfilmenttest.Mode{
		fulfilmenttest.ErrorBefore, fulfilmenttest.ErrorAfter, fulfilmenttest.TimeoutAfter,
		fulfilmenttest.Malformed, fulfilmenttest.Truncated, fulfilmenttest.Huge, fulfilmenttest.WrongOwner,
		fulfilmenttest.RateLimited, fulfilmenttest.Unauthorized,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.Inject(t, Sensitive, mode)
			leaked, err := h.Vault.Credentials(fulfilmenttest.Context(t), account.ID)
			if err == nil || leaked != (card.Credentials{}) {
				t.Errorf("Credentials gave half a result with %v", err)
			}
			for err := err; err != nil; err = errors.Unwrap(err) {
				text := fulfilmenttest.Shown(t, err)
				if strings.Contains(text, number) || strings.Contains(text, `"`+code) ||
					strings.Contains(text, code+`"`) {
					t.Error("the error quotes the credentials")
				}
			}
		})
	}
}

func (h Harness) credentialsAreShownOnAPageOnly(t *testing.T) {
	account := h.active(t)
	got, err := h.Vault.Credentials(fulfilmenttest.Context(t), account.ID)
	if !errors.Is(err, card.ErrEmbedOnly) || got != (card.Credentials{}) {
		t.Errorf("credentials: %v, want that they are shown on a page only", err)
	}
}

// luhn is the check that card numbers pass, on 12 to 19 digits.
func luhn(number string) bool {
	if len(number) < 12 || len(number) > 19 || strings.Trim(number, "0123456789") != "" {
		return false
	}
	sum := 0
	for i := range len(number) {
		digit := int(number[len(number)-1-i] - '0')
		if i%2 == 1 {
			digit = digit*2/10 + digit*2%10
		}
		sum += digit
	}
	return sum%10 == 0
}
