package api

import (
	"errors"
	"strings"
	"testing"

	"buf.build/go/protovalidate"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/esim"
)

// TestACountryIsOneThatIsAssigned holds the documented pattern against the list of codes, pair by pair.
func TestACountryIsOneThatIsAssigned(t *testing.T) {
	letters := strings.Split("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "")
	texts := []string{"", "A", "USA", " US", "US\n", "U1", "ÜS"}
	for _, first := range letters {
		for _, second := range letters {
			texts = append(texts, first+second)
		}
	}
	taken := 0
	for _, text := range texts {
		_, assigned := esim.ParseCountry(text)
		err := protovalidate.Validate(&roamcardv1.ListEsimPlansRequest{CountryCode: &text})
		if violation, ok := errors.AsType[*protovalidate.ValidationError](err); ok {
			if field := ViolationFields(violation.ToProto(), nil)[0]; field.Path != "countryCode" || len(field.Message) > maxSaid {
				t.Fatalf("%q: %+v", text, field)
			}
		}
		if (err == nil) != assigned {
			t.Errorf("%q: %v, and it is assigned: %t", text, err, assigned)
		}
		if assigned {
			taken++
		}
	}
	if taken != 4*249 {
		t.Errorf("%d texts are codes", taken)
	}
}
