package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func esim() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "esim", GroupID: "buy", Args: noArgs, Short: "Find, buy and install a travel eSIM", RunE: help,
	}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.esimPlans(), b.esimBuy(), b.esimStatus(), b.esimProfile(), b.esimInstall(), b.esimRotateToken(),
		b.esimCancel(), b.esimTopups(), b.esimTopup())
	return cmd
}

func (b *buyer) esimPlans() *cobra.Command {
	var country, kind string
	cmd := &cobra.Command{
		Use: "plans", Args: noArgs, Short: "List plans, cheapest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			plans, err := roamcard.Collect(client.Plans.List(cmd.Context(), country, kind))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListEsimPlansResponse{Plans: plans}, func(w io.Writer) { showPlans(w, plans) })
		}),
	}
	cmd.Flags().StringVar(&country, "country", "", "two letters, as in JP; regional plans that cover it are listed too")
	cmd.Flags().StringVar(&kind, "type", "", "country or region")
	complete(cmd, "country", b.completeCountries)
	choose(cmd, "type", "country", "region")
	return cmd
}

func showPlans(w io.Writer, plans []*roamcardv1.EsimPlan) {
	fmt.Fprintln(w, "PLAN\tUSD\tDATA\tDAYS\tNAME")
	for _, p := range plans {
		data := fmt.Sprintf("%d MB", p.GetDataMb())
		if p.GetUnlimited() {
			data = "unlimited"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", p.GetPlanId(), dollars(p.GetPriceUsdCents()), data,
			p.GetValidityDays(), p.GetName())
	}
}

func (b *buyer) esimTopups() *cobra.Command {
	return &cobra.Command{
		Use: "topups ORDER", Args: oneArg, Short: "List the plans that can be added to an eSIM, cheapest first",
		ValidArgsFunction: firstArg(b.completeOrders),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			plans, err := roamcard.Collect(client.ESIM.TopUps(cmd.Context(), args[0]))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListEsimTopupsResponse{Plans: plans}, func(w io.Writer) { showPlans(w, plans) })
		}),
	}
}

func (b *buyer) esimTopup() *cobra.Command {
	var key, plan string
	cmd := &cobra.Command{
		Use: "topup ORDER", Args: oneArg, Short: "Buy more data for an eSIM of the wallet",
		ValidArgsFunction: firstArg(b.completeOrders),
		Long: "The eSIM's supplier adds the plan to it: one of `roamcard esim topups ORDER`, the cheapest when none is " +
			"named.\n" +
			"An eSIM that was topped up can no longer be cancelled.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			bought, err := client.ESIM.TopUp(cmd.Context(), args[0], plan, first(key, roamcard.NewKey()))
			if err != nil {
				return err
			}
			return b.bought(cmd, *bought)
		}),
	}
	cmd.Flags().StringVar(&plan, "plan", "", "the plan to add; the cheapest when empty")
	b.keyed(cmd, &key)
	return b.waiting(cmd)
}

func (b *buyer) esimBuy() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "buy [PLAN]", Args: optionalArg, Short: "Buy a plan, the cheapest one when none is named",
		ValidArgsFunction: firstArg(b.completePlans),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			plan := ""
			if len(args) == 1 {
				plan = args[0]
			}
			bought, err := client.ESIM.Purchase(cmd.Context(), plan, first(key, roamcard.NewKey()))
			if err != nil {
				return err
			}
			return b.bought(cmd, bought.Purchase)
		}),
	}
	b.keyed(cmd, &key)
	return b.waiting(cmd)
}

func (b *buyer) esimStatus() *cobra.Command {
	return b.waiting(&cobra.Command{
		Use: "status ORDER", Args: oneArg, Short: "Show how far an eSIM has come",
		ValidArgsFunction: firstArg(b.completeOrders),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			order, err := client.ESIM.Status(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.showFinal(cmd, order)
		}),
	})
}

func (b *buyer) esimProfile() *cobra.Command {
	return &cobra.Command{
		Use: "profile ORDER", Args: oneArg, Short: "Show whether an eSIM is installed, and how much of its data is used",
		ValidArgsFunction: firstArg(b.completeOrders),
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			p, err := client.ESIM.Profile(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.show(cmd, p, func(w io.Writer) { showProfile(w, p) })
		}),
	}
}

func showProfile(w io.Writer, p *roamcardv1.EsimProfile) {
	const form = "2006-01-02 15:04 MST"
	fmt.Fprintf(w, "status\t%s\n", p.GetStatus())
	if u := p.GetUsage(); u != nil {
		of := "unlimited"
		if u.TotalBytes != nil {
			of = "of " + u.GetTotalBytes()
		}
		fmt.Fprintf(w, "used\t%s bytes, %s\n", u.GetUsedBytes(), of)
		if u.MeasuredAt != nil {
			fmt.Fprintf(w, "measured\t%s\n", u.GetMeasuredAt().AsTime().Format(form))
		}
	}
	if p.ExpiresAt != nil {
		fmt.Fprintf(w, "expires\t%s\n", p.GetExpiresAt().AsTime().Format(form))
	}
	fmt.Fprintf(w, "read\t%s\n", p.GetReadAt().AsTime().Format(form))
	if c := p.GetCancellation(); c != nil {
		showCancellation(w, c)
	}
}

