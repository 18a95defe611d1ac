package main

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// completer proposes values to a shell.
type completer = func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective)

// completionTime is how long a person who pressed the tab key is kept waiting.
const completionTime = 2 * time.Second

// complete gives a flag its values.
func complete(cmd *cobra.Command, flag string, values completer) {
	// It fails when there is no such flag, or when it has values already: mistakes of this program's.
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err)
	}
}

// fixed are values that are always the same.
func fixed(values ...cobra.Completion) completer {
	return cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)
}

// firstArg completes the one argument of a command.
func firstArg(values completer) completer {
	return func(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return values(cmd, args, typed)
	}
}

// asking makes a completer of what a client finds in time. On failure it proposes nothing.
func (b *buyer) asking(find func(ctx context.Context, client *roamcard.Client) []cobra.Completion) completer {
	return func(cmd *cobra.Command, _ []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		client, err := b.open(cmd)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := slices.DeleteFunc(find(ctx, client), func(c cobra.Completion) bool { return !strings.HasPrefix(c, typed) })
		slices.Sort(found)
		return slices.Compact(found), cobra.ShellCompDirectiveNoFileComp
	}
}

// proposal is a value with its description. A value with invisible or control characters is not proposed.
func proposal(value, about string) []cobra.Completion {
	if value == "" || line(value) != value || strings.ContainsAny(value, " \t") {
		return nil
	}
	return []cobra.Completion{cobra.CompletionWithDesc(value, line(about))}
}

// completeOrders proposes the orders of the wallet.
func (b *buyer) completeOrders(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) []cobra.Completion {
		return b.orderIDs(ctx, client, false)
	})(cmd, args, typed)
}

// completePayable proposes the orders that can be paid.
func (b *buyer) completePayable(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) []cobra.Completion {
		return b.orderIDs(ctx, client, true)
	})(cmd, args, typed)
}

// orderIDs are those of the first page of the service, or of the journal where the service is not asked: a wallet that
// signs by a program of its own may ask a person to sign in, which a completion must not.
func (b *buyer) orderIDs(ctx context.Context, client *roamcard.Client, payable bool) (found []cobra.Completion) {
	if !b.signsAlone {
		if payable {
			return nil
		}
		entries, err := client.Purchases(ctx)
		if err != nil {
			return nil
		}
		for _, e := range entries {
			found = append(found, proposal(e.OrderID, "paid under the key "+e.Key)...)
		}
		return found
	}
	page, err := client.Orders.Page(ctx, payable, "")
	if err != nil {
		return nil
	}
	for _, o := range page.Items {
		if !payable || o.GetPayableUrl() != "" {
			found = append(found,
				proposal(o.GetOrderId(), o.GetKind()+", "+o.GetStatus()+", "+dollars(o.GetAmountUsdCents())+" USD")...)
		}
	}
	return found
}

// completePending proposes the keys of purchases whose outcome is not known.
func (b *buyer) completePending(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) (found []cobra.Completion) {
		open, err := client.Pending(ctx)
		if err != nil {
			return nil
		}
		for _, e := range open {
			found = append(found, proposal(e.Key, e.Operation)...)
		}
		return found
	})(cmd, args, typed)
}

// completeCards proposes the wallet's cards.
func (b *buyer) completeCards(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) (found []cobra.Completion) {
		if !b.signsAlone {
			return nil
		}
		cards, err := client.Cards.List(ctx)
		if err != nil {
			return nil
		}
		for _, c := range cards {
			found = append(found, proposal(c.GetId(), c.GetStatus()+" "+c.GetLast4())...)
		}
		return found
	})(cmd, args, typed)
}

// completePlans proposes plans, with what they cost.
func (b *buyer) completePlans(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) []cobra.Completion {
		return eachPlan(client.Plans.List(ctx, "", ""), func(p *roamcardv1.EsimPlan) []cobra.Completion {
			return proposal(p.GetPlanId(), p.GetName()+", "+dollars(p.GetPriceUsdCents())+" USD")
		})
	})(cmd, args, typed)
}

// completeCountries proposes the countries of the catalogue, in small letters to who types them: shells compare.
func (b *buyer) completeCountries(
	cmd *cobra.Command, args []string, typed string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	return b.asking(func(ctx context.Context, client *roamcard.Client) []cobra.Completion {
		return eachPlan(client.Plans.List(ctx, "", ""), func(p *roamcardv1.EsimPlan) (found []cobra.Completion) {
			for _, country := range p.GetCountryCodes() {
				if typed != strings.ToUpper(typed) {
					country = strings.ToLower(country)
				}
				found = append(found, proposal(country, "")...)
			}
			return found
		})
	})(cmd, args, typed)
}

func eachPlan(
	plans iter.Seq2[*roamcardv1.EsimPlan, error], propose func(*roamcardv1.EsimPlan) []cobra.Completion,
) (found []cobra.Completion) {
	for p, err := range plans {
		if err != nil {
			return nil
		}
		found = append(found, propose(p)...)
	}
	return found
}
