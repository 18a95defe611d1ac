package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Kind names what a job does and so which handler runs it.
type Kind string

// Status is how far a job has come.
type Status string

// The statuses. The last three are final, except that an operator may put a job back.
const (
	Queued     Status = "queued"
	Processing Status = "processing"
	Succeeded  Status = "succeeded"
	// Failed is a failure that the outside has confirmed; nothing else may be called failed.
	Failed         Status = "failed"
	OperatorReview Status = "operator_review"
)

// Statuses are all of them, in the order a job meets them.
func Statuses() []Status {
	return []Status{Queued, Processing, Succeeded, Failed, OperatorReview}
}

// ErrLeaseLost says that another claim may be running: the holder of the fence must write nothing else. It is also the
// cause of a handler's cancelled context when its lease has expired.
var ErrLeaseLost = errors.New("job lease lost")

// ErrInvalid says that a job cannot be queued as it is.
var ErrInvalid = errors.New("invalid job")

// DefaultMaxAttempts is how often a job may fail in a row, which takes about 80 minutes: what it asks may be away for
// as long. Crashes use attempts up, too.
const DefaultMaxAttempts = 150

// Args is what a job is asked to do. It is encoded as JSON, so it holds no secrets and keeps reading the
// forms that older versions wrote.
type Args interface{ Kind() Kind }

// New is a job to be queued.
type New struct {
	Args Args
	// UniqueKey makes the second of two equal jobs of a kind a no-op, for as long as the first is kept.
	UniqueKey string
	// RunAt is when it is due; the zero time is at once, by the queue's clock.
	RunAt time.Time
	// MaxAttempts is DefaultMaxAttempts when zero.
	MaxAttempts int
	// Class is Maintain when empty.
	Class Class
	// Exclusive makes it a no-op while another job of its kind is queued or being worked on, whatever its key.
	Exclusive bool
	// LeaseOwner and LeaseTTL insert the job as processing, with its first claim taken by that runner, which must Adopt
	// it once the insert is committed. Set by Runner.Own.
	LeaseOwner string
	LeaseTTL   time.Duration
	// Asked is that runner's clock before the lease begins.
	Asked time.Time
}

// Row is a job as stored. All times are the queue's clock, which every worker shares.
type Row struct {
	ID        uuid.UUID
	Kind      Kind
	Class     Class
	UniqueKey string
	// Of is the owner of the order that it works on, in lower-case hex; empty for maintenance.
	Of          string
	Payload     []byte
	Traceparent string
	Status      Status
	// Attempt counts the claims and only rises: with LeaseOwner it fences one claim from the next.
	Attempt int
	// Uncounted is the number of claims that do not count against MaxAttempts: those up to the last one that did not fail.
	Uncounted   int
	MaxAttempts int
	// Version rises with every write but a heartbeat; an operator's act is guarded by it.
	Version int64
	// Step is the marker of the last irreversible call begun, and StepAt when it was recorded.
	Step       string
	StepAt     *time.Time
	RunAt      time.Time
	CreatedAt  time.Time
	FinishedAt *time.Time
	LastError  string
	LeaseOwner string
	LeaseUntil *time.Time
	// Asked is set on a row just inserted: New's. It is not stored.
	Asked time.Time
}

// Used is how many of MaxAttempts have been taken: how often it has failed in a row.
func (r Row) Used() int { return r.Attempt - r.Uncounted }

// Fence identifies one claim of one job. Every write of the claim's holder includes it.
type Fence struct {
	ID      uuid.UUID
	Owner   string
	Attempt int
	// Of is the job's, which says where its row and those of its order are.
	Of string
}

// Fence is the row's present claim.
func (r Row) Fence() Fence { return Fence{ID: r.ID, Owner: r.LeaseOwner, Attempt: r.Attempt, Of: r.Of} }

// Row checks n and makes the row to insert: a fresh id, the encoded arguments and the limits. Times and
// the trace are left to the queue.
func (n New) Row() (Row, error) {
	if n.Args == nil || n.Args.Kind() == "" {
		return Row{}, fmt.Errorf("%w: no kind", ErrInvalid)
	}
	kind := n.Args.Kind()
	switch {
	case n.UniqueKey == "":
		return Row{}, fmt.Errorf("%w: %s without unique key", ErrInvalid, kind)
	case n.MaxAttempts < 0:
		return Row{}, fmt.Errorf("%w: %s with %d attempts", ErrInvalid, kind, n.MaxAttempts)
	case (n.LeaseOwner == "") != (n.LeaseTTL <= 0):
		return Row{}, fmt.Errorf("%w: %s with half a lease", ErrInvalid, kind)
	}
	payload, err := json.Marshal(n.Args)
	if err != nil {
		return Row{}, fmt.Errorf("%w: encode %s: %w", ErrInvalid, kind, err)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return Row{}, fmt.Errorf("make job id: %w", err)
	}
	row := Row{
		ID: id, Kind: kind, Class: cmp.Or(n.Class, Maintain), UniqueKey: n.UniqueKey, Payload: payload,
		Status: Queued, MaxAttempts: n.MaxAttempts, RunAt: n.RunAt,
	}
	if row.MaxAttempts == 0 {
		row.MaxAttempts = DefaultMaxAttempts
	}
	if n.LeaseOwner != "" {
		row.Status, row.Attempt, row.LeaseOwner, row.Asked = Processing, 1, n.LeaseOwner, n.Asked
	}
	return row, nil
}

// Decode reads the arguments of a job.
func Decode[T Args](row Row) (T, error) {
	var args T
	if err := json.Unmarshal(row.Payload, &args); err != nil {
		return args, fmt.Errorf("decode %s job: %w", row.Kind, err)
	}
	return args, nil
}
