package esimaccess

import (
	"strings"
	"testing"

	"github.com/roamcard/roamcard/internal/fulfilment/fulfilmenttest"
	"github.com/roamcard/roamcard/internal/money"
	"github.com/roamcard/roamcard/internal/secret"
)

// The vendor documents one signature with all that it is made of.
func TestSignatureIsTheDocumentedOne(t *testing.T) {
	got := signature(secret.New("1111"), "1628670421", "4ce9d9cdac9e4e17b3a2c66c358c1ce2", secret.New("11111"),
		[]byte(`{"imsi":"326543826"}`))
	if want := "7eb765e27df5373dea2dbc8c41a7d9557743e46c8054750f3d851b3fd01d0835"; got != want {
		t.Errorf("signature = %s, want %s", got, want)
	}
}

func TestTransactionsFitAndReadBack(t *testing.T) {
	ref := fulfilmenttest.NewRef()
	for _, cost := range []money.USDC{100, 750_000, maxUnits * microsPerUnit} {
		made := transaction{ref: ref, cost: cost}
		got, ok := parseTransaction(made.String())
		if !ok || got != made || len(made.String()) > 50 {
			t.Errorf("%s reads back as %+v, %v", made, got, ok)
		}
	}
	for _, name := range []string{
		"", "7500", ref.String(), ref.String() + "-", ref.String() + "--1", ref.String() + "-1.5", ref.String() + "-01",
		ref.String() + "-1 ", strings.ToUpper(ref.String()) + "-1x", "urn:uuid:" + ref.String() + "-1",
		ref.String() + "-1000000001", ref.String() + "-99999999999999999999", "{" + ref.String()[:35] + "-1",
	} {
		if got, ok := parseTransaction(name); ok {
			t.Errorf("%q reads as %+v", name, got)
		}
	}
}
