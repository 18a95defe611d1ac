package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
)

// action is what an operator does to something. Its command has flags for the reason and the Idempotency-Key.
type action[T proto.Message] struct {
	use, short string
	// args checks the arguments; nil wants one.
	args cobra.PositionalArgs
	do   func(ctx context.Context, to roamcard.Admin, args []string, reason string) (T, error)
	// text shows what has become of it. That it waits for a second operator is shown for every action.
	text func(w io.Writer, m T)
}

// command is the action's command.
func (a action[T]) command(b *buyer) *cobra.Command {
	var reason, key string
	cmd := &cobra.Command{
		Use: a.use, Args: a.args, Short: a.short,
		RunE: b.run(func(cmd *cobra.Command, client *roamcard.Client, args []string) error {
			ctx := roamcard.WithIdempotencyKey(cmd.Context(), first(key, roamcard.NewKey()))
			m, err := a.do(ctx, client.Admin(), args, reason)
			if err != nil {
				return err
			}
			return b.show(cmd, m, func(w io.Writer) {
				a.text(w, m)
				if may, ok := any(m).(interface{ GetPendingApproval() *roamcardv1.Approval }); ok {
					pendingText(w, may.GetPendingApproval())
				}
			})
		}),
	}
	if a.args == nil {
		cmd.Args = oneArg
	}
	actionFlags(cmd, &reason, &key)
	return cmd
}

// actionFlags adds the flags of every action of an operator, for the audit trail.
func actionFlags(cmd *cobra.Command, reason, key *string) {
	cmd.Flags().StringVar(reason, "reason", "", "why, for the audit trail")
	cmd.Flags().StringVar(key, "key", "", "Idempotency-Key; the same key does it once (default: a new one)")
}

// versionFlag adds the flag of actions on what may have changed since it was read.
func versionFlag(cmd *cobra.Command, version *uint32) {
	cmd.Flags().Uint32Var(version, "version", 0, "only while it is at this version, as it was read (default: at any)")
}

// revisionFlag is versionFlag for jobs whose version is that of their call to a provider.
func revisionFlag(cmd *cobra.Command, revision *uint32) {
	cmd.Flags().Uint32Var(revision, "revision", 0, "only while it is at this revision, as it was read (default: at any)")
}

// seen is a version, or nothing when it is zero.
func seen(version uint32) *uint32 {
	if version == 0 {
		return nil
	}
	return &version
}
