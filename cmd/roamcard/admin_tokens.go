package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) tokens() *cobra.Command {
	cmd := &cobra.Command{Use: "tokens", Args: noArgs, Short: "The tokens of operators", RunE: help}
	cmd.AddCommand(b.tokensMint(), b.tokensList(), b.tokensRevoke())
	return cmd
}

func (b *buyer) tokensMint() *cobra.Command {
	var name, role, reason, key string
	var expires time.Duration
	cmd := &cobra.Command{
		Use: "mint", Args: noArgs, Short: "Mint a token for an operator; it is shown once",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			seconds := int64(expires / time.Second)
			if seconds < 1 || seconds > math.MaxUint32 {
				return fmt.Errorf("%w: --expires is a duration such as 12h or 720h", errUsage)
			}
			ctx := roamcard.WithIdempotencyKey(cmd.Context(), first(key, roamcard.NewKey()))
			res, err := client.Admin().MintToken(ctx, &roamcardv1.MintTokenRequest{
				Name: name, Role: role, ExpiresInSeconds: uint32(seconds), Reason: reason,
			})
			if err != nil {
				return err
			}
			if b.asJSON { // messages are printed without secrets, and this one is shown on purpose
				return b.showJSON(cmd, struct {
					Token  *roamcardv1.OperatorToken `json:"token"`
					Secret string                    `json:"secret,omitempty"`
				}{res.GetToken(), res.GetSecret()})
			}
			return b.show(cmd, res, func(w io.Writer) {
				tokenText(w, res.GetToken())
				fmt.Fprintf(w, "token\t%s\n", first(res.GetSecret(), "was shown when it was minted"))
			})
		}),
	}
	cmd.Flags().StringVar(&name, "name", "", "the operator's name, for the audit trail; one person has one name")
	cmd.Flags().StringVar(&role, "role", "", "viewer, support, treasurer or admin")
	choose(cmd, "role", "viewer", "support", "treasurer", "admin")
	cmd.Flags().DurationVar(&expires, "expires", 0, "how long it is valid, such as 720h; at most 9600h")
	for _, required := range []string{"name", "role", "expires"} {
		_ = cmd.MarkFlagRequired(required)
	}
	actionFlags(cmd, &reason, &key)
	return cmd
}

func (b *buyer) tokensList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List the tokens that were minted, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Admin().Tokens(cmd.Context(),
				&roamcardv1.ListTokensRequest{Status: given(status)}))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListTokensResponse{Tokens: all}, func(w io.Writer) {
				fmt.Fprintln(w, "TOKEN\tNAME\tROLE\tSTATUS\tMINTED BY\tEXPIRES\tLAST USED")
				for _, t := range all {
					tokenText(w, t)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only active, expired or revoked")
	choose(cmd, "status", "active", "expired", "revoked")
	return cmd
}

func (b *buyer) tokensRevoke() *cobra.Command {
	return action[*roamcardv1.OperatorToken]{
		use: "revoke TOKEN", short: "Revoke a token at once; TOKEN is its id",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.OperatorToken, error) {
			res, err := to.RevokeToken(ctx, &roamcardv1.RevokeTokenRequest{Id: args[0], Reason: reason})
			return res.GetToken(), err
		},
		text: tokenText,
	}.command(b)
}

func tokenText(w io.Writer, t *roamcardv1.OperatorToken) {
	used := "-"
	if t.LastUsedAt != nil {
		used = t.GetLastUsedAt().AsTime().Format("2006-01-02 15:04")
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", t.GetId(), t.GetName(), t.GetRole(), t.GetStatus(), t.GetMintedBy(),
		t.GetExpiresAt().AsTime().Format("2006-01-02 15:04"), used)
}
