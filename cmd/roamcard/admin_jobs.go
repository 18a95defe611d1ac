package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

func (b *buyer) jobs() *cobra.Command {
	cmd := &cobra.Command{
		Use: "jobs", Args: noArgs, Short: "The work that has stopped and waits for an operator", RunE: help,
	}
	cmd.AddCommand(b.jobsList(), b.jobsShow(), b.jobsRetry(), b.jobsDrop())
	return cmd
}

func (b *buyer) jobsList() *cobra.Command {
	var status, kind string
	cmd := &cobra.Command{
		Use: "list", Args: noArgs, Short: "List jobs, newest first: failed and parked ones unless a status is named",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, _ []string) error {
			jobs, err := roamcard.Collect(client.Admin().Jobs(cmd.Context(),
				&roamcardv1.ListJobsRequest{Status: given(status), Kind: given(kind)}))
			if err != nil {
				return err
			}
			return b.show(cmd, &roamcardv1.ListJobsResponse{Jobs: jobs}, func(w io.Writer) {
				fmt.Fprintln(w, "JOB\tKIND\tSTATUS\tATTEMPTS\tKEY\tERROR")
				for _, j := range jobs {
					jobText(w, j)
				}
			})
		}),
	}
	cmd.Flags().StringVar(&status, "status", "", "only queued, processing, succeeded, failed or operator_review")
	choose(cmd, "status", "queued", "processing", "succeeded", "failed", "operator_review")
	cmd.Flags().StringVar(&kind, "kind", "", "only jobs of this kind, such as webhook")
	return cmd
}

func (b *buyer) jobsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show JOB", Args: oneArg, Short: "Show a job, and what can be done with it",
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			res, err := client.Admin().GetJob(cmd.Context(), &roamcardv1.GetJobRequest{Id: args[0]})
			if err != nil {
				return err
			}
			return b.show(cmd, res.GetJob(), func(w io.Writer) {
				jobText(w, res.GetJob())
				fmt.Fprintf(w, "step\t%s\n", res.GetJob().GetStep())
				fmt.Fprintf(w, "version\t%d\n", res.GetJob().GetVersion())
				actionsText(w, res.GetJob().GetAllowedActions())
			})
		}),
	}
}

func (b *buyer) jobsRetry() *cobra.Command {
	var version uint32
	cmd := action[*roamcardv1.OperatorJob]{
		use: "retry JOB", short: "Put a job that has stopped back into the queue, with all of its attempts",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.OperatorJob, error) {
			res, err := to.RetryJob(ctx, &roamcardv1.RetryJobRequest{
				Id: args[0], Reason: reason, Version: seen(version),
			})
			return res.GetJob(), err
		},
		text: jobText,
	}.command(b)
	versionFlag(cmd, &version)
	return cmd
}

func (b *buyer) jobsDrop() *cobra.Command {
	var version uint32
	cmd := action[*roamcardv1.DropJobResponse]{
		use: "drop JOB", short: "Delete a job that has stopped; its work is no longer done",
		do: func(
			ctx context.Context, to roamcard.Admin, args []string, reason string,
		) (*roamcardv1.DropJobResponse, error) {
			return to.DropJob(ctx, &roamcardv1.DropJobRequest{Id: args[0], Reason: reason, Version: seen(version)})
		},
		text: func(w io.Writer, res *roamcardv1.DropJobResponse) { fmt.Fprintf(w, "dropped\t%s\n", res.GetId()) },
	}.command(b)
	versionFlag(cmd, &version)
	return cmd
}

func jobText(w io.Writer, j *roamcardv1.OperatorJob) {
	fmt.Fprintf(w, "%s\t%s\t%s\t%d of %d\t%s\t%s\n", j.GetId(), j.GetKind(), j.GetStatus(), j.GetAttemptsUsed(),
		j.GetMaxAttempts(), j.GetUniqueKey(), j.GetLastError())
}
