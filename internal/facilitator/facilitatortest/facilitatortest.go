// Package facilitatortest is a small x402 facilitator over any chain, which misbehaves on demand.
package facilitatortest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/roamcard/roamcard/internal/payment"
	"github.com/roamcard/roamcard/internal/secret"
	"github.com/roamcard/roamcard/internal/x402"
)

// Fault is one way in which a call of /settle goes wrong.
type Fault int

// The faults. Those in the first half move the money, those in the second do not.
const (
	// Honest is none: the money moves, and then the answer says so.
	Honest Fault = iota
	// Pending answers settlement_pending though the money moves.
	Pending
	// Pending500 is Pending as HTTP 500.
	Pending500
	// Lose drops the connection after the money has moved.
	Lose
	// Deny says after the money has moved that the transaction failed.
	Deny
	// Garble answers with half a text after the money has moved.
	Garble
	// Flood answers with more than a client may read after the money has moved.
	Flood

	// Fail answers HTTP 500 with no word about a settlement.
	Fail
	// Refuse says that the payment is invalid.
	Refuse
	// Lie claims success with a transaction that does not exist.
	Lie
	// Boast claims success without a transaction.
	Boast
	// Mistake claims success for another payer.
	Mistake
	// Stall answers settlement_pending and does nothing.
	Stall
	// Hang answers nothing until the caller gives up.
	Hang
	// Unauthorized answers HTTP 401.
	Unauthorized
	// Limit answers HTTP 429 with a Retry-After of one second.
	Limit
	// Screen refuses the payer, as Coinbase's facilitator does.
	Screen
	// LimitUntil is Limit with a date, and LimitLong with an hour.
	LimitUntil
	LimitLong
	// Redirect sends the caller to /elsewhere, which counts as a call and settles.
	Redirect
)

// moves reports whether the money moves in spite of the fault.
func (f Fault) moves() bool { return f < Fail }

// Config is what a Server needs.
type Config struct {
	Chain   payment.Chain
	Settler payment.Settler
	// Token is asked for with every call, when it is set.
	Token secret.Text
	// Key makes it ask for a token of that key for each call, as Coinbase's facilitator does, when its ID is set. The
	// token is for the path that was asked for, so that the server can lie below CDPPath.
	Key CDPKey
	// Deadline is how long a settlement may take before the answer is settlement_pending: 10 s.
	Deadline time.Duration
	Now      func() time.Time
}

// Server is the facilitator. It is an http.Handler and safe for concurrent use.
type Server struct {
	config Config
	mux    *http.ServeMux

	mu     sync.Mutex
	queue  []Fault
	always Fault
	delay  time.Duration
	// onSettle and onSupported are called at the beginning of each call, onMoved before the first answer that claims.
	onSettle, onSupported, onMoved func()
	kinds                          []x402.Kind
	settles                        [][]byte
	// insists says that only what is in verified is settled.
	insists  bool
	verified map[[sha256.Size]byte]bool
	calls    map[string]int
	// nonces are those of the tokens that were taken, and denied says why others were not.
	nonces map[string]bool
	denied []error
}

// New makes a facilitator without faults.
func New(c Config) *Server {
	if c.Deadline == 0 {
		c.Deadline = 10 * time.Second
	}
	s := &Server{config: c, mux: http.NewServeMux(), calls: map[string]int{}, nonces: map[string]bool{},
		kinds: []x402.Kind{{X402Version: x402.Version, Scheme: x402.Scheme, Network: x402.NetworkID}}}
	s.mux.HandleFunc("POST /settle", s.settle)
	s.mux.HandleFunc("POST /verify", s.verify)
	s.mux.HandleFunc("GET /supported", s.supported)
	s.mux.HandleFunc("/elsewhere", s.settle)
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.calls[r.URL.Path]++
	s.mu.Unlock()
	if s.config.Key.ID != "" {
		if err := s.authenticate(r); err != nil {
			s.deny(w, err)
			return
		}
	}
	if !s.config.Token.IsZero() && r.Header.Get("Authorization") != "Bearer "+s.config.Token.Reveal() {
		s.deny(w, errors.New("it is another token"))
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) deny(w http.ResponseWriter, why error) {
	s.mu.Lock()
	s.denied = append(s.denied, why)
	s.mu.Unlock()
	write(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
}

// Denied are the reasons why callers were refused with HTTP 401, oldest first. They are not told.
func (s *Server) Denied() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.denied)
}

