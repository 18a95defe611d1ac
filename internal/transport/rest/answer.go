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
	"github.com/roamcard/roamcard/internal/faultpoint"
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
	body, err := rt.shown(answer.Body.Bytes())
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

// shown is the answer, which rpcx.JSON has written without spaces; with a response_body, only that member.
func (rt *route) shown(body []byte) ([]byte, error) {
	if rt.answerField == nil {
		return body, nil
	}
	inside, found := bytes.CutPrefix(body, rt.answerStart)
	if found && len(rt.answerStart) > 0 && len(inside) > 0 {
		return inside[:len(inside)-1], nil
	}
	member, ok := memberOf(body, rt.answerField.JSONName())
	if !ok {
		return nil, fmt.Errorf("the answer lacks %s", rt.answerField.FullName())
	}
	return member, nil
}

// memberOf is the value of a member of an object that is written without spaces.
func memberOf(object []byte, name string) ([]byte, bool) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return nil, false
	}
	rest := object[1 : len(object)-1]
	for len(rest) > 0 {
		key := valueLength(rest)
		if key < 2 || key >= len(rest) || rest[key] != ':' {
			return nil, false
		}
		value := valueLength(rest[key+1:])
		if string(rest[1:key-1]) == name {
			return rest[key+1 : key+1+value], value > 0
		}
		if rest = rest[key+1+value:]; len(rest) > 0 {
			rest = rest[1:] // the comma
		}
	}
	return nil, false
}

// valueLength is where the value at the start of a text ends: at a comma, colon or closing bracket outside of it.
func valueLength(text []byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return i
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(text)
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