func (b *buyer) esimCancel() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use: "cancel ORDER", Args: oneArg, Short: "Give an eSIM that was never installed back, for a refund",
		ValidArgsFunction: firstArg(b.completeOrders),
		Long: "The supplier is asked to take the eSIM back. Once it has, what it grants is refunded on chain to the\n" +
			"payer. It continues by itself: `roamcard esim profile ORDER` says how far it is.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			if !yes {
				const why = "Nobody can use the eSIM after that, and only what its supplier credits is refunded."
				about := func(w io.Writer) error {
					o, err := client.Orders.Get(cmd.Context(), args[0])
					if err != nil {
						return err
					}
					return writeColumns(w, func(w io.Writer) { orderText(w, o) })
				}
				if err := sure(cmd, why, about); err != nil {
					return err
				}
			}
			c, err := client.ESIM.Cancel(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return b.show(cmd, c, func(w io.Writer) { showCancellation(w, c) })
		}),
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask first")
	return cmd
}

func showCancellation(w io.Writer, c *roamcardv1.EsimCancellation) {
	fmt.Fprintf(w, "cancellation\t%s\n", c.GetStatus())
	if c.RefundAmount != nil {
		fmt.Fprintf(w, "refund\t%s USDC\n", micros(c.GetRefundAmount()))
	}
	if c.Transaction != nil {
		fmt.Fprintf(w, "transaction\t%s\n", line(c.GetTransaction()))
	}
}

func (b *buyer) esimInstall() *cobra.Command {
	return &cobra.Command{
		Use: "install ORDER", Args: oneArg, Short: "Show the QR code and the codes that install an eSIM",
		ValidArgsFunction: firstArg(b.completeOrders),
		Long: "Draws the QR code on the terminal; point a phone at it. Whoever has the code has the eSIM, so it goes to a " +
			"terminal\n" +
			"and, when --json asks for it, to standard output.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			if err := b.toldSecrets(cmd, "what installs the eSIM"); err != nil {
				return err
			}
			res, err := client.Services.Esim.GetEsimCredentials(cmd.Context(), &roamcardv1.GetEsimCredentialsRequest{
				OrderId: args[0],
			})
			if err != nil {
				return err
			}
			c := res.GetCredentials()
			picture, err := roamcard.QR(c.GetLpa())
			if err != nil {
				return err
			}
			if b.asJSON {
				secrets, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(c)
				if err != nil {
					return fmt.Errorf("encode the answer: %w", err)
				}
				return b.showJSON(cmd, json.RawMessage(secrets))
			}
			return b.show(cmd, c, func(w io.Writer) {
				fmt.Fprint(w, picture)
				fmt.Fprintf(w, "SM-DP+ address\t%s\nactivation code\t%s\nICCID\t%s\n", c.GetSmdpAddress(), c.GetMatchingId(),
					c.GetIccid())
				fmt.Fprintf(w, "on the iPhone\t%s\non Android\t%s\n", c.GetInstallUrls().GetIos(), c.GetInstallUrls().GetAndroid())
			})
		}),
	}
}

// toldSecrets checks that somebody asked for secrets to go where they would: to a terminal, or as JSON.
func (b *buyer) toldSecrets(cmd *cobra.Command, what string) error {
	out, ok := cmd.OutOrStdout().(*os.File)
	if !b.asJSON && (!ok || !terminal(out)) {
		return fmt.Errorf("%w: standard output is no terminal; ask with --json for %s", errUsage, what)
	}
	return nil
}

func (b *buyer) esimRotateToken() *cobra.Command {
	return &cobra.Command{
		Use: "rotate-token ORDER", Args: oneArg,
		Short:             "Make a new delivery token for an eSIM; earlier ones become invalid",
		ValidArgsFunction: firstArg(b.completeOrders),
		Long: "Whoever has the delivery token has the eSIM: it opens this one order, in X-Esim-Delivery-Token,\n" +
			"until it ends. So it goes to a terminal and, when --json asks for it, to standard output.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			if err := b.toldSecrets(cmd, "the token"); err != nil {
				return err
			}
			token, until, err := client.ESIM.RotateToken(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if b.asJSON {
				return b.showJSON(cmd, map[string]any{
					"orderId": args[0], "token": token.Reveal(), "tokenExpiresAt": until.UTC(),
				})
			}
			return b.showText(cmd, func(w io.Writer) {
				fmt.Fprintf(w, "token\t%s\nexpires\t%s\n", line(token.Reveal()), until.UTC().Format("2006-01-02 15:04 MST"))
			})
		}),
	}
}
