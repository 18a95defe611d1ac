package cardtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/product/card"
)

func (h Harness) unreadableAnswersAreNotRefusals(t *testing.T) {
	for _, mode := range []Mode{
		Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongAmount, Inexact, WrongCurrency, WrongOwner,
	} {
		t.Run("open/"+string(mode), func(t *testing.T) {
			h.fault(t, Open, mode)
			_, err := h.Issuer.Open(background(t), card.Opening{Ref: NewRef(), Load: cardLoad})
			wantUnknown(t, err)
		})
		t.Run("move/"+string(mode), func(t *testing.T) {
			account := h.active(t)
			h.fault(t, Move, mode)
			move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Load, Amount: 2450}
			_, err := h.Issuer.Move(background(t), move)
			wantUnknown(t, err)
		})
	}
}

func (h Harness) definiteNoIsARefusal(t *testing.T) {
	t.Run("open", func(t *testing.T) {
		h.fault(t, Open, Refused)
		ref := NewRef()
		_, err := h.Issuer.Open(background(t), card.Opening{Ref: ref, Load: cardLoad})
		if no := refusal(err, nil); no == nil || no.Code == "" {
			t.Errorf("Open = %v, want a refusal with its code", err)
		}
		h.wantExecuted(t, ref, 0)
	})
	t.Run("move", func(t *testing.T) {
		account := h.active(t)
		h.fault(t, Move, Refused)
		move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
		_, err := h.Issuer.Move(background(t), move)
		if no := refusal(err, nil); no == nil || no.Code == "" {
			t.Errorf("Move = %v, want a refusal with its code", err)
		}
		h.wantExecuted(t, move.Ref, 0)
		h.wantBalance(t, account.ID, cardLoad)
	})
}

func (h Harness) unfamiliarStateIsPending(t *testing.T) {
	account := h.active(t)
	h.fault(t, Account, UnknownState)
	read, err := h.Issuer.Account(background(t), account.Ref)
	if err != nil || read.State != card.AccountPending {
		t.Errorf("an unfamiliar card state is %s, %v; want pending", read.State, err)
	}
	move := card.Movement{Ref: NewRef(), Account: account.ID, Direction: card.Withdrawal, Amount: 1000}
	if _, err := h.Issuer.Move(background(t), move); err != nil {
		t.Fatalf("withdraw: %v", err)
	}
	h.Settle()
	h.fault(t, Moved, UnknownState)
	moved, err := h.Issuer.Moved(background(t), move.Ref)
	if err != nil || moved.State != card.MovePending {
		t.Errorf("an unfamiliar movement state is %s, %v; want pending", moved.State, err)
	}
}

func (h Harness) failedReadsAreNotErrNoRef(t *testing.T) {
	account := h.active(t)
	for _, mode := range []Mode{ErrorBefore, TimeoutBefore, Malformed, Truncated, Huge, RateLimited, Unauthorized, WrongOwner} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Account, mode)
			_, err := h.Issuer.Account(background(t), account.Ref)
			wantUnknown(t, err)
		})
	}
	t.Run(string(Duplicate), func(t *testing.T) {
		h.fault(t, Account, Duplicate)
		if read, err := h.Issuer.Account(background(t), account.Ref); err != nil || read != account {
			t.Errorf("the same report twice reads as %+v, %v", read, err)
		}
	})
}

func (h Harness) credentialsAreWellFormedAndHidden(t *testing.T) {
	account := h.active(t)
	got, err := h.Vault.Credentials(background(t), account.ID)
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
	again, err := h.Vault.Credentials(background(t), account.ID)
	if err != nil || !again.Number.Equal(got.Number) || !again.SecurityCode.Equal(got.SecurityCode) {
		t.Errorf("the credentials are others the second time: %v", err)
	}
	if strings.Contains(shown(t, got), number) {
		t.Error("the number shows where it is printed")
	}

	for _, mode := range []Mode{
		ErrorBefore, ErrorAfter, TimeoutAfter, Malformed, Truncated, Huge, WrongOwner, RateLimited, Unauthorized,
	} {
		t.Run(string(mode), func(t *testing.T) {
			h.fault(t, Sensitive, mode)
			leaked, err := h.Vault.Credentials(background(t), account.ID)
			if err == nil || leaked != (card.Credentials{}) {
				t.Errorf("Credentials gave half a result with %v", err)
			}
			for err := err; err != nil; err = errors.Unwrap(err) {
				if text := shown(t, err); strings.Contains(text, number) || strings.Contains(text, `"`+code) || strings.Contains(text, code+`"`) {
					t.Error("the error quotes the credentials")
				}
			}
		})
	}
}

// shown is a value in every form in which it could reach a log or an answer.
func shown(t *testing.T, v any) string {
	t.Helper()
	var out bytes.Buffer
	fmt.Fprintf(&out, "%v %+v %#v %s %q\n", v, v, v, v, v)
	encoded, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	out.Write(encoded)
	slog.New(slog.NewTextHandler(&out, nil)).Info("shown", "value", v)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("shown", "value", v)
	return out.String()
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