// Next queues faults: each coming call of /settle takes one.
func (s *Server) Next(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, faults...)
}

// Always is the fault of every call of /settle that finds none queued. Honest ends it.
func (s *Server) Always(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.always, s.queue = f, nil
}

// Delay is how long each call of /settle waits before it does anything.
func (s *Server) Delay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.delay = d
}

// Insist makes /settle refuse what was not verified since the last time that it was settled, as the end-to-end harness
// of the x402 project does.
func (s *Server) Insist() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.insists, s.verified = true, map[[sha256.Size]byte]bool{}
}

// unverified forgets that a body was verified, and reports whether that was missing.
func (s *Server) unverified(body []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	is := s.insists && !s.verified[sha256.Sum256(body)]
	delete(s.verified, sha256.Sum256(body))
	return is
}

// OnSettle is called at the beginning of each call of /settle.
func (s *Server) OnSettle(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSettle = do
}

// OnMoved is called once, when a transfer has been made and is not told yet.
func (s *Server) OnMoved(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onMoved = sync.OnceFunc(do)
}

// OnSupported is called at the beginning of each call of /supported.
func (s *Server) OnSupported(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.onSupported = do
}

// Kinds replaces what /supported lists.
func (s *Server) Kinds(kinds ...x402.Kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kinds = kinds
}

// Calls is how often a path was called.
func (s *Server) Calls(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[path]
}

// Settles are the bodies of the calls of /settle, oldest first.
func (s *Server) Settles() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.settles)
}

func (s *Server) next(body []byte) (Fault, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settles = append(s.settles, body)
	if len(s.queue) == 0 {
		return s.always, s.delay
	}
	fault := s.queue[0]
	s.queue = s.queue[1:]
	return fault, s.delay
}

// tell calls whom a call is to be told.
func (s *Server) tell(whom func() func()) {
	s.mu.Lock()
	do := whom()
	s.mu.Unlock()
	if do != nil {
		do()
	}
}

func (s *Server) supported(w http.ResponseWriter, _ *http.Request) {
	s.tell(func() func() { return s.onSupported })
	s.mu.Lock()
	defer s.mu.Unlock()
	write(w, http.StatusOK, x402.Supported{Kinds: s.kinds})
}

func (s *Server) verify(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p, reason := s.read(r.Context(), body)
	s.mu.Lock()
	if s.insists {
		s.verified[sha256.Sum256(body)] = reason == ""
	}
	s.mu.Unlock()
	write(w, http.StatusOK, x402.Verification{
		IsValid: reason == "", InvalidReason: reason, Payer: p.Authorization.From.String(),
	})
}

// read takes a payment that meets its own requirements and would move the money; reason says what is
// wrong with it.
func (s *Server) read(ctx context.Context, body []byte) (p x402.Payment, reason string) {
	p, wanted, err := x402.DecodeFacilitatorRequest(body)
	rejected, isRejected := errors.AsType[*x402.RejectedError](err)
	switch {
	case isRejected:
		return p, rejected.Reason
	case err != nil:
		return p, "invalid_payload"
	case wanted.Amount != p.Authorization.Value.String() || wanted.PayTo != p.Authorization.To.String() ||
		wanted.Network != p.Accepted.Network || wanted.Asset != p.Accepted.Asset:
		return p, x402.ReasonRequirements
	}
	err = s.config.Chain.Simulate(ctx, p.Authorization, p.Signature)
	if rejection, ok := errors.AsType[*payment.Rejection](err); ok {
		return p, rejection.Reason
	}
	if err != nil {
		return p, "unexpected_verify_error"
	}
	return p, ""
}

func (s *Server) settle(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	fault, delay := s.next(body)
	s.tell(func() func() { return s.onSettle })
	if s.unverified(body) {
		const reason = "payment_must_be_verified_before_settlement"
		write(w, http.StatusOK, x402.Settlement{Network: "unknown", ErrorReason: reason})
		return
	}
	select {
	case <-r.Context().Done():
		return
	case <-time.After(delay):
	}
	if !fault.moves() {
		s.misbehave(w, r, fault, body)
		return
	}
	// Like a real one, it continues when its caller disconnects.
	answer := s.move(context.WithoutCancel(r.Context()), body)
	if answer.Success {
		s.tell(func() func() { return s.onMoved })
	}
	s.answer(w, fault, answer)
}

