package job_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/store/memory"
)

// greet is a job with arguments of its own.
type greet struct {
	Name string `json:"name"`
}

func (greet) Kind() job.Kind { return "greet" }

// A job is queued once for its key, and runs until its handler is done.
func ExampleRunner() {
	queue := memory.New(nil).Jobs() // in memory; the service's queue is a table
	runner := job.NewRunner(job.Config{Queue: queue, Log: slog.New(slog.DiscardHandler)})
	attempts, finished := 0, make(chan struct{})
	runner.Register(greet{}.Kind(), func(_ context.Context, l *job.Lease) (job.Outcome, error) {
		args, err := job.Decode[greet](l.Row())
		if err != nil {
			return job.Outcome{}, err
		}
		if attempts++; attempts == 1 {
			return job.Snooze(0), nil // not yet: the job runs again
		}
		fmt.Println("hello", args.Name, "at attempt", attempts)
		close(finished)
		return job.Done(), nil
	})

	ctx, stop := context.WithCancel(context.Background())
	for range 2 {
		queued, err := queue.Enqueue(ctx, job.New{Args: greet{Name: "Ada"}, UniqueKey: "ada"})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("queued:", queued)
	}
	stopped := make(chan error)
	go func() { stopped <- runner.Run(ctx) }()
	<-finished
	stop()
	fmt.Println(<-stopped, queue.Rows()[0].Status)
	// Output:
	// queued: true
	// queued: false
	// hello Ada at attempt 2
	// <nil> succeeded
}
