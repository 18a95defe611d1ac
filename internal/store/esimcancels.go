package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/roamcard/roamcard/ent"
	"github.com/roamcard/roamcard/ent/esimprofile"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/product/esim"
	"github.com/roamcard/roamcard/internal/x402"
)

const (
	// The lock lets two that begin at once do so one after the other.
	lockProfileSQL = `SELECT 1 FROM esim_profiles
		WHERE id = $1 AND owner = $3 AND order_id = $2 AND status = 'ready' FOR UPDATE`

	refundedBySQL = `SELECT transaction FROM refunds
		WHERE order_id = $1 AND owner = $2 AND transaction IS NOT NULL`

	cancelProfileSQL = `
		UPDATE esim_profiles SET status = 'cancelled', sealed = NULL, sealed_key = '', updated_at = $3
		WHERE id = $1 AND owner = $4 AND order_id = $2 AND status = 'ready' RETURNING 1`
)

// BeginCancel implements esim.CancelStore.
func (e Esims) BeginCancel(ctx context.Context, a esim.CancelArgs) (begun esim.Cancellation, err error) {
	err = e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		owner, err := ownerOf(ctx, raw(tx), ownerOfOrderSQL, a.Order)
		if err != nil {
			return err
		}
		err = raw(tx).QueryRow(ctx, lockProfileSQL, a.Profile, a.Order, owner).Scan(new(int))
		ready := !errors.Is(err, pgx.ErrNoRows)
		if ready && err != nil {
			return err
		}
		row, err := scanJob(raw(tx).QueryRow(ctx, findOwnJobSQL, esim.CancelJob, a.Order, owner))
		found := !errors.Is(err, pgx.ErrNoRows)
		if found && err != nil {
			return err
		}
		if found {
			if begun, err = cancellationOf(row); err != nil || begun.Stage != esim.StageKept || row.Status != job.Succeeded {
				return err
			}
		}
		if !ready {
			return esim.ErrNotFound
		}
		var toppedUp bool
		if err := raw(tx).QueryRow(ctx, toppedUpSQL, a.Profile, owner).Scan(&toppedUp); err != nil {
			return err
		}
		if toppedUp {
			return esim.ErrToppedUp
		}
		if row, err = queueCancel(ctx, tx, a, row, found, owner); err != nil {
			return err
		}
		if begun, err = cancellationOf(row); err != nil {
			return err
		}
		return faultpoint.Fail("cancel.before_begin")
	})
	return begun, err
}

// queueCancel queues a cancellation, in the job of the one that was refused, if there is one.
func queueCancel(
	ctx context.Context, tx *ent.Tx, a esim.CancelArgs, was job.Row, again bool, owner string,
) (row job.Row, err error) {
	if !again {
		to, err := x402.ParseAddress(owner)
		if err != nil {
			return row, fmt.Errorf("read the owner: %w", err)
		}
		row, _, err = insertJob(ctx, tx, esim.NewCancelJob(a), to)
		return row, err
	}
	payload, err := json.Marshal(a)
	if err != nil {
		return row, fmt.Errorf("encode the cancellation: %w", err)
	}
	if _, err := raw(tx).Exec(ctx, resumeJobSQL, was.ID, payload, owner); err != nil {
		return row, err
	}
	wakeOnCommit(tx, topicJobs, string(was.Class))
	return scanJob(raw(tx).QueryRow(ctx, findOwnJobSQL, esim.CancelJob, a.Order, owner))
}

// Cancellation implements esim.CancelStore.
func (e Esims) Cancellation(ctx context.Context, id order.ID) (esim.Cancellation, error) {
	row, err := scanJob(e.s.pool.QueryRow(ctx, findJobSQL, esim.CancelJob, id))
	if errors.Is(err, pgx.ErrNoRows) {
		return esim.Cancellation{}, esim.ErrNotFound
	}
	if err != nil {
		return esim.Cancellation{}, mapError(err)
	}
	found, err := cancellationOf(row)
	if err != nil || found.Stage != esim.StageRefunded {
		return found, err
	}
	transaction := found.ByHand
	if transaction == "" {
		if err := e.s.pool.QueryRow(ctx, refundedBySQL, id, row.Of).Scan(&transaction); err != nil {
			return esim.Cancellation{}, mapError(err)
		}
	}
	found.Transaction, err = x402.ParseHash(transaction)
	return found, err
}

const (
	actListCancels = "esim_cancellations.list"
	actRetryCancel = "esim_cancellation.retry"

	actConcludeCancel = "esim_cancellation.conclude"
)

// Cancellations implements esim.CancelStore.
func (e Esims) Cancellations(ctx context.Context, q job.Query, act order.OperatorContext) ([]job.Row, error) {
	return e.s.listJobs(ctx, esim.CancelJob, q, act, actListCancels)
}

