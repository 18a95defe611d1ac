package fulfilment_test

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
	"github.com/roamcard/roamcard/internal/store/memory"
)

type printLabel struct{}

func (printLabel) Kind() job.Kind { return "print_label" }

// A call whose answer is lost is not repeated: the next run of its job reads the provider's record by our reference.
func ExampleMake() {
	labels := fulfilment.Series{Namespace: uuid.NameSpaceURL, Name: "label", Step: "print"}
	ref := labels.Ref("order-1", 1)
	printed := map[fulfilment.Ref]string{} // the provider
	provider := fulfilment.Provider{
		Name: "printer", CallTimeout: time.Second, Poll: time.Second, Deadline: time.Hour, Now: time.Now,
	}
	call := fulfilment.Call[string]{
		Step: labels.Marker(1),
		Send: func(context.Context) (string, error) {
			fmt.Println("sent")
			printed[ref] = "label 7"
			return "", errors.New("connection lost")
		},
		Read: func(context.Context) (string, error) {
			label, ok := printed[ref]
			if !ok {
				return "", fulfilment.ErrNoRef
			}
			fmt.Println("read")
			return label, nil
		},
	}

	queue, finished := memory.New(nil).Jobs(), make(chan struct{})
	runner := job.NewRunner(job.Config{Queue: queue, Log: slog.New(slog.DiscardHandler)})
	runner.Register(printLabel{}.Kind(), func(ctx context.Context, l *job.Lease) (job.Outcome, error) {
		got, err := fulfilment.Make(ctx, l, provider, call)
		switch {
		case err != nil:
			return job.Outcome{}, err
		case got.Kind == fulfilment.Unknown:
			return job.Snooze(0), nil
		}
		fmt.Println(got.Record)
		close(finished)
		return job.Done(), nil
	})
	ctx, stop := context.WithCancel(context.Background())
	if _, err := queue.Enqueue(ctx, job.New{Args: printLabel{}, UniqueKey: "order-1"}); err != nil {
		log.Fatal(err)
	}
	stopped := make(chan error)
	go func() { stopped <- runner.Run(ctx) }()
	<-finished
	stop()
	fmt.Println(<-stopped)
	// Output:
	// sent
	// read
	// label 7
	// <nil>
}
