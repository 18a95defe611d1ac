package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// person answers an agent's questions through its client.
type person struct {
	asked   atomic.Int32
	message atomic.Value
	answer  func() (*mcp.ElicitResult, error)
}

func (p *person) client() *mcp.ClientOptions {
	return &mcp.ClientOptions{ElicitationHandler: func(_ context.Context, req *mcp.ElicitRequest) (*mcp.ElicitResult,
		error) {
		p.asked.Add(1)
		p.message.Store(req.Params.Message)
		return p.answer()
	}}
}

func yes() (*mcp.ElicitResult, error) {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": true}}, nil
}

var protocols = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// The client's form is shown once for a purchase; a repeat of a signed payment asks nobody.
func TestAgentAsksBeforeItSigns(t *testing.T) {
	t.Parallel()
	for _, version := range protocols {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			s, p := newStage(t), &person{answer: yes}
			s.settings.Mode = ""
			a := s.serveAt(version, "", p.client())
			if got := a.InitializeResult().ProtocolVersion; got != version {
				t.Fatalf("the session speaks %s", got)
			}
			for range 2 {
				if got := a.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Failed {
					t.Fatalf("%+v", got)
				}
				a.settles("k")
			}
			message, _ := p.message.Load().(string)
			if p.asked.Load() != 1 || !strings.Contains(message, "25.00 USDC") ||
				!strings.Contains(strings.ToLower(message), strings.ToLower(s.PayTo)) {
				t.Errorf("asked %d times: %s", p.asked.Load(), message)
			}
			s.paid(1, 2500)
		})
	}
}

// TestAgentAsksOnceAboutAPurchase: calls at once for one purchase put one question to the user.
func TestAgentAsksOnceAboutAPurchase(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	p := &person{answer: func() (*mcp.ElicitResult, error) {
		close(asked)
		<-answer
		return yes()
	}}
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	a := s.serveAt("2025-11-25", "", p.client())
	buy := func() told { return a.call("buy_card", map[string]any{"purchaseKey": "k"}) }
	first := make(chan told, 1)
	go func() { first <- buy() }()
	<-asked
	for range 3 {
		if got := buy(); got.Code != "still_working" || got.PurchaseKey != "k" {
			t.Errorf("%+v", got)
		}
	}
	close(answer)
	if got := <-first; got.Failed {
		t.Errorf("%+v", got)
	}
	a.settles("k")
	s.paid(1, 2500)
	if n := p.asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestAgentPaysNothingWhenDeclined(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func() (*mcp.ElicitResult, error){
		"declined":  func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "decline"}, nil },
		"cancelled": func() (*mcp.ElicitResult, error) { return &mcp.ElicitResult{Action: "cancel"}, nil },
		"accepted: no": func() (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"approve": false}}, nil
		},
	} {
		for _, version := range protocols {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				s := newStage(t)
				s.settings.Mode = roamcard.HumanApproval
				a := s.serveAt(version, "", (&person{answer: answer}).client())
				if got := a.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Code != "approval_declined" || !got.Failed ||
					got.PurchaseKey != "k" {
					t.Errorf("%+v", got)
				}
				s.paid(0)
			})
		}
	}
}

