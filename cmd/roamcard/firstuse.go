package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/roamcard/roamcard/clients/go/roamcard"
)

// eachCommand does something to a command and all below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}

// finish gives every command what all of them have.
func finish(cmd *cobra.Command) {
	if act := cmd.RunE; act != nil {
		cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(givenEmpty(cmd), checkChoices(cmd)); err != nil {
				return err
			}
			if err := cmd.ValidateRequiredFlags(); err != nil { // afterwards cobra says it, as a failure
				return fmt.Errorf("%w: %w", errUsage, err)
			}
			return nil
		}
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			err := act(cmd, args)
			if errors.Is(err, roamcard.ErrNoSigner) {
				return errNoWallet
			}
			return err
		}
	}
	if cmd.Example == "" {
		cmd.Example = exampleOf(cmd)
	}
}

// choiceOf marks a flag that takes one of its values, and nothing else.
const choiceOf = "roamcard_choice_of"

// choose gives a flag the only values that it takes.
func choose(cmd *cobra.Command, flag string, values ...string) {
	complete(cmd, flag, fixed(values...))
	// It fails when there is no such flag, and then complete has.
	_ = cmd.Flags().SetAnnotation(flag, choiceOf, values)
}

// checkChoices refuses a value that a flag does not take: sent to the service, it would find nothing and say so.
func checkChoices(cmd *cobra.Command) error {
	var wrong error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := f.Annotations[choiceOf]
		if len(values) > 0 && !slices.Contains(values, f.Value.String()) {
			last := len(values) - 1
			wrong = fmt.Errorf("%w: --%s is %s or %s, not %q", errUsage, f.Name, strings.Join(values[:last], ", "),
				values[last], f.Value.String())
		}
	})
	return wrong
}

// unknownCommand is the error of an argument where a command is expected.
func unknownCommand(cmd *cobra.Command, err error, named string) error {
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(named); len(near) > 0 {
		return fmt.Errorf("%w: %w; did you mean %s?", errUsage, err, strings.Join(near, " or "))
	}
	return fmt.Errorf("%w: %w", errUsage, err)
}

// pays marks a command that may sign a payment.
const pays = "roamcard_pays"

func mayPay(cmd *cobra.Command) *cobra.Command {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[pays] = "yes"
	return cmd
}

// placeholders are the arguments of examples.
var placeholders = map[string]string{
	"ORDER": "ord_5f0c2f7e", "CARD": "6f1d6f6e-3a54-4a39-9d1e-6f0d5a0e7f11", "DOLLARS": "25.00",
	"PLAN": "pln_f47ae629cbb9d4093055f9d9", "KEY": "my-first-card",
	"JOB": "4b1f6f6e-3a54-4a39-9d1e-6f0d5a0e7f12", "FILE": "roamcard.yaml", "DIR": "man",
	"CLOSING": "7c1f6f6e-3a54-4a39-9d1e-6f0d5a0e7f13", "APPROVAL": "8d1f6f6e-3a54-4a39-9d1e-6f0d5a0e7f14",
	"PRODUCT": "card_issue", "TOKEN": "9e1f6f6e-3a54-4a39-9d1e-6f0d5a0e7f15", "ID": "a01f6f6e-3a54-4a39-9d1e-6f0d5a0e7f16",
	"TOOL": "list_esim_plans", "ARGUMENTS": `'{"countryCode":"JP"}'`, "refund": "refund",
	"TRANSACTION":     "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060",
	"TRANSACTION/LOG": "0x5c504ed432cb51138bcf09aa5e8a410dd4a1e204ef84bfed1be16dfba1b22060/3",
}

// examples are those of commands whose usual call is more than its arguments.
var examples = map[string]string{
	"roamcard":          "  roamcard dev\n  roamcard card buy --max 25.00\n  roamcard esim plans --country JP",
	"roamcard card buy": "  roamcard card buy\n  roamcard card buy --key my-first-card --yes --max 25.00 --wait",
	"roamcard card topup": "  roamcard card topup 50.00\n" +
		"  roamcard card topup 50.00 --key october --yes --max 50.00",
	"roamcard esim buy": "  roamcard esim buy pln_f47ae629cbb9d4093055f9d9\n" +
		"  roamcard esim buy --key my-trip --yes --max 5.00",
	"roamcard esim plans":    "  roamcard esim plans --country JP",
	"roamcard orders list":   "  roamcard orders list --active --kind esim",
	"roamcard orders create": "  roamcard orders create --esim pln_f47ae629cbb9d4093055f9d9",
	"roamcard card reveal":   "  roamcard card reveal --present browser",
	"roamcard mcp install":   "  roamcard mcp install --client claude --max 25.00 --max-day 50.00",
	"roamcard admin tokens mint": "  roamcard admin tokens mint --name ada --role viewer --expires 720h " +
		`--reason "joins the team"`,
	"roamcard receipt verify":     "  roamcard receipt verify receipt.jws --origin https://roamcard.example",
	"roamcard admin audit export": "  roamcard admin audit export --format csv",
	"roamcard dev":                "  roamcard dev --data ./data --ready-file ./ready.json",
	"roamcard serve":              "  roamcard serve --config /etc/roamcard/roamcard.yaml",
}

// exampleOf is how a command is called: a group's first commands, or the command with its arguments and what it needs.
func exampleOf(cmd *cobra.Command) string {
	if text, ok := examples[cmd.CommandPath()]; ok {
		return text
	}
	const most = 2
	var lines []string
	for _, sub := range cmd.Commands() {
		if len(lines) < most && sub.IsAvailableCommand() && sub.Name() != "help" {
			lines = append(lines, strings.Split(exampleOf(sub), "\n")[0])
		}
	}
	if len(lines) > 0 {
		return strings.Join(lines, "\n")
	}
	call := "  " + cmd.CommandPath()
	for _, arg := range strings.Fields(cmd.Use)[1:] {
		name, _, _ := strings.Cut(strings.Trim(arg, "[]"), "|")
		call += " " + first(placeholders[name], name)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, needed := f.Annotations[cobra.BashCompOneRequiredFlag]
		switch {
		case f.Name == "reason":
			call += ` --reason "ticket 12"`
		case needed:
			call += " --" + f.Name + " " +
				first(placeholders[strings.ToUpper(f.Name)], firstOf(f.Annotations[choiceOf]), "VALUE")
		}
	})
	return call
}

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
