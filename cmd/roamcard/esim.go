package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/boombuler/barcode/qr"
	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func esim() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{Use: "esim", GroupID: "buy", Args: noArgs, Short: "Find, buy and install a travel eSIM", RunE: help}
	b.flags(cmd)
	b.paying(cmd)
	cmd.AddCommand(b.esimPlans(), b.esimBuy(), b.esimStatus(), b.esimInstall())
	return cmd
}

func (b *buyer) esimPlans() *cobra.Command {
	var country, kind string
	cmd := &cobra.Command{
		Use: "plans", Args: noArgs, Short: "List plans, cheapest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			req := &roamcardv1.ListEsimPlansRequest{}
			if country != "" {
				req.CountryCode = &country
			}
			if kind != "" {
				req.Type = &kind
			}
			res, err := client.Esim.ListEsimPlans(cmd.Context(), req)
			if err != nil {
				return err
			}
			return b.show(cmd, res, func(w io.Writer) {
				fmt.Fprintln(w, "PLAN\tUSD\tDATA\tDAYS\tNAME")
				for _, p := range res.GetPlans() {
					fmt.Fprintf(w, "%s\t%s\t%d MB\t%d\t%s\n", p.GetPlanId(), dollars(p.GetPriceUsdCents()), p.GetDataMb(), p.GetValidityDays(), p.GetName())
				}
			})
		}),
	}
	cmd.Flags().StringVar(&country, "country", "", "two letters, as in JP; regional plans that cover it are listed too")
	cmd.Flags().StringVar(&kind, "type", "", "country or region")
	return cmd
}

func (b *buyer) esimBuy() *cobra.Command {
	var key string
	cmd := &cobra.Command{
		Use: "buy [PLAN]", Args: optionalArg, Short: "Buy a plan, the cheapest one when none is named",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			plan := ""
			if len(args) == 1 {
				plan = args[0]
			}
			bought, err := client.BuyESIM(cmd.Context(), plan, key)
			if err != nil {
				return err
			}
			// What installs the eSIM is shown by `esim install` alone, and never in passing.
			if err := b.showOrder(cmd, bought.Order); err != nil || b.asJSON {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "Install it with: roamcard esim install %s\n", bought.Order.GetOrderId())
			return err
		}),
	}
	cmd.Flags().StringVar(&key, "key", "", "idempotency key; the same key never pays twice (default: a new one)")
	return cmd
}

func (b *buyer) esimStatus() *cobra.Command {
	return &cobra.Command{
		Use: "status ORDER", Args: oneArg, Short: "Show how far an eSIM has come",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			res, err := client.Esim.GetEsimOrder(cmd.Context(), &roamcardv1.GetEsimOrderRequest{OrderId: args[0]})
			if err != nil {
				return err
			}
			return b.showOrder(cmd, res.GetOrder())
		}),
	}
}

func (b *buyer) esimInstall() *cobra.Command {
	return &cobra.Command{
		Use: "install ORDER", Args: oneArg, Short: "Show the QR code and the codes that install an eSIM",
		Long: "Draws the QR code on the terminal; point a phone at it. Whoever has the code has the eSIM, so it goes to a terminal\n" +
			"and, when --json asks for it, to standard output.",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			out, ok := cmd.OutOrStdout().(*os.File)
			if !b.asJSON && (!ok || !terminal(out)) {
				return fmt.Errorf("%w: standard output is no terminal; ask with --json for what installs the eSIM", errUsage)
			}
			res, err := client.Esim.GetEsimCredentials(cmd.Context(), &roamcardv1.GetEsimCredentialsRequest{OrderId: args[0]})
			if err != nil {
				return err
			}
			c := res.GetCredentials()
			picture, err := qrText(c.GetLpa())
			if err != nil {
				return err
			}
			return b.show(cmd, c, func(w io.Writer) {
				fmt.Fprint(w, picture)
				fmt.Fprintf(w, "SM-DP+ address\t%s\nactivation code\t%s\nICCID\t%s\n", c.GetSmdpAddress(), c.GetMatchingId(), c.GetIccid())
				fmt.Fprintf(w, "on the iPhone\t%s\non Android\t%s\n", c.GetInstallUrls().GetIos(), c.GetInstallUrls().GetAndroid())
			})
		}),
	}
}

// qrText draws a QR code in half blocks, two modules to a character, light on the terminal's dark.
func qrText(content string) (string, error) {
	code, err := qr.Encode(content, qr.M, qr.Auto)
	if err != nil {
		// The encoder's own error would quote the text.
		return "", fmt.Errorf("encode the QR code of %d characters", len(content))
	}
	const quiet = 2 // modules of light around it; terminals have little room
	size := code.Bounds().Dx()
	light := func(x, y int) bool {
		if x < 0 || y < 0 || x >= size || y >= size {
			return y < size+quiet
		}
		r, _, _, _ := code.At(x, y).RGBA()
		return r > 0
	}
	var text strings.Builder
	for y := -quiet; y < size+quiet; y += 2 {
		for x := -quiet; x < size+quiet; x++ {
			switch {
			case light(x, y) && light(x, y+1):
				text.WriteRune('█')
			case light(x, y):
				text.WriteRune('▀')
			case light(x, y+1):
				text.WriteRune('▄')
			default:
				text.WriteRune(' ')
			}
		}
		text.WriteByte('\n')
	}
	return text.String(), nil
}
