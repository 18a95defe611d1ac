package job

import "time"

// Class is a kind of work with its own slots: a backlog in one class does not delay the others.
type Class string

// The classes. A job is of the class it was queued with until a handler enters another.
const (
	// Settle is settling buyers' payments.
	Settle Class = "settle"
	// Deliver is delivering what is paid, and refunding.
	Deliver Class = "deliver"
	// Maintain is everything that no buyer waits for. It is the default.
	Maintain Class = "maintain"
)

// Classes are all of them.
func Classes() []Class { return []Class{Settle, Deliver, Maintain} }

// queue is a runner's state of one class.
type queue struct {
	class Class
	slots int
	// claimed is how many slots are taken; the runner's lock guards it.
	claimed int
	// freed says that a slot became free, due that a job which this runner put back is due.
	freed, due chan struct{}
}

func newQueue(class Class, slots int) *queue {
	return &queue{class: class, slots: slots, freed: make(chan struct{}, 1), due: make(chan struct{}, 1)}
}

// signal wakes the one reader of a channel of one.
func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// enter moves a running attempt from a slot of one class to a slot of another, if one is free. An adopted attempt
// has no slot and needs none.
func (r *Runner) enter(from, to Class, adopted bool) bool {
	if adopted || from == to {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	source, target := r.queues[from], r.queues[to]
	if target.claimed >= target.slots {
		return false
	}
	target.claimed++
	source.claimed--
	signal(source.freed)
	return true
}

// wakeAt polls when a job is due, if that is before the next poll.
func (r *Runner) wakeAt(class Class, delay time.Duration) {
	if delay > 0 && delay < r.Poll && !r.AdoptOnly {
		time.AfterFunc(delay, func() { signal(r.queues[class].due) })
	}
}
