package settlement_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/fulfilment"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/ledger"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/settlement"
	"github.com/roamcard/roamcard/internal/store/memory"
)

// letters are a product: a letter that is written to the buyer.
type letters struct {
	// written are those of the provider, by our references.
	written map[fulfilment.Ref]string
	sent    int
}

var _ settlement.Product = (*letters)(nil)

// writing names each attempt to write the letter of an order.
var writing = fulfilment.Series{Namespace: uuid.NameSpaceURL, Name: "letter", Step: "write"}

func (l *letters) Kind() order.Kind { return "letter" }

func (l *letters) Deliver(ctx context.Context, lease *job.Lease, o order.Order) (order.Progress, error) {
	writer := fulfilment.Provider{
		Name: "writer", CallTimeout: time.Second, Poll: time.Millisecond, Deadline: time.Hour, Now: time.Now,
	}
	ref := writing.Ref(string(o.ID), o.Delivery)
	attempt := fulfilment.Attempt{Provider: writer, Since: o.UpdatedAt, NoTrace: "the writer knows of no letter"}
	letter, err := fulfilment.Make(ctx, lease, writer, fulfilment.Call[string]{
		Step: writing.Marker(o.Delivery),
		Send: func(context.Context) (string, error) {
			l.sent++
			l.written[ref] = "Dear buyer"
			return "", errors.New("connection lost")
		},
		Read: func(context.Context) (string, error) {
			text, ok := l.written[ref]
			if !ok {
				return "", fulfilment.ErrNoRef
			}
			return text, nil
		},
	})
	if err != nil {
		return order.Progress{}, fmt.Errorf("write the letter: %w", err)
	}
	switch letter.Kind {
	case fulfilment.Known:
		return attempt.Delivered("letter written"), nil
	case fulfilment.Refused:
		return attempt.Refused(letter.Refusal), nil
	case fulfilment.Untraceable:
		return attempt.Untraceable(), nil
	case fulfilment.Unknown:
	}
	return attempt.Pending(), nil
}

func (l *letters) Postings(o order.Order) ([]ledger.Posting, error) {
	return []ledger.Posting{ledger.Sold(string(o.ID), o.Price, "revenue:letter")}, nil
}

type deliver struct{}

func (deliver) Kind() job.Kind { return "deliver" }

// A product delivers in steps, which the job of the order repeats until the step says how the delivery ended. A call
// whose answer is lost is read by our reference, and never made again.
func ExampleProduct() {
	product := &letters{written: map[fulfilment.Ref]string{}}
	paid := order.Order{
		ID: "ord_1", Kind: product.Kind(), Status: order.Provisioning, Price: 500, Delivery: 1, UpdatedAt: time.Now(),
	}
	// Settlement does this for every order that is paid.
	queue, ended := memory.New(nil).Jobs(), make(chan struct{})
	runner := job.NewRunner(job.Config{Queue: queue, Log: slog.New(slog.DiscardHandler)})
	runner.Register(deliver{}.Kind(), func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
		at, err := product.Deliver(ctx, l, paid)
		switch {
		case err != nil:
			return job.Outcome{}, err
		case at.State == order.Waiting:
			fmt.Println("waiting, sent:", product.sent)
			return job.Snooze(0), nil
		}
		fmt.Println("delivered:", at.State == order.Delivered, "sent:", product.sent)
		close(ended)
		return job.Done(), nil
	})
	ctx, stop := context.WithCancel(context.Background())
	if _, err := queue.Enqueue(ctx, job.New{Args: deliver{}, UniqueKey: string(paid.ID)}); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- runner.Run(ctx) }()
	<-ended
	stop()
	if err := <-stopped; err != nil {
		log.Fatal(err)
	}
	postings, err := product.Postings(paid)
	if err != nil {
		log.Fatal(err)
	}
	for _, entry := range postings[0].Entries {
		fmt.Println(entry)
	}
	// Output:
	// waiting, sent: 1
	// delivered: true sent: 1
	// customer:ord_1 5.000000
	// revenue:letter -5.000000
}