// An approval that is made up, repeated or for something else signs nothing.
func TestAgentSignsForNoForgedApproval(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	opts := (&person{answer: yes}).client()
	opts.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	a := s.serveAt("2026-07-28", "", opts)
	plans := a.call("list_esim_plans", nil).Plans
	try := func(tool, key, state string) *mcp.CallToolResult {
		arguments := map[string]any{"purchaseKey": key}
		if tool == "buy_esim" {
			arguments["planId"] = plans[0].PlanID
		}
		approved, _ := yes()
		res, err := a.CallTool(t.Context(), &mcp.CallToolParams{
			Name: tool, Arguments: arguments, RequestState: state, InputResponses: mcp.InputResponseMap{"approval": approved},
		})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	state := try("buy_card", "k", "").RequestState
	if state == "" {
		t.Fatal("nobody was asked")
	}
	half := len(state) / 2
	for name, forged := range map[string]*mcp.CallToolResult{
		"no state":          try("buy_card", "k", ""),
		"a made-up state":   try("buy_card", "k", "eyJ9.AAAA"),
		"a changed state":   try("buy_card", "k", state[:half]+"A"+state[half+1:]),
		"another key's":     try("buy_card", "other", state),
		"another product's": try("buy_esim", "k", try("buy_card", "k", "").RequestState),
	} {
		if !forged.IsError && forged.RequestState == "" {
			t.Errorf("%s: %v", name, forged.StructuredContent)
		}
	}
	s.paid(0)
	fresh := try("buy_card", "k", "").RequestState
	if res := try("buy_card", "k", fresh); res.IsError {
		t.Fatalf("the right one: %v", res.StructuredContent)
	}
	a.settles("k")
	s.paid(1, 2500)
}

// For a client that cannot ask, a person runs `roamcard approve` at a terminal. An approval is for one payment.
func TestAgentWaitsForApprovalAtATerminal(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("script"); err != nil {
		t.Skip("util-linux's script makes the terminal")
	}
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	a := s.serve("", nil)
	buy := func() told { return a.call("buy_card", map[string]any{"purchaseKey": "it's mine"}) }
	file := s.settingsFile()
	if got := buy(); got.Code != "approval_needed" || !got.SafeToPayAgain ||
		!strings.Contains(got.Detail, `roamcard approve --config '`+file+`' 'it'\''s mine'`) {
		t.Fatalf("%+v", got)
	}
	approve := func(answer string) (string, error) {
		cmd := s.command("", "approve", "it's mine", "--config", file)
		line := "exec '" + strings.Join(cmd.Args[:2], "' '") + `' "it's mine" --config '` + file + "'"
		script := exec.Command("script", "-qec", line, "/dev/null")
		script.Env, script.Stdin = cmd.Env, strings.NewReader(answer+"\n")
		out, err := script.CombinedOutput()
		return string(out), err
	}
	if out, err := s.command("", "approve", "it's mine", "--config", file).CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "needs a terminal") {
		t.Errorf("without a terminal: %v %s", err, out)
	}
	if out, err := approve("n"); err == nil || !strings.Contains(out, "25.00 USDC") ||
		!strings.Contains(out, "0.00 of 200.00 USD") {
		t.Errorf("no: %v %s", err, out)
	}
	if got := buy(); got.Code != "approval_needed" {
		t.Errorf("after no: %+v", got)
	}
	if out, err := approve("y"); err != nil || !strings.Contains(out, "25.00 USDC") {
		t.Fatalf("yes: %v %s", err, out)
	}
	plan := a.call("list_esim_plans", nil).Plans[0].PlanID
	if got := a.call("buy_esim",
		map[string]any{"purchaseKey": "it's mine", "planId": plan}); got.Code != "approval_needed" {
		t.Errorf("something else under the key: %+v", got)
	}
	if _, err := approve("y"); err != nil {
		t.Fatal(err)
	}
	// What was approved last is the eSIM: the card is asked for again.
	if got := buy(); got.Code != "approval_needed" {
		t.Errorf("the approval of something else: %+v", got)
	}
	if _, err := approve("y"); err != nil {
		t.Fatal(err)
	}
	if got := buy(); got.Failed {
		t.Fatalf("%+v\n%s", got, a.stderr)
	}
	a.settles("it's mine")
	s.paid(1, 2500)
	if out, err := approve("y"); err == nil {
		t.Errorf("what is paid is approved again: %s", out)
	}
}

// Keys must not be in the configuration of an agent's programs.
func TestAgentTakesNoKeyFromTheEnvironment(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	cmd := s.command("", "mcp", "serve", "--config", s.settingsFile())
	cmd.Env = append(cmd.Env, "ROAMCARD_WALLET_KEY="+s.key, "ROAMCARD_WALLET_KEY_FILE=")
	a := &session{t: t, process: cmd, wire: &recording{}, stderr: &recording{}}
	got := a.connect("", &mcp.CommandTransport{Command: cmd}, nil).call("buy_card", map[string]any{"purchaseKey": "k"})
	if got.Code != "signer_failed" || got.PurchaseKey != "k" || !got.SafeToPayAgain ||
		!strings.Contains(got.Detail, "refused") {
		t.Errorf("%+v", got)
	}
	s.paid(0)
}

// A client whose form fails is treated as one that cannot ask.
func TestAgentWithAFailingFormNeedsTheTerminal(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	a := s.serveAt("2025-06-18", "",
		(&person{answer: func() (*mcp.ElicitResult, error) { return nil, errors.New("no window") }}).client())
	if got := a.call("buy_card", map[string]any{"purchaseKey": "k"}); got.Code != "approval_needed" {
		t.Errorf("%+v", got)
	}
	s.paid(0)
}

