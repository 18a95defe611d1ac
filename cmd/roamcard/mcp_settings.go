package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/roamcard/roamcard/clients/agent"
	"github.com/roamcard/roamcard/clients/agent/keys"
	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// begin writes the server's settings where there are none.
func (i *installing) begin() error {
	path, err := agentFile(i.settings)
	if err != nil {
		return err
	}
	w := printable{i.cmd.ErrOrStderr()}
	switch _, err := os.Stat(path); {
	case err == nil:
		if _, err := agent.ReadSettings(path); err != nil {
			return fmt.Errorf("the server cannot use its settings (correct %s, or delete it and run this again): %w", path, err)
		}
		fmt.Fprintf(w, "The server's settings are in %s; they stay as they are.\n", path)
		for _, name := range []string{"max", "max-day", "mode", "signer"} {
			if i.cmd.Flags().Changed(name) {
				fmt.Fprintf(w, "--%s is for new settings: to change these, edit the file.\n", name)
			}
		}
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for the server's settings: %w", err)
	}
	s, err := i.starting()
	if err != nil {
		return fmt.Errorf(
			"write the server's settings (the entry is written; run it again with --url, or write %s yourself): %w", path, err)
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	fmt.Fprintf(w,
		"The server has no settings yet. %s is made:\n\n%s\n\nThe payee and the token are what %s publishes now.\n", path,
		text, s.Origin)
	if len(s.Signer) == 0 {
		fmt.Fprintln(w, "Without `signer` it pays from the wallet that the other commands use.")
	}
	if err := i.agree("Write it?"); err != nil {
		return err
	}
	if err := custody.Create(path, append(text, '\n')); err != nil {
		return fmt.Errorf("write the settings: %w", err)
	}
	fmt.Fprintln(w, "Written. Only you can read and change it.")
	return nil
}

// given are the new settings as far as the flags say them.
func (i *installing) given() (s agent.Settings, err error) {
	one, err := capOf("--max", i.maxUSD, "ROAMCARD_MAX_PER_PAYMENT_USD")
	if err != nil {
		return s, err
	}
	day, err := capOf("--max-day", i.maxDay, "ROAMCARD_MAX_PER_DAY_USD")
	if err != nil {
		return s, err
	}
	if one == 0 || day == 0 {
		return s, fmt.Errorf("%w: without --max and --max-day nothing would be paid", errUsage)
	}
	mode := roamcard.Mode(i.mode)
	if mode != roamcard.HumanApproval && mode != roamcard.Autonomous {
		return s, fmt.Errorf("%w: --mode is human_approval or autonomous", errUsage)
	}
	if i.signer != "" {
		if _, err := keys.Parse([]byte(i.signer)); err != nil {
			return s, fmt.Errorf("%w: --signer: %w", errUsage, err)
		}
	}
	return agent.Settings{
		Mode: mode, MaxPerPaymentUSDCents: one, MaxPerDayUSDCents: day,
		Operations: []string{"buy_card", "top_up_card", "buy_esim"},
		Signer:     json.RawMessage(i.signer), Presenter: agent.Browser,
	}, nil
}

// starting makes settings from the flags and what the service publishes.
func (i *installing) starting() (agent.Settings, error) {
	s, err := i.given()
	if err != nil {
		return s, err
	}
	r, err := i.b.ready()
	if err != nil {
		return s, err
	}
	s.Origin, s.RPCURL = first(i.b.url, os.Getenv("ROAMCARD_URL"), r.BaseURL, defaultURL), i.b.node(r)
	client, err := roamcard.New(roamcard.Config{BaseURL: s.Origin})
	if err != nil {
		return s, err
	}
	ctx, cancel := context.WithTimeout(i.cmd.Context(), 30*time.Second)
	defer cancel()
	published, err := client.Discovery.Config(ctx)
	if err != nil {
		return s, err
	}
	s.PayTo, s.Asset = published.GetNetwork().GetPayTo(), published.GetNetwork().GetAsset()
	return s, nil
}
