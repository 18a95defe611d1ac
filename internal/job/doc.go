// Package job runs work that must survive a restart: queued with the change that makes it due, leased to
// one worker at a time, retried, and parked for an operator when it cannot go on.
//
//	Enqueue -> queued --claim--> processing -> succeeded | failed | operator_review
//	             ^                   |
//	             +-- retry, snooze, release, lease expired
//
// A job runs at least once. What must happen at most once is guarded by the job's marker: Lease.Submit
// records the step before the call, and the attempt after a crash reads Lease.Step and looks up what
// became of it instead of calling again.
package job
