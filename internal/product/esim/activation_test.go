package esim

import (
	"errors"
	"testing"
)

// TestActivationCodesOfTheStandard makes every code that SGP.22, section 4.1, lets a supplier write of some parts.
func TestActivationCodesOfTheStandard(t *testing.T) {
	const iccid, oid = "8943108170000775671", "1.3.6.1.4.1.31746"
	tails := map[string]string{ // what follows the matching id, and the OID in it
		"": "", "$": "", "$$": "", "$$0": "", "$$0$": "", "$$$": "", "$" + oid: oid, "$" + oid + "$": oid,
		"$" + oid + "$0": oid, "$" + oid + "$$": oid, "$" + oid + "$$665A1433D67C1A2C5DB8B52C967F10A057BA5CB2": oid,
		"$$$665A1433D67C1A2C5DB8B52C967F10A057BA5CB2$1": "", " ": "", "$ " + oid + " ": oid,
	}
	numbers := []string{iccid, iccid + "F", iccid + "f", " " + iccid}
	n := 0
	for _, prefix := range []string{"LPA:", "lpa:", "", " LPA:"} {
		for _, host := range []string{"smdp.gsma.com", "SMDP.GSMA.COM", "Smdp.Gsma.com", "smdp.gsma.com."} {
			for _, matching := range []string{"04386-AGYFT-A74Y8-3F815", "04386-agyft", ""} {
				for tail, want := range tails {
					code := prefix + "1$" + host + "$" + matching + tail
					n++
					m, err := ParseActivation(numbers[n%len(numbers)], code)
					if err != nil || m.ICCID.Reveal() != iccid || m.SMDPAddress.Reveal() != "smdp.gsma.com" ||
						m.MatchingID.Reveal() != matching || m.OID.Reveal() != want {
						t.Errorf("%q is %q %q %q %q, %v", code, m.ICCID.Reveal(), m.SMDPAddress.Reveal(),
							m.MatchingID.Reveal(), m.OID.Reveal(), err)
						continue
					}
					handed := "LPA:1$smdp.gsma.com$" + matching
					if want != "" {
						handed += "$" + want
					}
					if LPA(m) != handed {
						t.Errorf("%q is handed on as %q", code, LPA(m))
					}
				}
				for _, tail := range []string{"$$1", "$" + oid + "$1", "$$1$", "$ $ 1 $x"} {
					code := prefix + "1$" + host + "$" + matching + tail
					if _, err := ParseActivation(iccid, code); !errors.Is(err, ErrConfirmationCode) {
						t.Errorf("%q needs a confirmation code: %v", code, err)
					}
				}
			}
		}
	}
	for _, code := range []string{
		"", "LPA:", "1", "LPA:1", "LPA:1$smdp.gsma.com", "LPA:2$smdp.gsma.com$A", "LPA:$smdp.gsma.com$A", "LPA:1$$A",
		"LPA:1$smdp$A", "LPA:1$smdp..com$A", "LPA:1$https://smdp.gsma.com$A", "LPA:1$smdp.gsma.com:443$A",
		"LPA:1$smdp.gsma.com$A B", "LPA:1$smdp.gsma.com$<b>", "LPA:1$smdp.gsma.com$A$1..3", "LPA:1$smdp.gsma.com$A$oid",
		"LPA:1$smdp.gsma.com$A$$2", "LPA:LPA:1$smdp.gsma.com$A",
	} {
		if m, err := ParseActivation(iccid, code); !errors.Is(err, ErrActivationData) {
			t.Errorf("%q is %q, %v", code, LPA(m), err)
		}
	}
	if _, err := Activation(iccid, "smdp.gsma.com", ""); !errors.Is(err, ErrActivationData) {
		t.Errorf("a matching id that is not told: %v", err)
	}
}

func TestICCIDIsReadWithoutItsFiller(t *testing.T) {
	for text, want := range map[string]string{
		"8943108170000775671": "8943108170000775671", "8943108170000775671F": "8943108170000775671",
		"8943108170000775671f": "8943108170000775671", "894310817000077567FF": "894310817000077567",
		"894310817000077567": "894310817000077567", "89431081700007756712": "89431081700007756712",
		"": "", "F": "", "8943108170000775671FF": "", "89431081700007756712F": "", "89431081700007756": "",
		"894310817000077F5671": "", "310840118124583": "", "89049032007108882600137544319616": "",
		"7943108170000775671": "", "894310817000077567A": "",
	} {
		if got, ok := ParseICCID(text); ok != (want != "") || (ok && got != want) {
			t.Errorf("%q is %q, %v", text, got, ok)
		}
	}
}

// FuzzParseActivation proves that what is handed on is a code of the standard itself.
func FuzzParseActivation(f *testing.F) {
	f.Add("8943108170000775671F", "LPA:1$SMDP.GSMA.COM$04386-AGYFT$1.3.6.1.4.1.31746$0")
	f.Add("894310817000077567", "1$a.b$$$$x")
	f.Fuzz(func(t *testing.T, iccid, code string) {
		m, err := ParseActivation(iccid, code)
		if err != nil {
			return
		}
		again, err := ParseActivation(m.ICCID.Reveal(), LPA(m))
		if err != nil || !again.Equal(m) || LPA(again) != LPA(m) {
			t.Fatalf("%q of %q is handed on as %q, which is %q, %v", code, iccid, LPA(m), LPA(again), err)
		}
	})
}
