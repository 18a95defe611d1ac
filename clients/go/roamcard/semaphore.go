package roamcard

import "context"

// semaphore is a lock that is held while the network is asked. Whoever waits for it stops when its context ends.
type semaphore chan struct{}

func newSemaphore() semaphore { return make(semaphore, 1) }

func (s semaphore) take(ctx context.Context) error {
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s semaphore) give() { <-s }