// move settles and waits for the chain.
func (s *Server) move(ctx context.Context, body []byte) x402.Settlement {
	ctx, cancel := context.WithTimeout(ctx, s.config.Deadline)
	defer cancel()
	p, reason := s.read(ctx, body)
	answer := x402.Settlement{Network: x402.NetworkID, Payer: p.Authorization.From.String(), ErrorReason: reason}
	if reason != "" {
		return answer
	}
	since := s.config.Now()
	// The same authorization is the same payment, however often it comes.
	id := uuid.NewSHA1(uuid.Nil, slices.Concat(p.Authorization.From[:], p.Authorization.Nonce[:]))
	claimed := payment.Payment{ID: id, Status: payment.Claimed, Network: x402.NetworkID, Authorization: p.Authorization,
		Signature: p.Signature, CreatedAt: since}
	if err := s.config.Settler.Submit(ctx, claimed); err != nil {
		answer.ErrorReason = "unexpected_settle_error"
		return answer
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		v, err := s.config.Chain.Verdict(ctx, p.Authorization, since.Add(-time.Minute))
		switch {
		case err == nil && v.State == payment.Settled:
			answer.Success, answer.Transaction = true, v.Receipt.Transaction.String()
			answer.Amount = p.Authorization.Value.String()
			return answer
		case err == nil && v.State == payment.Void:
			answer.ErrorReason = x402.ReasonTransaction
			return answer
		}
		select {
		case <-ctx.Done():
			answer.ErrorReason = x402.ReasonSettlementPending
			return answer
		case <-look.C:
		}
	}
}

// answer says what happened, or something else.
func (s *Server) answer(w http.ResponseWriter, fault Fault, a x402.Settlement) {
	status := http.StatusOK
	switch fault {
	case Pending:
		a.Success, a.ErrorReason = false, x402.ReasonSettlementPending
	case Pending500:
		a.Success, a.ErrorReason, status = false, x402.ReasonSettlementPending, http.StatusInternalServerError
	case Deny:
		a.Success, a.ErrorReason = false, x402.ReasonTransaction
	case Lose:
		panic(http.ErrAbortHandler)
	case Garble:
		_, _ = w.Write([]byte(`{"success":tr`))
		return
	case Flood:
		_, _ = w.Write(bytes.Repeat([]byte(" "), 4<<20))
	default:
	}
	write(w, status, a)
}

// misbehave answers without moving anything.
func (s *Server) misbehave(w http.ResponseWriter, r *http.Request, fault Fault, body []byte) {
	p, _, _ := x402.DecodeFacilitatorRequest(body) // the answer quotes the payer, if there is one
	a := x402.Settlement{Network: x402.NetworkID, Payer: p.Authorization.From.String()}
	status := http.StatusOK
	switch fault {
	case Fail:
		write(w, http.StatusInternalServerError, map[string]string{"error": "internal"})
		return
	case Hang:
		<-r.Context().Done()
		return
	case Unauthorized:
		write(w, http.StatusUnauthorized, map[string]string{"error": "unauthorized"})
		return
	case Limit:
		w.Header().Set("Retry-After", "1")
		write(w, http.StatusTooManyRequests, map[string]string{"error": "too many requests"})
		return
	case LimitLong:
		w.Header().Set("Retry-After", "3600")
		write(w, http.StatusTooManyRequests, map[string]string{"error": "too many requests"})
		return
	case LimitUntil:
		w.Header().Set("Retry-After", s.config.Now().Add(time.Second).UTC().Format(http.TimeFormat))
		write(w, http.StatusTooManyRequests, map[string]string{"error": "too many requests"})
		return
	case Redirect:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return
	case Refuse:
		a.ErrorReason = x402.ReasonSignature
	case Screen:
		a.ErrorReason = "invalid_payer_kyt"
	case Lie:
		a.Success, a.Transaction = true, x402.Hash(sha256.Sum256(body)).String()
	case Boast:
		a.Success = true
	case Mistake:
		a.Success, a.Transaction, a.Payer = true, x402.Hash(sha256.Sum256(body)).String(), x402.Address{19: 9}.String()
	default:
		a.ErrorReason = x402.ReasonSettlementPending
	}
	write(w, status, a)
}

func write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the caller may have disconnected
}
