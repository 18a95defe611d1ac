package job

import "time"

// Work is a kind of job with what does it, as the package that owns it hands it over.
type Work struct {
	Kind    Kind
	Handler Handler
	// Every is how often a job of Args is queued; zero queues none.
	Every time.Duration
	Args  Args
	// Resume is the operators' command by which a job of this kind goes on that has stopped with a decision to be made.
	// Empty says that there is none to be made.
	Resume string
	// Start is queued when the process starts; nil queues nothing.
	Start *New
}

// Add registers work, with its period if it has one.
func (r *Runner) Add(w Work) {
	r.Register(w.Kind, w.Handler)
	if w.Every > 0 {
		r.Every(w.Every, w.Args)
	}
}
