package fault

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestEveryKindIsComplete(t *testing.T) {
	for _, k := range Catalogue() {
		if k.Title == "" || k.NextAction.Advice() == "" || k.Status < 400 || k.Status > 599 {
			t.Errorf("%s is incomplete: %+v", k.Code, k)
		}
		if k.Status >= 500 && !k.Retryable {
			t.Errorf("%s: a failure of ours must be retryable", k.Code)
		}
		if strings.HasPrefix(string(k.Code), "operator_") && k.NextAction == SignIn {
			t.Errorf("%s: an operator has no session", k.Code)
		}
		if k.SafeToPayAgain && k.Status >= 500 {
			t.Errorf("%s: never invite a second payment after an unknown outcome", k.Code)
		}
	}
}

func TestFaultsSurviveWrapping(t *testing.T) {
	err := fmt.Errorf("buy card: %w", New(FloatUnavailable, "less than 25.00 left").About("ord_1").After(time.Second))
	f, ok := As(err)
	if !ok || f.OrderID != "ord_1" || f.RetryAfter != time.Second || Of(err) != FloatUnavailable {
		t.Fatalf("As = %+v, %v", f, ok)
	}
	if !errors.Is(err, New(FloatUnavailable, "")) || errors.Is(err, New(Internal, "")) {
		t.Error("faults do not compare by code")
	}
}
