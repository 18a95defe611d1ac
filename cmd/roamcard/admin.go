package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func admin() *cobra.Command {
	b := &buyer{}
	cmd := &cobra.Command{
		Use: "admin", GroupID: "operate", Args: noArgs,
		Short: "What operators do; the token is in ROAMCARD_OPERATOR_TOKEN or its _FILE", RunE: help,
	}
	b.flags(cmd)
	cmd.AddCommand(b.whoAmI(), b.summary(), b.tokens(), b.approvals(), b.audit(), b.gauges(), b.jobs(), b.feeJobs(),
		b.closings(), b.cancellations(), b.adminOrders(), b.transfers(), b.findings(),
		b.switches(), b.challenges(), b.books(), b.reconciliations(), activity())
	return cmd
}

func (b *buyer) feeJobs() *cobra.Command {
	cmd := &cobra.Command{Use: "fee-jobs", Args: noArgs, Short: "The withdrawals of the issue fee", RunE: help}
	cmd.AddCommand(b.feeJobsList(), b.feeJobsReconcile(), b.feeJobsRetry(), b.feeJobsWriteOff())
	return cmd
}

func (b *buyer) feeJobsList() *cobra.Command {
	var status string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List fee jobs, newest first",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			jobs, err := roamcard.Collect(client.Admin().FeeJobs(cmd.Context(), status))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListFeeJobsResponse{Jobs: jobs}, func(w io.Writer) {
				fmt.Fprintln(w, "JOB\tORDER\tSTATUS\tVERSION\tREASON")
				for _, j := range jobs {
					feeJobText(w, j)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only queued, processing, succeeded, failed or operator_review")
	choose(cmd, "status", "queued", "processing", "succeeded", "failed", "operator_review")
	return cmd
}

func (b *buyer) feeJobsReconcile() *cobra.Command {
	return &cobra.Command{
		Use: "reconcile JOB", Args: oneArg, Short: "Read what became of a withdrawal at the issuer; nothing is sent again",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			res, err := client.Admin().ReconcileFeeJob(cmd.Context(), &roamcardv1.ReconcileFeeJobRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return b.show(cmd, res.GetJob(), func(w io.Writer) { feeJobText(w, res.GetJob()) })
		}),
	}
}

func (b *buyer) feeJobsRetry() *cobra.Command {
	var revision uint32
	cmd := action[*roamcardv1.FeeJob]{
		use: "retry JOB", short: "Queue the next version of a withdrawal that the issuer confirmed as failed",
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.FeeJob, error) {
			res, err := to.RetryFeeJob(ctx, &roamcardv1.RetryFeeJobRequest{
				Id: args[0], Reason: reason, Revision: seen(revision),
			})
			return res.GetJob(), err
		},
		text: feeJobText,
	}.command(b)
	revisionFlag(cmd, &revision)
	return cmd
}

func (b *buyer) feeJobsWriteOff() *cobra.Command {
	var revision uint32
	cmd := action[*roamcardv1.FeeJob]{
		use:   "write-off JOB",
		short: "Give up a fee that the card could not pay: it becomes a cost, and its owner can top up again",
		do: func(ctx context.Context, to roamcard.Admin, args []string, reason string) (*roamcardv1.FeeJob, error) {
			res, err := to.WriteOffFeeJob(ctx, &roamcardv1.WriteOffFeeJobRequest{
				Id: args[0], Reason: reason, Revision: seen(revision),
			})
			return res.GetJob(), err
		},
		text: feeJobText,
	}.command(b)
	revisionFlag(cmd, &revision)
	return cmd
}

func feeJobText(w io.Writer, j *roamcardv1.FeeJob) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\n", j.GetId(), j.GetOrderId(), j.GetStatus(), j.GetVersion(), j.GetReason())
}
