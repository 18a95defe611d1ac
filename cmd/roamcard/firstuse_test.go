package main

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/app"
)

// Whoever buys for the first time has no wallet, and is told how to get one.
func TestPayingWithoutAWalletNamesTheCure(t *testing.T) {
	home(t)
	found := 0
	eachCommand(root(), func(cmd *cobra.Command) {
		if cmd.Annotations[pays] == "" {
			return
		}
		found++
		call := strings.Fields(exampleOf(cmd))[1:]
		if i := strings.Index(cmd.Use, " "); i < 0 || cmd.Use[i+1] == '[' {
			call = strings.Fields(cmd.CommandPath())[1:]
		} else {
			call = call[:len(strings.Fields(cmd.CommandPath()))] // with its one argument
		}
		if cmd.Name() == "resume" {
			return // what is open in the journal was signed by a wallet
		}
		_, stderr, code := runWith(t, append(call, "--url", "http://127.0.0.1:9")...)
		if code != exitFailure || !strings.Contains(stderr, "roamcard wallet new") {
			t.Errorf("%v: %d %s", call, code, stderr)
		}
	})
	if found < 6 {
		t.Errorf("%d commands pay", found)
	}
}

// A program has no terminal, and is told what stands for a person's yes.
func TestPayingWithoutATerminalNamesTheFlags(t *testing.T) {
	home(t)
	cmd := root()
	cmd.SetIn(strings.NewReader(""))
	yes, err := (&buyer{}).approve(cmd)(t.Context(), roamcard.Quote{})
	if yes || exitCode(err) != exitDenied || !strings.Contains(err.Error(), "--yes --max") {
		t.Errorf("%v, %v", yes, err)
	}
}

// What pays nothing needs no cap.
func TestYesNeedsACapOnlyWhereSomethingIsPaid(t *testing.T) {
	home(t)
	eachCommand(root(), func(cmd *cobra.Command) {
		_, err := (&buyer{yes: true}).policy(cmd)
		if (err != nil) != (cmd.Annotations[pays] != "") {
			t.Errorf("%s: %v", cmd.CommandPath(), err)
		}
	})
	if _, stderr, code := runWith(t, "orders", "pay", "ord_1", "--yes"); code != exitUsage ||
		!strings.Contains(stderr, "--yes needs --max") {
		t.Errorf("%d %s", code, stderr)
	}
}

func TestNoCardIsNoMistakeOnTheCommandLine(t *testing.T) {
	card := func(status string) *roamcardv1.Card { return &roamcardv1.Card{Id: "c", Status: status} }
	active := []roamcard.CardStatus{roamcard.CardActive}
	for _, none := range [][]*roamcardv1.Card{nil, {card("CLOSED")}} {
		_, err := onlyCard(none, active...)
		if r := reportOf(err); exitCode(err) != exitFailure || r.Code != "no_card" ||
			!strings.Contains(err.Error(), "roamcard card buy") {
			t.Errorf("%v: %v", none, err)
		}
	}
	if id, err := onlyCard([]*roamcardv1.Card{card("CLOSED"), card(string(roamcard.CardActive))}, active...); id != "c" ||
		err != nil {
		t.Errorf("%s, %v", id, err)
	}
	two := []*roamcardv1.Card{card(string(roamcard.CardActive)), card(string(roamcard.CardActive))}
	if _, err := onlyCard(two, active...); exitCode(err) != exitUsage {
		t.Errorf("two: %v", err)
	}
}

// quoted is an argument of several words.
var quoted = regexp.MustCompile(`"[^"]*"|'[^']*'`)

// A value that no such flag has would be sent, find nothing, and look like an answer.
func TestUnknownChoicesAreUsageErrors(t *testing.T) {
	home(t)
	found := 0
	eachCommand(root(), func(cmd *cobra.Command) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			values := f.Annotations[choiceOf]
			if len(values) == 0 {
				return
			}
			found++
			example := quoted.ReplaceAllString(strings.Split(exampleOf(cmd), "\n")[0], "x")
			call := strings.Fields(example)[1:]
			_, stderr, code := runWith(t, append(call, "--"+f.Name, "nonsense", "--url", "http://127.0.0.1:9")...)
			if code != exitUsage || !strings.Contains(stderr, values[0]) || !strings.Contains(stderr, "nonsense") {
				t.Errorf("%v --%s: %d %s", call, f.Name, code, stderr)
			}
		})
	})
	if found < 12 {
		t.Errorf("only %d flags have choices", found)
	}
}

func TestOrdersGetIsOrdersShow(t *testing.T) {
	cmd, _, err := root().Find([]string{"orders", "get", "ord_1"})
	if err != nil || cmd.Name() != "show" {
		t.Errorf("%v, %v", cmd.Name(), err)
	}
}

func TestVersionIsAFlagToo(t *testing.T) {
	said, _, code := runWith(t, "version")
	flag, _, flagCode := runWith(t, "--version")
	if code != exitOK || flagCode != exitOK || said == "" || flag != said {
		t.Errorf("%q, %q", said, flag)
	}
}

// Every help page has an example, and each of them is a call that the program takes.
func TestEveryHelpPageHasAnExampleThatIsTaken(t *testing.T) {
	eachCommand(root(), func(cmd *cobra.Command) {
		if cmd.Hidden || strings.TrimSpace(cmd.Example) == "" {
			if !cmd.Hidden {
				t.Errorf("%s has none", cmd.CommandPath())
			}
			return
		}
		for _, one := range strings.Split(cmd.Example, "\n") {
			call, ok := strings.CutPrefix(strings.TrimSpace(one), "roamcard ")
			if !ok || strings.Contains(call, "VALUE") {
				t.Errorf("%s: %q", cmd.CommandPath(), one)
				continue
			}
			// A text of several words is one argument.
			call = strings.ReplaceAll(call, `"the buyer wrote to us"`, "why")
			if why := wrong(call); why != "" {
				t.Errorf("%s: %s: %s", cmd.CommandPath(), call, why)
			}
		}
	})
}

func TestUnknownCommandsNameTheNearest(t *testing.T) {
	for call, near := range map[string]string{
		"crad": "card", "card byu": "buy", "admin ordres list": "orders", "orders lst": "list", "wallet adress": "address",
	} {
		_, stderr, code := runWith(t, strings.Fields(call)...)
		if code != exitUsage || !strings.Contains(stderr, "did you mean "+near) {
			t.Errorf("%s: %d %s", call, code, stderr)
		}
	}
	c := app.Defaults()
	if err := c.Set("chain.rpc_ulr", "x"); err == nil || !strings.Contains(err.Error(), "chain.rpc_url") {
		t.Errorf("a setting: %v", err)
	}
}

// An operator has a token and no session: to sign in again is no way to get one.
func TestOperatorsAreNotToldToSignIn(t *testing.T) {
	for _, code := range []string{"operator_token_invalid", "operator_role_missing"} {
		r := reportOf(&roamcard.APIError{Status: 401, Code: code, NextAction: "sign_in"})
		if r.NextAction == "sign_in" || !strings.Contains(advice(r), "ROAMCARD_OPERATOR_TOKEN") {
			t.Errorf("%s: %+v, %s", code, r, advice(r))
		}
	}
	if r := reportOf(errors.Join(errNoWallet)); r.Code != "no_wallet" {
		t.Errorf("%+v", r)
	}
}
