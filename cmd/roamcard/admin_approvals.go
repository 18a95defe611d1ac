package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) approvals() *cobra.Command {
	cmd := &cobra.Command{
		Use: "approvals", Args: noArgs, Short: "The decisions that wait for a second operator", RunE: help,
	}
	cmd.AddCommand(b.approvalsList(), b.approvalsShow(), b.approvalsApprove(), b.approvalsReject())
	return cmd
}

func (b *buyer) approvalsList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List decisions, newest first: those that wait unless a status is named",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			all, err := roamcard.Collect(client.Admin().Approvals(cmd.Context(),
				&roamcardv1.ListApprovalsRequest{Status: given(status)}))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListApprovalsResponse{Approvals: all}, func(w io.Writer) {
				fmt.Fprintln(w, "APPROVAL\tACTION\tSUBJECT\tUSD\tSTATUS\tASKED BY\tEXPIRES\tREASON")
				for _, a := range all {
					approvalText(w, a)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only pending, approved, rejected or expired")
	choose(cmd, "status", "pending", "approved", "rejected", "expired")
	return cmd
}

func (b *buyer) approvalsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show APPROVAL", Args: oneArg, Short: "Show a decision that waits for a second operator, or did",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			res, err := client.Admin().GetApproval(cmd.Context(), &roamcardv1.GetApprovalRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return b.show(cmd, res.GetApproval(), func(w io.Writer) { approvalText(w, res.GetApproval()) })
		}),
	}
}

func (b *buyer) approvalsApprove() *cobra.Command {
	return action[*roamcardv1.Approval]{
		use: "approve APPROVAL", short: "Approve a decision of another operator, which takes effect with it",
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.Approval, error) {
			res, err := to.ApproveDecision(ctx, &roamcardv1.ApproveDecisionRequest{Id: args[0], Reason: reason})
			return res.GetApproval(), err
		},
		text: approvalText,
	}.command(b)
}

func (b *buyer) approvalsReject() *cobra.Command {
	return action[*roamcardv1.Approval]{
		use: "reject APPROVAL", short: "Reject a decision that waits; it takes no effect",
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.Approval, error) {
			res, err := to.RejectDecision(ctx, &roamcardv1.RejectDecisionRequest{Id: args[0], Reason: reason})
			return res.GetApproval(), err
		},
		text: approvalText,
	}.command(b)
}

func approvalText(w io.Writer, a *roamcardv1.Approval) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.GetId(), a.GetAction(), a.GetSubject(),
		dollars(a.GetAmountUsdCents()), a.GetStatus(), a.GetRequestedBy(),
		a.GetExpiresAt().AsTime().Format("2006-01-02 15:04"), a.GetReason())
}

// pendingText says that a decision has not taken effect.
func pendingText(w io.Writer, a *roamcardv1.Approval) {
	if a.GetStatus() == "pending" {
		fmt.Fprintf(w, "waits for a second operator:\tadmin approvals approve %s\n", a.GetId())
	}
}
