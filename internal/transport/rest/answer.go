package rest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/testing/faultpoint"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// send rewrites a Connect answer to REST.
func (rt *route) send(w http.ResponseWriter, r *http.Request, answer *rpcx.Answer, left *roamcardv1.Problem) {
	for name, values := range answer.Header() {
		if !ofConnect(name) {
			w.Header()[name] = values
		}
	}
	if answer.Status != http.StatusOK {
		problem, err := refusalOf(r.Context(), left, answer.Body.Bytes())
		if err != nil {
			rt.log.ErrorContext(r.Context(), "an answer cannot be shown",
				"procedure", rt.procedure, "status", answer.Status, "error", err)
		}
		write(w, problem)
		return
	}
	body, err := rt.compact(answer.Body.Bytes())
	if err != nil {
		rt.log.ErrorContext(r.Context(), "an answer cannot be shown",
			"procedure", rt.procedure, "status", answer.Status, "error", err)
		Problem(w, r, fault.New(fault.Internal, ""))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rt.success())
	if w.Header().Get(x402.HeaderResponse) != "" {
		faultpoint.ReachAfter("answer.half", func() {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			body = body[len(body)/2:]
		})
	}
	// A failed write means that the caller has disconnected.
	_, _ = w.Write(body)
}

// success is the status of a successful answer by the method's policy.
func (rt *route) success() int {
	if status := rt.policy.GetSuccessStatus(); status > 0 {
		return int(status)
	}
	return http.StatusOK
}

// ofConnect reports whether a header of an answer is about the inner call only.
func ofConnect(name string) bool {
	switch name {
	case "Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type", "Trailer", "Transfer-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Connect-") || strings.HasPrefix(name, "Trailer-")
}

// compact is the answer without protojson's random spacing; with a response_body, only that member.
func (rt *route) compact(body []byte) ([]byte, error) {
	if rt.answerField != nil {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		member, ok := members[rt.answerField.JSONName()]
		if !ok {
			return nil, fmt.Errorf("the answer lacks %s", rt.answerField.FullName())
		}
		body = member
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, fmt.Errorf("compact the answer: %w", err)
	}
	return compact.Bytes(), nil
}

// refusalOf is the problem of a failed call: the one in its CallInfo or, for an error that Connect itself made,
// that of its code. When the answer is no error of Connect, it is an internal error, and err says why.
func refusalOf(ctx context.Context, left *roamcardv1.Problem, body []byte) (*roamcardv1.Problem, error) {
	if left != nil {
		return left, nil
	}
	var wire struct{ Code connect.Code }
	if err := json.Unmarshal(body, &wire); err != nil || wire.Code == 0 {
		return rpcx.ProblemOf(ctx, fault.New(fault.Internal, "")),
			fmt.Errorf("read the error: %w", cmp.Or(err, errNoCode))
	}
	return rpcx.ProblemOf(ctx, rpcx.FaultOfCode(wire.Code)), nil
}

var errNoCode = errors.New("it has no code")
