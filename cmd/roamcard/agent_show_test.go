package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/testing/devserver"
)

func asJSON(t *testing.T, v any) json.RawMessage {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The person sees the card and the eSIM. No message, log or file contains them, nor the browser's command line.
func TestAgentNeverGetsACardNumber(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	window := filepath.Join(t.TempDir(), "window")
	s.settings.Browser = []string{"env", "TEST_BROWSER=" + window, os.Args[0]}
	a := s.serve("", nil)
	if got := a.call("buy_card", map[string]any{"purchaseKey": "card"}); got.Failed {
		t.Fatalf("%+v", got)
	}
	plan := a.call("list_esim_plans", nil).Plans[0].PlanID
	if got := a.call("buy_esim", map[string]any{"purchaseKey": "esim", "planId": plan}); got.Failed {
		t.Fatalf("%+v", got)
	}
	for _, key := range []string{"card", "esim"} {
		until(t, func() bool { return a.settles(key).Order.Status == "fulfilled" })
	}
	cards := a.call("list_cards", nil).Cards
	if len(cards) != 1 || cards[0].Status != "ACTIVE" {
		t.Fatalf("%+v", cards)
	}
	if got := a.call("get_card_balance", nil); got.Failed {
		t.Errorf("%+v", got)
	}
	for _, named := range []map[string]any{nil, {"cardId": cards[0].CardID}} {
		if got := a.call("list_card_transactions", named); got.Failed || got.Currency != "USD" || got.Transactions == nil {
			t.Errorf("%v: %+v", named, got)
		}
	}
	if got := a.call("get_card_details", nil); got.Failed || got.BillingAddress.PostalCode != "19901" {
		t.Errorf("details: %+v", got)
	}
	if got := a.call("get_card_limits", nil); got.Failed || got.Currency != "USD" {
		t.Errorf("limits: %+v", got)
	}
	if got := a.call("list_card_transactions", map[string]any{"cursor": "bm9uZQ"}); got.Code != "schema_invalid" {
		t.Errorf("another list's cursor: %+v", got)
	}
	look := func(tool string, arguments map[string]any, what string) []string {
		t.Helper()
		// A browser that takes its time is waited for by asking again.
		got := a.call(tool, arguments)
		until(t, func() bool {
			if got.Reason == "waiting_for_user" {
				got = a.call(tool, arguments)
			}
			return got.Reason != "waiting_for_user"
		})
		if got.Failed || !got.Shown {
			t.Fatalf("%s: %+v\n%s", tool, got, a.stderr)
		}
		var command, address string
		var secret []string
		until(t, func() bool {
			page, _ := os.ReadFile(window)
			lines := strings.SplitN(string(page), "\n", 3)
			if len(lines) == 3 {
				command, address, secret = lines[0], lines[1], regexp.MustCompile(what).FindStringSubmatch(lines[2])
			}
			return secret != nil
		})
		_ = os.Remove(window)
		// Everybody on the machine can read a command line.
		if !strings.Contains(command, " file:///") || strings.Contains(command, strings.TrimPrefix(address, "http://")) {
			t.Errorf("the browser was started by %s and showed %s", command, address)
		}
		return append(secret, strings.ReplaceAll(secret[0], " ", ""))
	}
	canaries := look("show_card", nil, `\d{4} \d{4} \d{4} \d{4}`)
	canaries = append(canaries, look("show_card", map[string]any{"cardId": cards[0].CardID}, `\d{4} \d{4} \d{4} \d{4}`)...)
	canaries = append(canaries,
		look("show_esim", map[string]any{"orderId": a.settles("esim").Order.OrderID}, `LPA:1\$[^"$]+\$([^"<$]+)`)...)
	if got := a.call("show_card", map[string]any{"cardId": "4111111111111111"}); !got.Failed || got.Shown {
		t.Errorf("another card: %+v", got)
	}
	_ = a.Close()
	texts := map[string]string{"the session": a.wire.String(), "the log": a.stderr.String()}
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		texts[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range append(canaries, s.key) {
		for name, text := range texts {
			if strings.Contains(text, secret) && filepath.Base(name) != "wallet" {
				t.Errorf("%s has %q", name, secret)
			}
		}
	}
	if !strings.Contains(texts["the session"], "show_card") || len(canaries) < 6 {
		t.Errorf("%d canaries, and a session of %d bytes", len(canaries), len(texts["the session"]))
	}
}

// If no window can be opened, the model is told only that.
func TestAgentWithoutAWindowShowsNothing(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Browser = []string{filepath.Join(s.dir, "no such program")}
	a := s.serve("", nil)
	plan := a.call("list_esim_plans", nil).Plans[0].PlanID
	if got := a.call("buy_esim", map[string]any{"purchaseKey": "esim", "planId": plan}); got.Failed {
		t.Fatalf("%+v", got)
	}
	until(t, func() bool { return a.settles("esim").Order.Status == "fulfilled" })
	if got := a.call("show_esim", map[string]any{"orderId": a.settles("esim").Order.OrderID}); got.Failed || got.Shown ||
		got.Reason != "no_window" {
		t.Errorf("%+v", got)
	}
}

// An issuer that shows cards on a page only: the browser gets the page's address, and neither the model nor who reads
// what the command prints.
func TestCardOfAnEmbedIssuerIsShownByTheBrowserOnly(t *testing.T) {
	t.Parallel()
	s := newStageAt(t, devserver.StartIssuer(t, "stripe"))
	window := filepath.Join(t.TempDir(), "window")
	s.settings.Browser = []string{"env", "TEST_BROWSER=" + window, os.Args[0]}
	a := s.serve("", nil)
	if got := a.call("buy_card", map[string]any{"purchaseKey": "card"}); got.Failed {
		t.Fatalf("%+v", got)
	}
	until(t, func() bool { return a.settles("card").Order.Status == "fulfilled" })
	// opened is the secret part of the address of the page that the browser has got.
	opened := func() string {
		t.Helper()
		var page []byte
		until(t, func() bool {
			page, _ = os.ReadFile(window)
			return strings.Contains(string(page), "</html>")
		})
		if err := os.Remove(window); err != nil {
			t.Fatal(err)
		}
		command, shown, _ := strings.Cut(string(page), "\n")
		address, shown, _ := strings.Cut(shown, "\n")
		if !strings.Contains(command, " file:///") || strings.Contains(command, address) {
			t.Errorf("the browser was started by %s", command)
		}
		if !strings.HasPrefix(address, s.BaseURL+"/reveal/") || !strings.Contains(shown, `<meta name="unlock"`) {
			t.Fatalf("the browser shows %d bytes", len(shown))
		}
		return address[len(s.BaseURL)+len("/reveal/"):]
	}
	if got := a.call("show_card", nil); got.Failed || got.Shown || got.Reason != roamcard.OpenedInBrowser {
		t.Fatalf("%+v\n%s", got, a.stderr)
	}
	secret := opened()
	_ = a.Close()
	if strings.Contains(a.wire.String()+a.stderr.String(), secret) {
		t.Error("the session or the log has the page's address")
	}
	s.settings.Presenter = agent.Terminal
	terminal := s.serve("", nil)
	if got := terminal.call("show_card", nil); got.Failed || got.Shown || got.Reason != "browser_only" {
		t.Errorf("on a terminal: %+v", got)
	}
	_ = terminal.Close()

	if runtime.GOOS != "linux" {
		t.Skip("the desktop's browser is stood in for on Linux only")
	}
	bin := t.TempDir()
	script := "#!/bin/sh\nTEST_COMMAND= TEST_BROWSER='" + window + "' exec '" + os.Args[0] + "' \"$1\"\n"
	if err := os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	reveal := func(present string) (string, error) {
		cmd := s.command("", "card", "reveal", "--present", present)
		cmd.Env = append(cmd.Env, "ROAMCARD_URL="+s.BaseURL, "DISPLAY=:0", "PATH="+bin+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := reveal("browser")
	if secret := opened(); err != nil || strings.Contains(out, secret) ||
		!strings.Contains(out, "The browser shows the card") {
		t.Errorf("the command: %v %s", err, out)
	}
	if out, err := reveal("tty"); err == nil || !strings.Contains(out, "in a browser only: use --present browser") {
		t.Errorf("the command on a terminal: %v %s", err, out)
	}
}
