package rpc

import (
	"errors"
	"strings"
	"testing"

	"buf.build/go/protovalidate"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// TestPlanFilterAcceptsAnyTwoLetters: a code without plans is not an error.
func TestPlanFilterAcceptsAnyTwoLetters(t *testing.T) {
	letters := strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "")
	wrong := []string{"", "A", "USA", " US", "US\n", "U1", "ÜS", "U", "--"}
	asked := func(text string) error {
		return protovalidate.Validate(&roamcardv1.ListEsimPlansRequest{CountryCode: &text})
	}
	for _, text := range wrong {
		violation, ok := errors.AsType[*protovalidate.ValidationError](asked(text))
		if !ok {
			t.Errorf("%q is taken", text)
			continue
		}
		if field := rpcx.ViolationFields(violation.ToProto(), nil)[0]; field.Path != "countryCode" ||
			len(field.Message) > 160 {
			t.Errorf("%q: %+v", text, field)
		}
	}
	known := 0
	for _, first := range letters {
		for _, second := range letters {
			if err := asked(first + second); err != nil {
				t.Errorf("%s: %v", first+second, err)
			}
			if _, ok := esim.ParseCountry(first + second); ok {
				known++
			}
		}
	}
	if _, ok := esim.ParseCountry("xk"); !ok || known != 4*250 {
		t.Errorf("a supplier's plan may be for %d codes, for XK: %t", known, ok)
	}
}