// Settings that other users can write are refused.
func TestAgentRefusesSettingsOfOthers(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	file := s.settingsFile()
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o602} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		cmd := s.command("", "mcp", "serve", "--config", file)
		a := &session{t: t, process: cmd, wire: &recording{}, stderr: &recording{}}
		got := a.connect("", &mcp.CommandTransport{Command: cmd}, nil).call("buy_card", map[string]any{"purchaseKey": "k"})
		if got.Code != "settings_unusable" || !strings.Contains(got.Detail, "chmod 600") {
			t.Errorf("%o: %+v", mode, got)
		}
	}
	s.paid(0)
}

// Changed settings apply to a running server, and invalid ones stop all payments.
func TestAgentAppliesChangedSettings(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	a := s.serve("", nil)
	buy := func(key string) told { return a.call("buy_card", map[string]any{"purchaseKey": key}) }
	if got := a.call("quote", map[string]any{"tool": "buy_card"}); !got.Allowed || got.NeedsApproval {
		t.Fatalf("%+v", got)
	}
	good := s.settings
	for name, c := range map[string]struct {
		code   string
		change func()
	}{
		"a cap":       {"denied_by_local_policy", func() { s.settings.MaxPerPaymentUSDCents = 100 }},
		"a day's cap": {"denied_by_local_policy", func() { s.settings.MaxPerDayUSDCents = 2400 }},
		"a payee":     {"terms_mismatch", func() { s.settings.PayTo = "0x000000000000000000000000000000000000dEaD" }},
		"operations":  {"denied_by_local_policy", func() { s.settings.Operations = []string{"buy_esim"} }},
		"a mode":      {"approval_needed", func() { s.settings.Mode = roamcard.HumanApproval }},
		"an origin":   {"settings_changed", func() { s.settings.Origin = "https://b.example.com" }},
		"a mistake":   {"settings_unusable", func() { s.settings.Mode = "yolo" }},
	} {
		s.settings = good
		c.change()
		s.settingsFile()
		if got := buy("k"); got.Code != c.code || !got.SafeToPayAgain {
			t.Errorf("%s: %+v, want %s", name, got, c.code)
		}
	}
	s.settings = good
	if err := os.Chmod(s.settingsFile(), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := buy("k"); got.Code != "settings_unusable" || !strings.Contains(got.Detail, "chmod 600") {
		t.Errorf("settings of others: %+v", got)
	}
	s.paid(0)
	if err := os.Chmod(s.settingsFile(), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := buy("k"); got.Failed {
		t.Errorf("as before: %+v", got)
	}
	a.settles("k")
	s.paid(1, 2500)
}

// The command in a refusal works as written, for every key that a tool accepts.
func TestAgentNamesACommandThatWorks(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	s.settings.Mode = roamcard.HumanApproval
	a := s.inProcess(s.BaseURL)
	file := s.settingsFile()
	for _, key := range []string{
		"-rf", "--config", "it's $(mine) `x` \\", strings.Repeat("'", 200), strings.Repeat("𝔎", 200),
	} {
		got := a.call("buy_card", map[string]any{"purchaseKey": key})
		_, line, _ := strings.Cut(got.Detail, "to run `")
		line, _, ok := strings.Cut(line, "` in a terminal")
		if got.Code != "approval_needed" || !ok {
			t.Errorf("%.20s: %+v", key, got)
			continue
		}
		named := s.command("")
		cmd := exec.Command("sh", "-c", "roamcard() { exec '"+os.Args[0]+"' \"$@\"; }\n"+line)
		cmd.Env = append(named.Env, "ROAMCARD_AGENT_CONFIG="+file)
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "needs a terminal") {
			t.Errorf("%s: %v %s", line, err, out)
		}
	}
	for _, key := range []string{
		"x\nAlready approved; 0.00 USDC", "a\tb", "\u202eabc", "a\u200bb", "a\u2028b", "a\u00a0b",
	} {
		if got := a.call("buy_card", map[string]any{"purchaseKey": key}); got.Code != "arguments_invalid" ||
			!strings.Contains(got.Detail, "U+") {
			t.Errorf("%q: %+v", key, got)
		}
	}
	s.paid(0)
}
