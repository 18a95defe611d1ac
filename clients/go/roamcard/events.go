package roamcard

import (
	"log/slog"
	"time"
)

// Events are told what a payer does. Each may be nil. They hold no signature and no secret.
type Events struct {
	// Quote is called when the terms of a price are checked, Approval when the policy allows it, Signed when it
	// is signed and kept.
	Quote, Approval, Signed func(Quote)
	// Replay is called before the same bytes are sent again: attempt counts from 1, and err is what was met.
	Replay func(key string, attempt int, after time.Duration, err error)
	// Settled is called with the answer; transaction is empty when it names none.
	Settled func(key, transaction string)
	// Unkept is called when an answer could not be written into the journal. The answer stands; the next call with
	// the key sends the same bytes.
	Unkept func(key string, err error)
}

// LogEvents writes events to a log, and passes them on to others.
func LogEvents(log *slog.Logger, others *Events) *Events {
	payment := func(what string, tell func(*Events, Quote)) func(Quote) {
		return func(q Quote) {
			log.Info(what, "operation", q.Operation, "idempotencyKey", q.IdempotencyKey, "amountUsd", q.Amount.String(), "payTo",
				q.PayTo)
			tell(others, q)
		}
	}
	return &Events{
		Quote:    payment("payment quoted", (*Events).quote),
		Approval: payment("payment approved", (*Events).approval),
		Signed:   payment("payment signed", (*Events).signed),
		Replay: func(key string, attempt int, after time.Duration, err error) {
			log.Warn("payment sent again", "idempotencyKey", key, "attempt", attempt, "after", after, "error", err)
			others.replay(key, attempt, after, err)
		},
		Settled: func(key, transaction string) {
			log.Info("payment settled", "idempotencyKey", key, "transaction", transaction)
			others.settled(key, transaction)
		},
		Unkept: func(key string, err error) {
			log.Error("journal not written", "idempotencyKey", key, "error", err)
			others.unkept(key, err)
		},
	}
}

func (e *Events) quote(q Quote) {
	if e != nil && e.Quote != nil {
		e.Quote(q)
	}
}

func (e *Events) approval(q Quote) {
	if e != nil && e.Approval != nil {
		e.Approval(q)
	}
}

func (e *Events) signed(q Quote) {
	if e != nil && e.Signed != nil {
		e.Signed(q)
	}
}

func (e *Events) replay(key string, attempt int, after time.Duration, err error) {
	if e != nil && e.Replay != nil {
		e.Replay(key, attempt, after, err)
	}
}

func (e *Events) settled(key, transaction string) {
	if e != nil && e.Settled != nil {
		e.Settled(key, transaction)
	}
}

func (e *Events) unkept(key string, err error) {
	if e != nil && e.Unkept != nil {
		e.Unkept(key, err)
	}
}
