package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) findings() *cobra.Command {
	cmd := &cobra.Command{Use: "findings", Args: noArgs, Short: "What differs between the books", RunE: help}
	cmd.AddCommand(b.findingsList(), b.findingsResolve())
	return cmd
}

func (b *buyer) findingsList() *cobra.Command {
	var status, code string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List what comparisons of the books found, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			findings, err := roamcard.Collect(client.Admin().Findings(cmd.Context(), status, code))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListFindingsResponse{Findings: findings}, func(w io.Writer) {
				fmt.Fprintln(w, "ID\tCODE\tBLOCKS\tSEEN\tRESOLUTION\tBY\tORDER\tDETAIL")
				for _, f := range findings {
					findingText(w, f)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "open", "open or resolved")
	choose(cmd, "status", "open", "resolved")
	cmd.Flags().StringVar(&code, "code", "", "only findings of this code")
	return cmd
}

func (b *buyer) findingsResolve() *cobra.Command {
	var version uint32
	cmd := action[*roamcardv1.Finding]{
		use: "resolve ID", short: "Mark a finding as understood: it blocks nothing until there is more of it",
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.Finding, error) {
			res, err := to.ResolveFinding(ctx, &roamcardv1.ResolveFindingRequest{
				Id: args[0], Reason: reason, Version: seen(version),
			})
			return res.GetFinding(), err
		},
		text: findingText,
	}.command(b)
	versionFlag(cmd, &version)
	return cmd
}

func findingText(w io.Writer, f *roamcardv1.Finding) {
	blocks := "-"
	if f.GetBlocks() {
		blocks = first(f.GetOwner(), "everybody")
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.GetId(), f.GetCode(), blocks,
		f.GetFirstSeenAt().AsTime().Format("2006-01-02 15:04"),
		first(f.GetResolution(), f.GetStatus()), f.GetOperator(), f.GetOrderId(), f.GetDetail())
}