// RetryCancel implements esim.CancelStore.
func (e Esims) RetryCancel(
	ctx context.Context, id order.ID, since time.Time, act order.OperatorContext,
) (found esim.Cancellation, err error) {
	err = e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := lockCancel(ctx, tx, id)
		if err != nil {
			return err
		}
		if found, err = cancellationOf(row); err != nil {
			return err
		}
		repeated, err := e.s.repeats(ctx, tx, act, actRetryCancel, string(id), nil)
		if err != nil || repeated || row.Status != job.OperatorReview {
			return err
		}
		found.Since = since
		if err := resumeCancel(ctx, tx, row, &found); err != nil {
			return err
		}
		return e.s.record(ctx, tx, act, actRetryCancel, string(id), nil, nil)
	})
	return found, err
}

// lockCancel locks the job of an order's cancellation.
func lockCancel(ctx context.Context, tx *ent.Tx, id order.ID) (job.Row, error) {
	row, err := scanJob(raw(tx).QueryRow(ctx, findJobSQL, esim.CancelJob, id))
	if err == nil {
		row, err = lockRow(ctx, tx, jobSQL, row.ID)
	}
	if errors.Is(err, pgx.ErrNoRows) {
		return job.Row{}, esim.ErrNotFound
	}
	return row, err
}

// resumeCancel queues the locked job of a cancellation again, with its arguments of now.
func resumeCancel(ctx context.Context, tx *ent.Tx, row job.Row, as *esim.Cancellation) error {
	payload, err := json.Marshal(as.CancelArgs)
	if err != nil {
		return fmt.Errorf("encode the cancellation: %w", err)
	}
	if _, err := raw(tx).Exec(ctx, resumeJobSQL, row.ID, payload, row.Of); err != nil {
		return err
	}
	as.Job = job.Queued
	wakeOnCommit(tx, topicJobs, string(row.Class))
	return nil
}

// CancelRefunding implements esim.CancelStore.
func (e Esims) CancelRefunding(
	ctx context.Context, id order.ID,
) (found esim.Cancellation, owner x402.Address, signed bool, err error) {
	err = e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := scanJob(raw(tx).QueryRow(ctx, findJobSQL, esim.CancelJob, id))
		if errors.Is(err, pgx.ErrNoRows) {
			return esim.ErrNotFound
		}
		if err != nil {
			return err
		}
		if found, err = cancellationOf(row); err != nil {
			return err
		}
		if owner, err = x402.ParseAddress(row.Of); err != nil {
			return fmt.Errorf("read the owner: %w", err)
		}
		return raw(tx).QueryRow(ctx, refundSignedSQL, id, row.Of).Scan(&signed)
	})
	return found, owner, signed, err
}

// ConcludeCancel implements esim.CancelStore. The lock of the job's row lets the job sign no refund meanwhile.
func (e Esims) ConcludeCancel(
	ctx context.Context, id order.ID, transaction x402.Hash, at time.Time, act order.OperatorContext,
) (found esim.Cancellation, err error) {
	err = e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		row, err := lockCancel(ctx, tx, id)
		if err != nil {
			return err
		}
		found, err = cancellationOf(row)
		if err != nil || row.Status != job.OperatorReview || found.Stage != esim.StageRefunding {
			return err
		}
		byHand := refundedByHand{row.ID, string(id), row.Of, transaction.String()}
		if err := e.s.refundableByHand(ctx, tx, byHand); err != nil {
			return err
		}
		found.Stage, found.Since, found.ByHand, found.Transaction = esim.StageRefunded, at, transaction.String(), transaction
		if err := resumeCancel(ctx, tx, row, &found); err != nil {
			return err
		}
		postAs(tx, e.s.stamp(), row.Of, found.Return())
		return e.s.record(ctx, tx, act, actConcludeCancel, string(id), nil, concluded{found.ByHand})
	})
	return found, err
}

// SaveCancel implements esim.CancelStore.
func (e Esims) SaveCancel(ctx context.Context, f job.Fence, a esim.CancelArgs, postings ...ledger.Posting) error {
	payload, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the cancellation: %w", err)
	}
	return e.s.tx(ctx, func(ctx context.Context, tx *ent.Tx) error {
		fence(tx, f)
		if a.Stage == esim.StageRefunding {
			owner, err := lockedOwner(ctx, tx, f, ownerOfProfileSQL, a.Profile)
			if err != nil {
				return err
			}
			mustAffectOne(tx, fmt.Errorf("profile %s is no longer %s", a.Profile, esimprofile.StatusReady), cancelProfileSQL,
				a.Profile, a.Order, e.s.stamp(), owner)
		}
		later(tx, saveJobSQL, f.ID, f.Of, payload)
		postAs(tx, e.s.stamp(), f.Of, postings...)
		return faultpoint.Fail("cancel.before_commit")
	})
}

func cancellationOf(row job.Row) (esim.Cancellation, error) {
	a, err := job.Decode[esim.CancelArgs](row)
	if err != nil {
		return esim.Cancellation{}, fmt.Errorf("read the cancellation: %w", err)
	}
	return esim.Cancellation{CancelArgs: a, Job: row.Status}, nil
}

func scanEsimCancel(row pgx.CollectableRow) (esim.CancelArgs, error) {
	var j job.Row
	if err := row.Scan(&j.Payload); err != nil {
		return esim.CancelArgs{}, err
	}
	return job.Decode[esim.CancelArgs](j)
}
